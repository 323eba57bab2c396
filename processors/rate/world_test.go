package rate

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/migrations"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// world is a store into which a test writes runs, polls, prices and bills as if they had come
// the long way.
type world struct {
	ctx   context.Context
	t     *testing.T
	db    *store.DB
	loads *store.Loads
	now   time.Time
	p     *Processor
	n     int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	e := localtest.Fresh(t)
	db, err := store.Open(t.Context(), e.ClickHouseOptions)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, migrations.Apply(t.Context(), db.SQL, ""))
	loads := store.NewLoads(time.Now)
	must(t, store.Prepare(t.Context(), db, loads))
	w := &world{ctx: t.Context(), t: t, db: db, loads: loads, now: at(20, 0, 0)}
	w.fresh()
	return w
}

// fresh makes a new processor, as after a restart.
func (w *world) fresh() {
	w.p = New(Options{DB: w.db, Loads: w.loads, Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler), Pause: -1})
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// run is a stretch of a resource's time as an inventory tells it; what is zero is absent.
type run struct {
	source, resource, kind, provider, account string
	region, zone, instance, system, pricing   string
	gpu                                       string
	gpus                                      int64
	rate, currency                            string
	from, to, after, before, received         time.Time
	step                                      uint32
	tags                                      map[string]string
}

func (w *world) runs(runs ...run) {
	w.t.Helper()
	b, err := w.db.PrepareBatch(w.ctx, `INSERT INTO idlewatt_store.instances (ResourceId, Kind, Source, Name, Provider, Account, Region, Zone,
		InstanceType, System, GpuModel, GpuCount, Hosts, Gpus, PricingModel, Rate, Currency, Tags, SeenFrom, SeenTo, StartedAfter, EndedBefore, Step,
		Evidence, Event, ReceivedAt)`)
	must(w.t, err)
	for _, r := range runs {
		if r.kind == "" {
			r.kind = "machine"
		}
		if r.source == "" {
			r.source = "inv"
		}
		if r.provider == "" {
			r.provider = "aws"
		}
		if r.rate != "" && r.currency == "" {
			r.currency = "USD"
		}
		if r.tags == nil {
			r.tags = map[string]string{}
		}
		if r.received.IsZero() {
			r.received = r.from
		}
		w.n++
		must(w.t, b.Append(r.resource, r.kind, r.source, "name of "+r.resource, r.provider, r.account, r.region, r.zone, r.instance, r.system, r.gpu,
			whole(r.gpus), []string{"host-" + r.resource}, []string{}, r.pricing, optional(r.rate), r.currency, r.tags, r.from, moment(r.to),
			moment(r.after), moment(r.before), r.step, "inventory", fmt.Sprint("e", w.n), r.received))
	}
	must(w.t, b.Send())
}

func (w *world) poll(source string, moments ...time.Time) {
	w.t.Helper()
	for _, m := range moments {
		must(w.t, w.db.Exec(w.ctx, `INSERT INTO idlewatt_store.polls (Source, Provider, At, Running, Event, ReceivedAt) VALUES (?, 'aws', ?, 1, 'p', ?)`, source, m, m))
	}
}

// price is a list price; what is zero is absent.
type price struct {
	provider, region, zone, instance, system, pricing, per, rate string
	from, to                                                     time.Time
}

func (w *world) prices(prices ...price) {
	w.t.Helper()
	b, err := w.db.PrepareBatch(w.ctx, `INSERT INTO idlewatt_store.prices (Source, Provider, Region, Zone, InstanceType, Kind, System, PricingModel, Per, Rate,
		Currency, ValidFrom, ValidTo, Event, ReceivedAt)`)
	must(w.t, err)
	for _, p := range prices {
		if p.provider == "" {
			p.provider = "aws"
		}
		if p.pricing == "" {
			p.pricing = "on_demand"
		}
		if p.per == "" {
			p.per = "machine"
		}
		must(w.t, b.Append("list", p.provider, p.region, p.zone, p.instance, "machine", p.system, p.pricing, p.per, decimal.RequireFromString(p.rate), "USD", p.from,
			moment(p.to), "x", p.from))
	}
	must(w.t, b.Send())
}

// line is a usage line of a bill.
type line struct {
	resource, account, provider, instance, region, pricing, category, invoice, unit string
	start, end                                                                      time.Time
	cost                                                                            string
	gpus                                                                            int64
	storage                                                                         bool
}

// bill writes lines as one load of a scope and makes it live. The dataset is the scope's.
func (w *world) bill(scope, version string, lines ...line) {
	w.t.Helper()
	dataset := strings.Split(scope, "/")[1]
	load := w.loads.Next() + 1
	b, err := w.db.PrepareBatch(w.ctx, `INSERT INTO idlewatt_store.charges (x_Load, x_Scope, x_Source, x_Dataset, x_Object, x_Row, BilledCost, EffectiveCost,
		BillingAccountId, SubAccountId, BillingCurrency, BillingPeriodStart, BillingPeriodEnd, ChargeCategory, ChargePeriodStart, ChargePeriodEnd, ResourceId,
		InvoiceId, RegionId, ServiceCategory, ServiceProviderName, x_InstanceType, x_PricingModel, x_GpuCount, x_GpuHours, ConsumedQuantity, ConsumedUnit,
		x_TagSet, x_PairCash, x_BilledResidue, x_EffectiveResidue)`)
	must(w.t, err)
	for i, l := range lines {
		if l.category == "" {
			l.category = "Usage"
		}
		if l.provider == "" {
			l.provider = "Amazon Web Services"
		}
		if l.end.IsZero() {
			l.end = l.start.Add(time.Hour)
		}
		if l.unit == "" {
			l.unit = "Hours"
		}
		month := time.Date(l.start.Year(), l.start.Month(), 1, 0, 0, 0, 0, time.UTC)
		hours := decimal.NewFromInt(int64(l.end.Sub(l.start)/time.Minute)).DivRound(decimal.NewFromInt(60), 18)
		var gpuHours *decimal.Decimal
		if l.gpus > 0 {
			h := hours.Mul(decimal.NewFromInt(l.gpus))
			gpuHours = &h
		}
		sort := "Compute"
		if l.storage {
			sort = "Storage"
		}
		cost := decimal.RequireFromString(l.cost)
		must(w.t, b.Append(load, scope, "payer", dataset, "object", uint64(i+1), cost, &cost, "payer-1", text(l.account), "USD", month, month.AddDate(0, 1, 0),
			l.category, l.start, l.end, text(l.resource), text(l.invoice), text(l.region), sort, l.provider, text(l.instance), text(l.pricing), whole(l.gpus), gpuHours,
			&hours, l.unit, uint64(0), decimal.Zero, decimal.Zero, decimal.Zero))
	}
	must(w.t, b.Send())
	must(w.t, w.db.Exec(w.ctx, `INSERT INTO idlewatt_store.commits (Scope, Load, Version, ContentHash, Source, Dataset, Format, Delivery, PeriodStart, PeriodEnd)
		VALUES (?, ?, ?, 'h', 'payer', ?, 'aws-cur2', 'd', '2026-10-01', '2026-11-01')`, scope, load, version, dataset))
}

func (w *world) once() int {
	w.t.Helper()
	n, err := w.p.Once(w.ctx)
	must(w.t, err)
	return n
}

// lines asks for rows of one text column each.
func (w *world) lines(sql string, args ...any) []string {
	w.t.Helper()
	rows, err := w.db.Query(w.ctx, sql, args...)
	must(w.t, err)
	defer rows.Close() //nolint:errcheck // read only
	var out []string
	for rows.Next() {
		var s string
		must(w.t, rows.Scan(&s))
		out = append(out, s)
	}
	must(w.t, rows.Err())
	return out
}

func (w *world) want(sql string, rows ...string) {
	w.t.Helper()
	if d := cmp.Diff(rows, w.lines(sql)); d != "" {
		w.t.Errorf("%s (-want +got):\n%s", sql, d)
	}
}

func at(day, hour, minute int) time.Time {
	return time.Date(2026, 10, day, hour, minute, 0, 0, time.UTC)
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func optional(s string) *decimal.Decimal {
	if s == "" {
		return nil
	}
	d := decimal.RequireFromString(s)
	return &d
}

func whole(n int64) *decimal.Decimal {
	if n == 0 {
		return nil
	}
	d := decimal.NewFromInt(n)
	return &d
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
