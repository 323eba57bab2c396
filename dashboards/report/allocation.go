package report

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/schema/money"
)

// untagged is what stands for a missing value: always a row that one sees.
const untagged = "(untagged)"

// line is one row of an allocation table before it is rounded.
type line struct {
	values    []string
	kinds     []money.Decimal
	billed    money.Decimal
	estimated money.Decimal
	hours     money.Decimal
}

func (l line) key() string              { return strings.Join(l.values, "\x00") }
func (l line) effective() money.Decimal { return total(l.kinds) }

// allocation makes the report of what the month cost, and for whom.
func (b *Builder) allocation(ctx context.Context, r Request, out *Report) error {
	out.Title = "Cost by " + strings.ReplaceAll(strings.Join(r.By, ", "), "_", " ")
	rows, err := b.db.Allocation(ctx, query.AllocationQuestion{Month: r.Month, By: r.By})
	if err != nil {
		return err
	}
	daily, err := b.db.Daily(ctx, query.DailyQuestion{Month: r.Month})
	if err != nil {
		return err
	}
	from, to := r.Month.Bounds(b.zone)
	idle, err := b.db.Idle(ctx, query.IdleQuestion{From: from, To: to, Limit: idleRows})
	if err != nil {
		return err
	}
	rates, err := b.db.Rates(ctx, query.RatesQuestion{Month: r.Month})
	if err != nil {
		return err
	}
	for _, currency := range out.sections() {
		lines := linesOf(rows, currency)
		if err := sameSum(lines, out.Books, currency); err != nil {
			return err
		}
		s := Section{Title: currency}
		shown := grid(lines)
		if len(lines) > 0 {
			s.Tiles = tiles(lines, shown, currency)
			s.Plots = []Plot{barPlot(lines, shown, currency, r.By), dayPlot(daily, currency, r.Month)}
		}
		s.Tables = append(s.Tables, allocationTable(lines, shown, currency, r.By), b.idleTable(idle, currency), rateTable(rates, currency))
		s.Tables[1].Main = false
		out.Sections = append(out.Sections, s)
	}
	out.Notes = append(out.Notes,
		"Effective cost spreads what was paid ahead over the time it is used; billed cost is what the invoice says.",
		"Used is cost of GPUs at work, and of metered services. Job idle is held by a job that does no work, unallocated idle by nobody. Unobserved has no telemetry: it is neither idle nor used.",
	)
	return nil
}

// linesOf folds the rows of one currency into one line per value, the most expensive first.
func linesOf(rows []query.AllocationRow, currency string) []line {
	at := map[string]int{}
	var out []line
	for _, r := range rows {
		if r.Currency != currency {
			continue
		}
		l := line{values: make([]string, len(r.Values)), kinds: make([]money.Decimal, len(kinds()))}
		for i, v := range r.Values {
			if l.values[i] = v; v == "" {
				l.values[i] = untagged
			}
		}
		i, ok := at[l.key()]
		if !ok {
			i = len(out)
			at[l.key()] = i
			out = append(out, l)
		}
		k := kindIndex(r.Kind)
		out[i].kinds[k] = out[i].kinds[k].Add(r.Effective)
		out[i].billed, out[i].estimated = out[i].billed.Add(r.Billed), out[i].estimated.Add(r.Estimated)
		out[i].hours = out[i].hours.Add(r.GPUHours)
	}
	slices.SortFunc(out, func(a, b line) int {
		if c := b.effective().Cmp(a.effective()); c != 0 {
			return c
		}
		return strings.Compare(a.key(), b.key())
	})
	return out
}

// sameSum checks that the lines are of the same bills as the books.
func sameSum(lines []line, books []Book, currency string) error {
	var a, b money.Decimal
	for _, l := range lines {
		a = a.Add(l.effective())
	}
	for _, book := range books {
		if book.Currency == currency {
			b = b.Add(book.Effective)
		}
	}
	if !a.Equal(b) {
		return errMoved
	}
	return nil
}

// grid rounds the lines once, for everything that shows them.
func grid(lines []line) Grid {
	var rowKeys, kindKeys []string
	var values [][]money.Decimal
	for _, l := range lines {
		rowKeys, values = append(rowKeys, l.key()), append(values, l.kinds)
	}
	for _, k := range kinds() {
		kindKeys = append(kindKeys, k.key)
	}
	return CentsGrid(values, rowKeys, kindKeys)
}

func tiles(lines []line, g Grid, currency string) []Tile {
	var billed, estimated money.Decimal
	for _, l := range lines {
		billed, estimated = billed.Add(l.billed), estimated.Add(l.estimated)
	}
	idle := g.Columns[kindIndex("job_idle")].Add(g.Columns[kindIndex("unallocated_idle")])
	used, unobserved := g.Columns[kindIndex("job_used")], g.Columns[kindIndex("unobserved")]
	// Shares are of what GPU machines cost, so that credits never make idle look small or large.
	gpu := total([]money.Decimal{used, idle, unobserved, g.Columns[kindIndex("unavailable")]})
	share := func(d money.Decimal) string { return percent(d, gpu) + " of GPU cost" }
	out := []Tile{{Name: "Effective cost", Value: money.Text(g.Total, currency)}, {Name: "Billed", Value: money.Text(billed, currency)}}
	if !estimated.IsZero() {
		out = append(out, Tile{"Estimated", money.Text(estimated, currency), "not billed yet, part of the effective cost"})
	}
	return append(out, Tile{"Used", money.Text(used, currency), share(used)}, Tile{"Idle", money.Text(idle, currency), share(idle)},
		Tile{"Unobserved", money.Text(unobserved, currency), share(unobserved)})
}

func allocationTable(lines []line, g Grid, currency string, by []string) Table {
	t := Table{Key: "allocation", Title: "Cost by " + strings.ReplaceAll(strings.Join(by, ", "), "_", " "), Currency: currency, Main: true, Empty: "No charges in this month."}
	for _, d := range by {
		t.Columns = append(t.Columns, Column{Key: d, Title: title(d), Kind: Text})
	}
	all := kinds()
	var rowKeys []string
	var billed, estimated, hours []*money.Decimal
	for i, l := range lines {
		rowKeys = append(rowKeys, l.key())
		billed, estimated, hours = append(billed, &lines[i].billed), append(estimated, &lines[i].estimated), append(hours, &lines[i].hours)
	}
	t.Columns = append(t.Columns, Column{Key: "effective_cost", Title: "Effective cost", Kind: Money})
	for j, k := range all {
		t.Columns = append(t.Columns, Column{Key: k.key, Title: k.title, Kind: Money, Hidden: !slices.ContainsFunc(lines, func(l line) bool { return !l.kinds[j].IsZero() })})
	}
	t.Columns = append(t.Columns, Column{Key: "estimated", Title: "Estimated", Kind: Money, Hidden: !slices.ContainsFunc(lines, func(l line) bool { return !l.estimated.IsZero() })},
		Column{Key: "billed_cost", Title: "Billed", Kind: Money}, Column{Key: "gpu_hours", Title: "GPU-hours", Kind: Quantity})
	billedCells, billedSum := sumColumn(billed, rowKeys)
	estimatedCells, estimatedSum := sumColumn(estimated, rowKeys)
	hourCells, hourSum := sumColumn(hours, rowKeys)
	for i, l := range lines {
		var row []Cell
		for _, v := range l.values {
			row = append(row, text(v))
		}
		row = append(row, cents(g.Rows[i], l.effective()))
		for j := range all {
			row = append(row, cents(g.Cells[i][j], l.kinds[j]))
		}
		t.Rows = append(t.Rows, append(row, estimatedCells[i], billedCells[i], hourCells[i]))
	}
	if len(lines) == 0 {
		return t
	}
	t.Total = make([]Cell, len(by))
	t.Total[0] = text("Total")
	t.Total = append(t.Total, cents(g.Total, exactTotal(lines, -1)))
	for j := range all {
		t.Total = append(t.Total, cents(g.Columns[j], exactTotal(lines, j)))
	}
	t.Total = append(t.Total, estimatedSum, billedSum, hourSum)
	return t
}

// exactTotal is the sum of one kind, or of all for -1.
func exactTotal(lines []line, kind int) money.Decimal {
	sum := decimal.Zero
	for _, l := range lines {
		if kind < 0 {
			sum = sum.Add(l.effective())
			continue
		}
		sum = sum.Add(l.kinds[kind])
	}
	return sum
}

// barsShown is how many bars fit a page; the rest is one bar.
const barsShown = 12

func barPlot(lines []line, g Grid, currency string, by []string) Plot {
	p := Plot{Title: "Effective cost by " + strings.ReplaceAll(strings.Join(by, ", "), "_", " "), Currency: currency}
	for _, k := range kinds() {
		p.Series = append(p.Series, Series{Key: k.key, Title: k.title})
	}
	rest, restShown, others := make([]money.Decimal, len(kinds())), decimal.Zero, 0
	for i, l := range lines {
		if i >= barsShown-1 && len(lines) > barsShown {
			for j, v := range l.kinds {
				rest[j] = rest[j].Add(v)
			}
			restShown, others = restShown.Add(g.Rows[i]), others+1
			continue
		}
		p.add(strings.Join(l.values, " / "), money.Text(g.Rows[i], ""), l.kinds)
	}
	if others > 0 {
		p.add(fmt.Sprintf("%d others", others), money.Text(restShown, ""), rest)
	}
	return p
}

func (p *Plot) add(label, sum string, values []money.Decimal) {
	p.Labels, p.Sums = append(p.Labels, label), append(p.Sums, sum)
	for j, v := range values {
		p.Series[j].Values = append(p.Series[j].Values, v)
	}
}

// dayPlot stacks the kinds of every day of the month.
func dayPlot(rows []query.DailyRow, currency string, month query.Month) Plot {
	p := Plot{Title: "Effective cost by day", Currency: currency, Upright: true}
	for _, k := range kinds() {
		p.Series = append(p.Series, Series{Key: k.key, Title: k.title})
	}
	days := map[string][]money.Decimal{}
	for _, r := range rows {
		if r.Currency != currency {
			continue
		}
		day := r.Day.Format("2006-01-02")
		if days[day] == nil {
			days[day] = make([]money.Decimal, len(kinds()))
		}
		k := kindIndex(r.Kind)
		days[day][k] = days[day][k].Add(r.Effective)
	}
	for d := month.Day(); d.Before(month.Day().AddDate(0, 1, 0)); d = d.AddDate(0, 0, 1) {
		if days[d.Format("2006-01-02")] == nil {
			days[d.Format("2006-01-02")] = make([]money.Decimal, len(kinds()))
		}
	}
	var labels []string
	for d := range days {
		labels = append(labels, d)
	}
	slices.Sort(labels)
	for _, d := range labels {
		p.add(d, "", days[d])
	}
	return p
}

func rateTable(rows []query.RateRow, currency string) Table {
	t := Table{
		Key: "rates", Title: "Price of a GPU-hour", Currency: currency, Empty: "No GPU-hours in this month.",
		Columns: []Column{
			{Key: "gpu_model", Title: "GPU", Kind: Text}, {Key: "pricing_model", Title: "Pricing model", Kind: Text},
			{Key: "provider", Title: "Provider", Kind: Text}, {Key: "region", Title: "Region", Kind: Text},
			{Key: "gpu_hours", Title: "GPU-hours", Kind: Quantity}, {Key: "busy_gpu_hours", Title: "Busy", Kind: Quantity},
			{Key: "cost_per_gpu_hour", Title: "Per GPU-hour", Kind: Money}, {Key: "cost_per_busy_gpu_hour", Title: "Per busy GPU-hour", Kind: Money},
		},
	}
	for _, r := range rows {
		if r.Currency == currency {
			t.Rows = append(t.Rows, []Cell{
				text(r.GPUModel), text(words(r.PricingModel)), text(r.Provider), text(r.Region), quantity(r.GPUHours), quantity(r.BusyHours),
				rateCell(r.PerGPUHour), rateCell(r.PerBusyGPUHour),
			})
		}
	}
	return t
}

// title is a name for people: gpu_model becomes GPU model.
func title(key string) string {
	s := strings.ReplaceAll(words(key), "gpu", "GPU")
	return strings.ToUpper(s[:1]) + s[1:]
}

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }
