package report

import (
	"context"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/schema/money"
)

// idleRows is how many nodes an allocation report shows.
const idleRows = 15

// idle makes the report of wasted GPU time, the worst node on top.
func (b *Builder) idle(ctx context.Context, r Request, out *Report) error {
	out.Title = "Idle GPUs"
	from, to := r.Month.Bounds(b.zone)
	rows, err := b.db.Idle(ctx, query.IdleQuestion{From: from, To: to})
	if err != nil {
		return err
	}
	// Idle time without a price has no currency: it gets a section of its own.
	var more []string
	for _, row := range rows {
		more = append(more, row.Currency)
	}
	for _, currency := range out.sections(more...) {
		t := b.idleTable(rows, currency)
		s := Section{Title: currency, Tables: []Table{t}}
		if currency == "" && len(t.Rows) > 0 {
			s.Title = "Without a price"
		}
		if len(t.Rows) > 0 {
			s.Tiles = idleTiles(rows, currency)
			s.Plots = []Plot{idlePlot(rows, currency)}
		}
		out.Sections = append(out.Sections, s)
	}
	out.Notes = append(out.Notes,
		"A stretch counts in the month in which it began. A gap in telemetry ends a stretch: unknown time is never idle.",
		"Avoidable is what stopping the machine would have saved; committed machines save nothing when they stop.",
		"Waste is effective cost before credits, refunds and tax: a credit does not make idle free.")
	return nil
}

func (b *Builder) idleTable(rows []query.IdleRow, currency string) Table {
	t := Table{
		Key: "idle", Title: "Idle GPUs, the most expensive node first", Currency: currency, Main: true, Empty: "No idle GPUs were seen.",
		Columns: []Column{
			{Key: "node", Title: "Node", Kind: Text}, {Key: "resource_id", Title: "Resource", Kind: Text, Hidden: true}, {Key: "gpus", Title: "GPUs", Kind: Count},
			{Key: "gpu_model", Title: "Model", Kind: Text}, {Key: "gpu_hours", Title: "GPU-hours", Kind: Quantity},
			{Key: "cost", Title: "Cost", Kind: Money, Hidden: currency == ""}, {Key: "avoidable_cost", Title: "Avoidable", Kind: Money, Hidden: currency == ""},
			{Key: "status", Title: "Status", Kind: Text}, {Key: "pricing_model", Title: "Pricing", Kind: Text}, {Key: "state", Title: "State", Kind: Text}, {Key: "cause", Title: "Cause", Kind: Text},
			{Key: "project", Title: "Project", Kind: Text}, {Key: "owner", Title: "Owner", Kind: Text}, {Key: "owner_confidence", Title: "Confidence", Kind: Text, Hidden: true},
			{Key: "last_job", Title: "Last job", Kind: Text}, {Key: "first", Title: "First", Kind: Moment}, {Key: "last", Title: "Last", Kind: Moment},
			{Key: "stretches", Title: "Stretches", Kind: Count}, {Key: "coverage", Title: "Coverage", Kind: Percent},
		},
	}
	var mine []query.IdleRow
	var keys []string
	var hours []*money.Decimal
	for _, r := range rows {
		if r.Currency == currency {
			mine, keys = append(mine, r), append(keys, r.Node+"\x00"+r.ResourceID+"\x00"+r.State+"\x00"+r.Cause+"\x00"+r.Owner)
			hours = append(hours, &r.GPUHours)
		}
	}
	costs, avoids, costSum, avoidSum := wasteColumns(mine, keys)
	hourCells, hourSum := sumColumn(hours, keys)
	for i, r := range mine {
		t.Rows = append(t.Rows, []Cell{
			text(r.Node), text(r.ResourceID), count(r.GPUs), text(r.GPUModel), hourCells[i], costs[i], avoids[i], text(words(r.Status)),
			text(words(r.PricingModel)), text(words(r.State)), text(words(r.Cause)), text(orUntagged(r.Project)), text(r.Owner), text(r.Confidence),
			text(r.LastJob), b.moment(r.First), b.moment(r.Last), count(r.Stretches), ratio(r.Coverage),
		})
	}
	if len(mine) > 0 {
		t.Total = make([]Cell, len(t.Columns))
		t.Total[0], t.Total[4], t.Total[5], t.Total[6] = text("Total"), hourSum, costSum, avoidSum
	}
	return t
}

// wasteColumns rounds cost and its avoidable part together, so that both add up and a part is
// never shown as more than its whole.
func wasteColumns(rows []query.IdleRow, keys []string) (costs, avoids []Cell, costSum, avoidSum Cell) {
	var values [][]money.Decimal
	var knownKeys []string
	var cost, avoidable money.Decimal
	for i, r := range rows {
		if r.Cost != nil && r.Avoidable != nil {
			values, knownKeys = append(values, []money.Decimal{*r.Avoidable, r.Cost.Sub(*r.Avoidable)}), append(knownKeys, keys[i])
			cost, avoidable = cost.Add(*r.Cost), avoidable.Add(*r.Avoidable)
		}
	}
	g := CentsGrid(values, knownKeys, []string{"avoidable", "committed"})
	next := 0
	for _, r := range rows {
		if r.Cost == nil || r.Avoidable == nil {
			costs, avoids = append(costs, optional(r.Cost)), append(avoids, optional(r.Avoidable))
			continue
		}
		costs, avoids = append(costs, cents(g.Rows[next], *r.Cost)), append(avoids, cents(g.Cells[next][0], *r.Avoidable))
		next++
	}
	return costs, avoids, cents(g.Total, cost), cents(g.Columns[0], avoidable)
}

func orUntagged(s string) string {
	if s == "" {
		return untagged
	}
	return s
}

func idleTiles(rows []query.IdleRow, currency string) []Tile {
	var cost, avoidable, hours money.Decimal
	nodes := map[string]bool{}
	for _, r := range rows {
		if r.Currency != currency {
			continue
		}
		nodes[r.Node+"\x00"+r.ResourceID] = true
		hours = hours.Add(r.GPUHours)
		if r.Cost != nil {
			cost = cost.Add(*r.Cost)
		}
		if r.Avoidable != nil {
			avoidable = avoidable.Add(*r.Avoidable)
		}
	}
	out := []Tile{{Name: "Nodes", Value: count(uint64(len(nodes))).Show}, {Name: "Idle GPU-hours", Value: money.Text(hours, "")}}
	if currency == "" {
		return out
	}
	return append([]Tile{{Name: "Idle cost", Value: money.Text(cost, currency)}, {"Avoidable", money.Text(avoidable, currency), percent(avoidable, cost) + " of idle cost"}}, out...)
}

// idlePlot shows the nodes that cost most, avoidable and committed apart; where nothing has
// a price it shows GPU-hours.
func idlePlot(rows []query.IdleRow, currency string) Plot {
	p := Plot{Title: "Idle cost by node", Currency: currency, Series: []Series{{Key: "unallocated_idle", Title: "Avoidable"}, {Key: "commitment_unused", Title: "Committed"}}}
	if currency == "" {
		p.Title, p.Currency = "Idle GPU-hours by node", "GPU-hours"
		p.Series = []Series{{Key: "unobserved", Title: "GPU-hours"}}
	}
	at := map[string]int{}
	for _, r := range rows {
		if r.Currency != currency {
			continue
		}
		i, ok := at[r.Node]
		if !ok {
			if len(at) == barsShown {
				continue
			}
			i = len(at)
			at[r.Node] = i
			p.add(r.Node, "", make([]money.Decimal, len(p.Series)))
		}
		if currency == "" {
			p.Series[0].Values[i] = p.Series[0].Values[i].Add(r.GPUHours)
			continue
		}
		if r.Cost != nil && r.Avoidable != nil {
			p.Series[0].Values[i] = p.Series[0].Values[i].Add(*r.Avoidable)
			p.Series[1].Values[i] = p.Series[1].Values[i].Add(r.Cost.Sub(*r.Avoidable))
		}
	}
	for i := range p.Labels {
		sum := decimal.Zero
		for _, s := range p.Series {
			sum = sum.Add(s.Values[i])
		}
		p.Sums[i] = money.Text(sum, "")
	}
	return p
}
