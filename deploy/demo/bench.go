package demo

import (
	"errors"
	"fmt"
	"time"
)

// GenerateCUR writes one CUR 2.0 Parquet file of so many rows, for measurements: a fleet of
// 400 machines whose hours, volumes and traffic fill October 2026. The same rows and seed give
// the same bytes. Memory does not grow with rows.
func GenerateCUR(path string, rows int, seed uint64) error {
	if rows < 1 {
		return fmt.Errorf("generating a bill of %d rows: want at least 1", rows)
	}
	f, err := create(path)
	if err != nil {
		return err
	}
	g := newBulk(seed)
	for i := 0; i < rows && err == nil; i++ {
		err = f.add(g.line(i))
	}
	return errors.Join(err, f.close())
}

const bulkMachines = 400

// bulk makes lines from their position alone.
type bulk struct {
	seed     uint64
	payer    *payer
	catalog  catalog
	boxes    []*item
	machines []*holder
	volumes  []*holder
	hours    []string
	current  line
	plan     plan
}

func newBulk(seed uint64) *bulk {
	g := &bulk{seed: seed, payer: &payer{id: payerMain, name: "northlight-payer", billType: "Anniversary"}, catalog: newCatalog()}
	for _, s := range []shape{p5, g6Twelve, g6Single, g6Double, m7Control, m7Node} {
		g.boxes = append(g.boxes, box("BoxUsage", s, s.price))
	}
	projects := []string{projectTrain, projectVision, projectChat, "search-ranking", "speech", ""}
	for i := range bulkMachines {
		m := machine{
			account: []string{accountTrain, accountServe, accountPlatform}[i%3], accountName: []string{"ml-train", "ml-serve", "platform"}[i%3],
			project: projects[i%len(projects)], team: fmt.Sprintf("team-%02d", i%17), environment: []string{"prod", "staging", "research"}[i%3],
		}
		id := fmt.Sprintf("0%012x", noise(seed, uint64(i))>>16)
		g.machines = append(g.machines, m.holder("i-"+id))
		g.volumes = append(g.volumes, m.holder("vol-"+id))
	}
	for h := range hoursOfMonth {
		g.hours = append(g.hours, interval(hour(h), hour(h+1)))
	}
	return g
}

// line returns the i-th line; it is good until the next call.
func (g *bulk) line(i int) *line {
	n := noise(g.seed, uint64(i))
	h, m := i/(4*bulkMachines)%hoursOfMonth, i/4%bulkMachines
	from := monthStart.Add(time.Duration(h) * time.Hour)
	l := line{
		payer: g.payer, holder: g.machines[m], kind: kindUsage, from: from, to: from.Add(time.Hour), interval: g.hours[h], id: n,
	}
	switch i % 4 {
	case 0:
		l.item, l.amount = g.boxes[m%len(g.boxes)], one
	case 1:
		l.item, l.holder, l.amount = g.catalog.disk, g.volumes[m], units(200+n%1800)*one/hoursOfMonth
	case 2:
		l.item, l.amount = g.catalog.transferOut, units(n%uint64(4*one))
	default:
		l.item, l.amount = g.catalog.transferRegional, units(n%uint64(20*one))
	}
	l.cost = mul(l.amount, l.item.rate)
	l.net, l.rate, l.list = l.cost, some(l.item.rate), some(l.cost)
	if i%4 == 2 {
		l.net = mul(l.cost, 8800*e4)
	}
	if i%4 == 0 && m%5 == 0 {
		g.plan = plan{arn: planARN, rate: l.item.rate / 10 * 7, effective: some(l.item.rate / 10 * 7)}
		l.kind, l.plan = kindCovered, &g.plan
	}
	if i%4 == 2 && m%5 == 0 { // the covered hour two lines above comes back as its negation
		it := g.boxes[m%len(g.boxes)]
		g.plan = plan{arn: planARN}
		l = line{
			payer: g.payer, item: it, holder: l.holder, kind: kindNegation, from: l.from, to: l.to, interval: l.interval, id: n,
			amount: one, cost: -it.rate, net: -it.rate, rate: some(-it.rate), plan: &g.plan,
		}
	}
	g.current = l
	return &g.current
}
