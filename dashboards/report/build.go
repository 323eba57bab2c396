package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Builder makes reports from the views.
type Builder struct {
	db   query.DB
	zone *time.Location
	now  func() time.Time
}

// New returns a builder. The zone is the reporting time zone, in which days and times are
// shown; now is the clock.
func New(db query.DB, zone *time.Location, now func() time.Time) *Builder {
	return &Builder{db: db, zone: zone, now: now}
}

// Request asks for a report.
type Request struct {
	Name  string // see Names
	Month query.Month
	By    []string // of an allocation report; empty is by project
}

// Names are the reports there are.
func Names() []string { return []string{"allocation", "idle", "jobs", "reconciliation"} }

// Build makes the report that is asked for. It refuses with a *BooksError where the month's
// books do not close.
func (b *Builder) Build(ctx context.Context, r Request) (Report, error) {
	var fill func(context.Context, Request, *Report) error
	switch r.Name {
	case "allocation":
		if len(r.By) == 0 {
			r.By = []string{"project"}
		}
		fill = b.allocation
	case "idle":
		fill = b.idle
	case "jobs":
		fill = b.jobs
	case "reconciliation":
		fill = b.reconciliation
	default:
		return Report{}, fmt.Errorf("unknown report %q, want %s", r.Name, strings.Join(Names(), ", "))
	}
	// A delivery that goes live between two questions would give a report of two bills: the
	// sums of the first and the last question tell, and it is made again.
	for try := 1; ; try++ {
		out, err := b.attempt(ctx, r, fill)
		if !errors.Is(err, errMoved) || try == 3 {
			return out, err
		}
	}
}

var errMoved = errors.New("the bills changed while the report was made; ask again")

func (b *Builder) attempt(ctx context.Context, r Request, fill func(context.Context, Request, *Report) error) (Report, error) {
	before, err := b.db.Summary(ctx, query.SummaryQuestion{Month: r.Month})
	if err != nil {
		return Report{}, err
	}
	out := Report{Name: r.Name, Period: r.Month.String(), Made: b.now().In(b.zone), order: map[string]uint64{}}
	if out.Books, err = books(r.Month, before); err != nil {
		return Report{}, err
	}
	sources, err := b.db.Sources(ctx, query.SourcesQuestion{Month: r.Month})
	if err != nil {
		return Report{}, err
	}
	for _, s := range sources {
		out.order[s.Currency] += s.Rows
	}
	slices.SortStableFunc(out.Books, func(x, y Book) int { return cmp.Compare(out.order[y.Currency], out.order[x.Currency]) })
	b.head(&out, r.Month, sources)
	ranges, err := b.db.Ranges(ctx, query.RangesQuestion{Month: r.Month})
	if err != nil {
		return Report{}, err
	}
	for _, x := range ranges {
		out.Notes = append(out.Notes, fmt.Sprintf("Estimates of %s may be up to %s too low and %s too high: nobody saw just when its resources began or ended.",
			x.Provider, money.Text(x.More, x.Currency), money.Text(x.Less, x.Currency)))
	}
	if err := fill(ctx, r, &out); err != nil {
		return Report{}, err
	}
	after, err := b.db.Summary(ctx, query.SummaryQuestion{Month: r.Month})
	if err != nil {
		return Report{}, err
	}
	if !slices.EqualFunc(before, after, func(x, y query.SummaryRow) bool {
		return x.Account == y.Account && x.Currency == y.Currency && x.Kind == y.Kind && x.Allocated.Equal(y.Allocated) && x.Billed.Equal(y.Billed)
	}) {
		return Report{}, errMoved
	}
	return out, nil
}

// head says what the reader must know first.
func (b *Builder) head(out *Report, month query.Month, sources []query.SourceRow) {
	currencies, estimated := out.currencies(), []string{}
	for _, c := range currencies {
		var part, whole money.Decimal
		for _, book := range out.Books {
			if book.Currency == c {
				part, whole = part.Add(book.Estimated), whole.Add(book.Effective)
			}
		}
		estimated = append(estimated, percent(part, whole)+" of "+c)
	}
	first := month.Day()
	last := first.AddDate(0, 1, -1)
	out.Facts = []Fact{
		{"Billing period", fmt.Sprintf("%s (%s to %s)", month, first.Format("2 January"), last.Format("2 January 2006"))},
		{"Currency", orNone(strings.Join(currencies, ", "))},
		{"Sources", orNone(b.completeness(month, sources))},
		{"Estimated", orNone(strings.Join(estimated, ", "))},
		{"Time zone", b.zone.String()},
		{"Made", out.Made.Format("2 January 2006 15:04 MST")},
	}
	for _, s := range sources {
		if s.Without > 0 {
			out.Notes = append(out.Notes, fmt.Sprintf("Effective cost is understated: %d charges of %s in %s state none, and the amortisation difference includes that.",
				s.Without, s.Source, s.Currency))
		}
	}
	if len(currencies) > 1 {
		out.Notes = append(out.Notes, "Amounts of different currencies stand in tables of their own and are not added up.")
	}
}

// reach is how far a source's data goes.
type reach struct {
	name        string
	estimated   bool
	from, until time.Time
}

// completeness tells of every source from when to when its data reaches. A month is called
// complete only if it is there from its first day to its last.
func (b *Builder) completeness(month query.Month, sources []query.SourceRow) string {
	var all []reach
	for _, s := range sources {
		i := slices.IndexFunc(all, func(r reach) bool { return r.name == s.Source && r.estimated == s.Estimated })
		if i < 0 {
			all = append(all, reach{s.Source, s.Estimated, s.From, s.Until})
			continue
		}
		if s.From.Before(all[i].from) {
			all[i].from = s.From
		}
		if s.Until.After(all[i].until) {
			all[i].until = s.Until
		}
	}
	var parts []string
	for _, r := range all {
		parts = append(parts, r.text(month))
	}
	return strings.Join(parts, ", ")
}

// otherZone is how far the months of providers whose day begins in another zone are apart.
const otherZone = 14 * time.Hour

func (r reach) text(month query.Month) string {
	const stamp = "2 Jan 15:04 UTC"
	start, end := month.Day(), month.Day().AddDate(0, 1, 0)
	if r.estimated {
		return fmt.Sprintf("estimates of %s (%s to %s)", r.name, r.from.Format(stamp), r.until.Format(stamp))
	}
	late, early := r.from.After(start.Add(otherZone)), r.until.Before(end.Add(-otherZone))
	missing := fmt.Sprintf("%d of %d days missing", int(end.Sub(r.until).Hours())/24, int(end.Sub(start).Hours())/24)
	switch {
	case late && early:
		return fmt.Sprintf("%s (only %s to %s)", r.name, r.from.Format(stamp), r.until.Format(stamp))
	case late:
		return fmt.Sprintf("%s (only from %s)", r.name, r.from.Format(stamp))
	case early:
		return fmt.Sprintf("%s (to %s, %s)", r.name, r.until.Format(stamp), missing)
	default:
		return r.name + " (complete)"
	}
}

// currencies are those of the month, the one with the most charges first: amounts cannot be
// compared.
func (r Report) currencies() []string {
	var out []string
	for _, b := range r.Books {
		if !slices.Contains(out, b.Currency) {
			out = append(out, b.Currency)
		}
	}
	slices.SortFunc(out, func(x, y string) int { return cmp.Or(cmp.Compare(r.order[y], r.order[x]), cmp.Compare(x, y)) })
	return out
}

// sections are the currencies that get a section: one without a name where there is none, so
// that an empty report still has its table.
func (r Report) sections(more ...string) []string {
	out := r.currencies()
	for _, c := range more {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		out = []string{""}
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// optional shows an amount that may be unknown.
func optional(d *money.Decimal) Cell {
	if d == nil {
		return unknown()
	}
	return Cell{Show: money.Text(*d, ""), Exact: d.String()}
}

// rateCell shows a price with four decimals, for a GPU-hour costs little.
func rateCell(d *money.Decimal) Cell {
	if d == nil {
		return unknown()
	}
	return Cell{Show: d.RoundBank(4).StringFixed(4), Exact: d.String()}
}

func (b *Builder) moment(t time.Time) Cell {
	return Cell{Show: t.In(b.zone).Format("2006-01-02 15:04"), Exact: t.UTC().Format(time.RFC3339)}
}

func (b *Builder) optionalMoment(t *time.Time) Cell {
	if t == nil {
		return Cell{Show: "-", Null: true}
	}
	return b.moment(*t)
}

func count(n uint64) Cell {
	return Cell{Show: strings.TrimSuffix(money.Text(decimal.NewFromUint64(n), ""), ".00"), Exact: fmt.Sprint(n)}
}

func ratio(f float64) Cell {
	d := decimal.NewFromInt(int64(f*1000 + 0.5)) // a share, not money
	return Cell{Show: d.Div(decimal.NewFromInt(10)).StringFixed(1) + " %", Exact: d.Div(decimal.NewFromInt(1000)).String()}
}

// sumColumn rounds a column of amounts that may be unknown so that the known ones add up.
func sumColumn(values []*money.Decimal, keys []string) (cells []Cell, sum Cell) {
	var known []money.Decimal
	var knownKeys []string
	for i, v := range values {
		if v != nil {
			known, knownKeys = append(known, *v), append(knownKeys, keys[i])
		}
	}
	shown, all := Cents(known, knownKeys)
	next := 0
	for _, v := range values {
		if v == nil {
			cells = append(cells, unknown())
			continue
		}
		cells = append(cells, cents(shown[next], *v))
		next++
	}
	return cells, cents(all, total(known))
}
