package attribute

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/migrations"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// world is a store into which a test writes charges and intervals as if they had come the
// long way.
type world struct {
	ctx   context.Context
	t     *testing.T
	db    *store.DB
	js    jetstream.JetStream
	loads *store.Loads
	p     *Processor
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx := t.Context()
	e := localtest.Fresh(t)
	nc, err := e.ConnectNATS()
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, bus.Ensure(ctx, js, 1))
	db, err := store.Open(ctx, e.ClickHouseOptions)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, migrations.Apply(ctx, db.SQL, "UTC"))
	loads := store.NewLoads(time.Now)
	return &world{ctx: ctx, t: t, db: db, js: js, loads: loads, p: New(Options{
		DB: db, JS: js, Loads: loads, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// charge is a GPU machine's line on a bill.
type charge struct {
	resource   string
	start, end time.Time
	gpus       decimal.Decimal
	gpuHours   decimal.Decimal
	billed     decimal.Decimal
	effective  *decimal.Decimal
	list       *decimal.Decimal
	quantity   *decimal.Decimal
	// parent makes the row a pod of that machine: split and unused are its cost.
	parent        string
	split, unused *decimal.Decimal
	tagSet        uint64
	tags          map[string]string
}

// interval is a GPU's state for a while.
type interval struct {
	uuid, instance, node string
	start, end           time.Time
	num, den             uint32
	state, job, owner    string
}

// bill writes charges as one load of a scope and makes it live.
func (w *world) bill(scope, version string, charges []charge) uint64 {
	w.t.Helper()
	load := w.loads.Next() + 1
	b, err := w.db.PrepareBatch(w.ctx, `INSERT INTO idlewatt_store.charges (x_Load, x_Scope, x_Source, x_Dataset, x_Object, x_Row, BilledCost,
		EffectiveCost, ListCost, ConsumedQuantity, ConsumedUnit, BillingAccountId, BillingCurrency, BillingPeriodStart, BillingPeriodEnd, ChargeCategory,
		ChargePeriodStart, ChargePeriodEnd, ResourceId, x_GpuCount, x_GpuHours, x_GpuModel, x_PricingModel, x_PairCash, x_BilledResidue, x_EffectiveResidue,
		ResourceType, ContractedCost, PricingQuantity, x_SplitParentId, x_SplitCost, x_SplitUnusedCost, x_TagSet, Tags)`)
	must(w.t, err)
	for i, c := range charges {
		month := time.Date(c.start.Year(), c.start.Month(), 1, 0, 0, 0, 0, time.UTC)
		must(w.t, b.Append(load, scope, "test", "cur", "object", uint64(i+1), c.billed, c.effective, c.list, c.quantity, "Hours", "acct", "USD",
			month, month.AddDate(0, 1, 0), "Usage", c.start, c.end, c.resource, positive(c.gpus), positive(c.gpuHours), "H100", "on_demand",
			decimal.Zero, decimal.Zero, decimal.Zero, text(c.parent == "", "Virtual Machine"), c.list, c.quantity, text(c.parent != "", c.parent), c.split, c.unused, c.tagSet, c.tags))
	}
	must(w.t, b.Send())
	must(w.t, w.db.Exec(w.ctx, `INSERT INTO idlewatt_store.commits (Scope, Load, Version, ContentHash, Source, Dataset, Format, Delivery, PeriodStart, PeriodEnd)
		VALUES (?, ?, ?, 'h', 'test', 'cur', 'aws-cur2', 'd', '2026-10-01', '2026-11-01')`, scope, load, version))
	return load
}

// positive is the amount, or none.
func positive(d decimal.Decimal) *decimal.Decimal {
	if d.IsPositive() {
		return &d
	}
	return nil
}

// text is the text if it applies, or none.
func text(applies bool, s string) *string {
	if applies {
		return &s
	}
	return nil
}

// observe writes intervals as the newest of their devices and days.
func (w *world) observe(intervals []interval) {
	w.t.Helper()
	type device struct {
		uuid, instance string
		day            time.Time
	}
	loads := map[device]uint64{}
	b, err := w.db.PrepareBatch(w.ctx, `INSERT INTO idlewatt_store.gpu_intervals (Load, Uuid, Instance, Day, Start, End, ShareNum, ShareDen, State, Node, Owner, JobId, JobScheduler)`)
	must(w.t, err)
	for _, i := range intervals {
		d := device{i.uuid, i.instance, i.start.Truncate(24 * time.Hour)}
		if loads[d] == 0 {
			loads[d] = w.loads.Next()
		}
		scheduler := ""
		if i.job != "" {
			scheduler = "slurm"
		}
		must(w.t, b.Append(loads[d], i.uuid, i.instance, d.day, i.start, i.end, max(i.num, 1), max(i.den, 1), i.state, i.node, i.owner, i.job, scheduler))
	}
	must(w.t, b.Send())
	for d, l := range loads {
		must(w.t, w.db.Exec(w.ctx, "INSERT INTO idlewatt_store.interval_commits (Uuid, Instance, Day, Load, Fingerprint) VALUES (?, ?, ?, ?, 0)", d.uuid, d.instance, d.day, l))
	}
}

func (w *world) once() int {
	w.t.Helper()
	n, err := w.p.Once(w.ctx)
	must(w.t, err)
	return n
}

// text asks for one value.
func (w *world) text(sql string, args ...any) string {
	w.t.Helper()
	var s string
	must(w.t, w.db.QueryRow(w.ctx, "SELECT toString(("+sql+"))", args...).Scan(&s))
	return s
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

func at(day, hour, minute int) time.Time {
	return time.Date(2026, 10, day, hour, minute, 0, 0, time.UTC)
}

func dec(s string) decimal.Decimal { return decimal.RequireFromString(s) }

func ptr(d decimal.Decimal) *decimal.Decimal { return &d }

func hourly(resource string, day, hour int, gpus int64, cost string) charge {
	return charge{
		resource: resource, start: at(day, hour, 0), end: at(day, hour+1, 0), gpus: decimal.NewFromInt(gpus), gpuHours: decimal.NewFromInt(gpus),
		billed: dec(cost), effective: ptr(dec(cost)), list: ptr(dec(cost)), quantity: ptr(decimal.NewFromInt(1)),
	}
}

func gpu(node string, i int) string { return fmt.Sprintf("GPU-%s-%d", node, i) }
