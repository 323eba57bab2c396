package demo

import (
	"fmt"
	"time"
)

// Deliveries of the main bill. The first came the morning after the month's end, when the
// last hours were not rated yet; the second is the one that was invoiced.
const (
	first, restated = 1, 2

	version1 = "2026-11-01T06:12:40Z"
	version2 = "2026-11-04T07:20:11Z"
	// ratedHours is how many hours of the month the first delivery covers.
	ratedHours = 30*24 + 15
)

// book collects the lines of one delivery.
type book struct {
	version  int
	hours    int
	payer    *payer
	catalog  catalog
	lines    []line
	interval []string // of each hour
}

func newBook(p *payer, version int) *book {
	b := &book{version: version, hours: hoursOfMonth, payer: p, catalog: newCatalog()}
	if version == first {
		b.hours = ratedHours
	}
	for h := range hoursOfMonth {
		b.interval = append(b.interval, interval(hour(h), hour(h+1)))
	}
	return b
}

func interval(from, to time.Time) string {
	return from.Format(time.RFC3339) + "/" + to.Format(time.RFC3339)
}

// hourly adds a line of one hour; cost and net follow from the item's rate.
func (b *book) hourly(h int, it *item, who *holder, amount units) *line {
	cost := mul(amount, it.rate)
	l := b.add(line{
		item: it, holder: who, kind: kindUsage, from: hour(h), to: hour(h + 1), interval: b.interval[h],
		amount: amount, cost: cost, net: cost, rate: some(it.rate), list: some(cost),
	})
	return l
}

// add appends a line. The pointer is good until the next one is added.
func (b *book) add(l line) *line {
	l.payer = b.payer
	l.id = noise(uint64(b.version), uint64(len(b.payer.name)), uint64(len(b.lines)))
	b.lines = append(b.lines, l)
	return &b.lines[len(b.lines)-1]
}

// mainBill returns the lines of one delivery of the organisation's bill.
func mainBill(version int) []line {
	p := &payer{id: payerMain, name: "northlight-payer", billType: "Anniversary"}
	if version == restated {
		p.invoiceID = "1987654321"
	}
	b := newBook(p, version)
	used := make([]units, hoursOfMonth)
	machines := fleet()
	for i := range machines {
		m := &machines[i]
		switch m.pricing {
		case spot:
			b.spot(m)
		case savingsPlan:
			b.covered(m, used)
		default:
			b.onDemand(m)
		}
		if m.disk > 0 {
			b.around(m, uint64(i))
		}
	}
	b.commitment(used)
	b.reservation()
	b.pods()
	b.platform()
	b.once()
	return b.lines
}

func (b *book) onDemand(m *machine) {
	who, it := m.holder(m.id), box("BoxUsage", m.shape, m.shape.price)
	for h := range b.hours {
		if s := m.secondsIn(h); s > 0 {
			l := b.hourly(h, it, who, units(s)*one/3600)
			if m.host == "trn-06" {
				l.capacityARN, l.capacity = reservationARN, "Used"
			}
		}
	}
}

// covered adds for each hour the usage that the savings plan covers, and its negation.
func (b *book) covered(m *machine, used []units) {
	who, it := m.holder(m.id), box("BoxUsage", m.shape, m.shape.price)
	nobody := &holder{account: m.account, name: m.accountName, zone: zone}
	for h := range b.hours {
		s := m.secondsIn(h)
		if s == 0 {
			continue
		}
		l := b.hourly(h, it, who, units(s)*one/3600)
		effective := mul(l.amount, m.shape.planRate)
		used[h] += effective
		l.kind, l.description = kindCovered, "SavingsPlan covered "+m.shape.name
		l.plan = &plan{arn: planARN, rate: m.shape.planRate, effective: some(effective)}
		amount, cost := l.amount, l.cost
		b.add(line{
			item: it, holder: nobody, kind: kindNegation, from: hour(h), to: hour(h + 1), interval: b.interval[h],
			amount: amount, cost: -cost, net: -cost, rate: some(-it.rate), plan: &plan{arn: planARN},
			description: "SavingsPlanNegation used by AccountId : " + m.account + " and UsageSku : " + it.sku,
		})
	}
}

// spot adds a spot instance's hours. The first delivery billed the last, interrupted hour of
// every third one in full; the second takes that back.
func (b *book) spot(m *machine) {
	who := m.holder(m.id)
	for h := range b.hours {
		s := m.secondsIn(h)
		if s == 0 {
			continue
		}
		if b.version == first && s < 3600 && m.runs[0].from/86400%3 == 0 {
			s = 3600
		}
		rate := spotRate(m.shape, h)
		l := b.hourly(h, box("SpotUsage", m.shape, rate), who, units(s)*one/3600)
		l.list = some(0)
	}
}

// spotRate moves with the market: 33 to 40 % of the on-demand price, whole hundredths of a cent.
func spotRate(s shape, h int) units {
	percent := 33 + noise(uint64(s.price), uint64(h/6))%8
	return s.price / 100 * units(percent) / e4 * e4
}

// around adds what lives beside a machine: its volume and its traffic.
func (b *book) around(m *machine, seed uint64) {
	volume := m.holder(fmt.Sprintf("vol-0%s", m.id[4:]))
	net := m.holder(m.id)
	for h := range b.hours {
		b.hourly(h, b.catalog.disk, volume, m.disk*one/hoursOfMonth)
		if m.secondsIn(h) == 0 {
			continue
		}
		out := units(noise(seed, uint64(h)) % uint64(4*one))
		if h/24 == 29 && b.version == restated {
			out = out * 137 / 100 // traffic of 30 October was counted again
		}
		l := b.hourly(h, b.catalog.transferOut, net, out)
		l.net = mul(l.cost, 8800*e4) // a private rate for traffic, the only discount
		b.hourly(h, b.catalog.transferRegional, net, units(noise(seed, uint64(h), 7)%uint64(20*one)))
	}
}

// commitment adds the savings plan's fee of each hour. What the plan did not cover is waste.
func (b *book) commitment(used []units) {
	who := &holder{account: payerMain, name: "northlight-payer", resource: planARN}
	for h := range b.hours {
		l := b.hourly(h, b.catalog.planFee, who, one)
		l.kind, l.list = kindPlanFee, opt{}
		l.plan = &plan{
			arn: planARN, total: some(commitment), used: some(used[h]), upfront: some(0), recurs: some(commitment),
		}
	}
}

// reservation adds a p5 held for a launch that came a day and a half late: 36 hours unused,
// then placeholders of price 0 while trn-06 ran in it.
func (b *book) reservation() {
	m := machine{account: accountTrain, accountName: "ml-train", project: projectTrain, team: "pretrain", environment: "prod"}
	who := m.holder(reservationARN)
	unused, placeholder := box("UnusedBox", p5, p5.price), box("Reservation", p5, 0)
	for h := 25 * 24; h < 28*24+12; h++ {
		it, status := unused, "Unused"
		if h >= 26*24+12 {
			it, status = placeholder, "Reserved"
		}
		l := b.hourly(h, it, who, one)
		l.capacityARN, l.capacity = reservationARN, status
	}
}

// pods adds the split rows of the serving cluster: they cost nothing, their parents do.
func (b *book) pods() {
	for _, s := range servingPods() {
		who := &holder{
			account: accountServe, name: "ml-serve", zone: zone,
			resource: "arn:aws:eks:us-east-2:" + accountServe + ":pod/" + eksCluster + "/" + s.namespace + "/" + s.pod + "/" + s.uid,
			tags:     []pair{{"aws_eks_cluster_name", eksCluster}, {"aws_eks_namespace", s.namespace}, {"user_project", s.project}, {"user_team", s.team}},
		}
		vcpus := units(g6Twelve.vcpus) * one * units(len(s.gpus)) / units(g6Twelve.gpus)
		cost := g6Twelve.price / units(g6Twelve.gpus) * units(len(s.gpus))
		for h := range b.hours {
			l := b.hourly(h, b.catalog.pod, who, vcpus)
			l.list, l.rate = opt{}, some(0)
			l.split = &split{
				parent: s.resource, ratio: (one * units(len(s.gpus)) / units(g6Twelve.gpus)).text(),
				cost: some(cost), unused: some(0), reserved: some(vcpus), actual: some(vcpus * units(60+noise(uint64(h))%30) / 100),
			}
		}
	}
}
