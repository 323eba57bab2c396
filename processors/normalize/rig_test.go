package normalize

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/ingest"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/migrations"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// engine is the pair that all tests share; each test uses sources and accounts of its own.
var engine struct {
	once sync.Once
	err  error
	name atomic.Int64
}

// rig is a processor on the shared engines.
type rig struct {
	testing.TB
	db      *store.DB
	js      jetstream.JetStream
	p       *Processor
	archive ingest.Archive
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return rigOn(t, localtest.Start(t), func(r *rig) error {
		engine.once.Do(func() { engine.err = prepare(r) })
		return engine.err
	})
}

// freshRig has engines of its own, for what must not meet the bills of other tests.
func freshRig(t testing.TB) *rig {
	t.Helper()
	return rigOn(t, localtest.Fresh(t), prepare)
}

func prepare(r *rig) error {
	if err := migrations.Apply(r.Context(), r.db.SQL, ""); err != nil {
		return err
	}
	for _, table := range []string{"charges", "commits"} { // what is thrown away need not survive a power loss
		if err := r.db.Exec(r.Context(), "ALTER TABLE idlewatt_store."+table+" MODIFY SETTING fsync_after_insert = 0, fsync_part_directory = 0"); err != nil {
			return err
		}
	}
	if err := bus.Ensure(r.Context(), r.js, 1); err != nil {
		return err
	}
	return store.Prepare(r.Context(), r.db, loads)
}

// loads are the test binary's: two processors on one engine must not share a number.
var loads = store.NewLoads(time.Now)

func rigOn(t testing.TB, e *local.Engines, ready func(*rig) error) *rig {
	t.Helper()
	db, err := store.Open(t.Context(), e.ClickHouseOptions)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	nc, err := e.ConnectNATS()
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	r := &rig{TB: t, db: db, js: js, archive: ingest.Archive{Root: t.TempDir()}}
	must(t, ready(r))
	r.p, err = New(t.Context(), Options{
		DB: db, JS: js, Loads: loads, Archive: r.archive.Root, SharedDisk: true, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Rules: DefaultRules(), Pause: -1,
		HTTP: store.HTTP{URL: e.HTTPURL, User: e.User, Password: e.Password, Settings: local.PinnedSettings(e.EngineVersion)},
	})
	must(t, err)
	return r
}

// source returns a name that no other test uses.
func (r *rig) source() string { return fmt.Sprintf("s%d", engine.name.Add(1)) }

// put writes a file and archives it.
func (r *rig) put(name string, content []byte) event.Object {
	r.Helper()
	path := filepath.Join(r.TempDir(), name)
	must(r, os.WriteFile(path, content, 0o600))
	return r.file(path)
}

func (r *rig) file(path string) event.Object {
	r.Helper()
	o, err := r.archive.PutFile(r.Context(), filepath.Base(path), path)
	must(r, err)
	return o
}

// delivery is one delivery of a source of its own unless one is given.
func (r *rig) delivery(d event.BillingDelivery, objects ...event.Object) event.BillingDelivery {
	d.Objects = append(d.Objects, objects...)
	if d.Source == "" {
		d.Source = r.source()
	}
	key := d.Format + d.Version + fmt.Sprint(d.Replaces, d.Assume)
	for _, o := range d.Objects {
		key += o.SHA256
	}
	d.Delivery = event.ID(d.Source, key, fmt.Sprint(engine.name.Add(1)))
	return d
}

// load delivers and wants the given status.
func (r *rig) load(status string, d event.BillingDelivery) Outcome {
	r.Helper()
	out, err := r.p.Deliver(r.Context(), d)
	if out.Status != status {
		r.Fatalf("%s %s: %s (%v), want %s", d.Source, d.Version, out.Status, err, status)
	}
	if refused := status == Refused || status == Held; refused != (err != nil) {
		r.Fatalf("%s %s: %s with error %v", d.Source, d.Version, out.Status, err)
	}
	return out
}

// ask returns the rows of an answer, columns joined by |. Every column must be a text.
func (r *rig) ask(sql string, args ...any) []string {
	r.Helper()
	rows, err := r.db.Query(r.Context(), sql, args...)
	must(r, err)
	defer rows.Close() //nolint:errcheck // read only
	var out []string
	for rows.Next() {
		cells := make([]string, len(rows.Columns()))
		into := make([]any, len(cells))
		for i := range cells {
			into[i] = &cells[i]
		}
		must(r, rows.Scan(into...))
		out = append(out, strings.Join(cells, "|"))
	}
	must(r, rows.Err())
	return out
}

func (r *rig) want(sql string, args []any, rows ...string) {
	r.Helper()
	if diff := cmp.Diff(rows, r.ask(sql, args...)); diff != "" {
		r.Errorf("%s %v (-want +got):\n%s", sql, args, diff)
	}
}

const sumsSQL = `SELECT toString(count()), toString(sum(toDecimal256(BilledCost, 18))),
	ifNull(toString(sum(toDecimal256(EffectiveCost, 18))), '-'), ifNull(toString(sum(toDecimal256(ListCost, 18))), '-')
	FROM idlewatt.charges WHERE x_Source = ?`

// sums wants rows, billed, effective and list cost of a source, to the last digit.
func (r *rig) sums(source, want string) {
	r.Helper()
	r.want(sumsSQL, []any{source}, want)
}

func find(format string) (normalize.Format, bool) { return normalize.Find(format) }
