package normalize

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/deploy/demo"
	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/ingest"
	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/migrations"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// bench is one data directory with everything an import needs.
type bench struct {
	ctx context.Context
	db  *store.DB
	pub ingest.Publisher
	p   *Processor
}

func newBench(b *testing.B) *bench {
	b.Helper()
	ctx := b.Context()
	e := localtest.Fresh(b)
	nc, err := e.ConnectNATS()
	must(b, err)
	b.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(b, err)
	must(b, bus.Ensure(ctx, js, 1))
	db, err := store.Open(ctx, e.ClickHouseOptions)
	must(b, err)
	b.Cleanup(func() { _ = db.Close() })
	must(b, migrations.Apply(ctx, db.SQL, ""))
	loads := store.NewLoads(time.Now)
	must(b, store.Prepare(ctx, db, loads))
	p, err := New(ctx, Options{
		DB: db, JS: js, Loads: loads, Archive: e.Layout.Archive(), SharedDisk: e.LocalFiles, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Rules: DefaultRules(),
	})
	must(b, err)
	return &bench{ctx: ctx, db: db, p: p, pub: ingest.Publisher{JS: js, Archive: ingest.Archive{Root: e.Layout.Archive()}, Now: time.Now}}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// product imports a file as `idlewatt import` does: archive, bus, normalise, check, commit.
func (x *bench) product(b *testing.B, format, path, source, version string) time.Duration {
	b.Helper()
	began := time.Now()
	objects, err := x.pub.ArchiveAll(x.ctx, []string{path})
	must(b, err)
	d, err := x.pub.Deliver(x.ctx, ingest.Delivery{Source: source, Format: format, Version: version, Objects: objects, Attempt: version})
	must(b, err)
	must(b, runtime.Drain(x.ctx, x.p.JS, x.p.Consumer(), x.p.Log))
	took := time.Since(began)
	var status, message string
	must(b, x.db.QueryRow(x.ctx, "SELECT Status, Message FROM idlewatt_store.delivery_log WHERE Delivery = ? ORDER BY At DESC LIMIT 1", d.Delivery).Scan(&status, &message))
	if status != Live && status != Unchanged {
		b.Fatalf("import: %s: %s", status, message)
	}
	return took
}

// engine is ClickHouse's own INSERT ... SELECT ... FROM file() of the same mapping into an
// equal table, with nothing of ours around it.
func (x *bench) engine(b *testing.B, format, path string) time.Duration {
	b.Helper()
	o, err := x.pub.PutFile(x.ctx, filepath.Base(path), path)
	must(b, err)
	f, _ := normalize.Find(format)
	a := &attempt{p: x.p, format: f, load: 1 << 16, d: event.BillingDelivery{Source: "engine", Format: format, Objects: []event.Object{o}}}
	must(b, a.open())
	cols, err := x.p.shape(x.ctx, a.sources[0])
	must(b, err)
	must(b, x.db.Exec(x.ctx, "CREATE TABLE IF NOT EXISTS idlewatt_store.charges_engine AS idlewatt_store.charges"))
	must(b, x.db.Exec(x.ctx, "TRUNCATE TABLE idlewatt_store.charges_engine"))
	from, row := x.p.table(a.sources[0])
	stmt := strings.Replace(a.statement(a.sources[0], from, row, cols), "idlewatt_store.charges ", "idlewatt_store.charges_engine ", 1)
	began := time.Now()
	must(b, x.db.Exec(clickhouse.Context(x.ctx, clickhouse.WithSettings(loadSettings())), stmt))
	return time.Since(began)
}

// BenchmarkImport imports one CUR 2.0 file of IDLEWATT_BENCH_ROWS rows (2,000,000 if not
// set), turn by turn with the engine alone, and reports both in rows/s and their ratio.
func BenchmarkImport(b *testing.B) {
	rows := 2_000_000
	if s := os.Getenv("IDLEWATT_BENCH_ROWS"); s != "" {
		_, err := fmt.Sscan(s, &rows)
		must(b, err)
	}
	path := filepath.Join(b.TempDir(), "cur2.parquet")
	must(b, demo.GenerateCUR(path, rows, 1))
	st, err := os.Stat(path)
	must(b, err)
	x := newBench(b)
	turns := 0
	var ours, theirs time.Duration
	for b.Loop() {
		for range 2 {
			turns++
			theirs += x.engine(b, "aws-cur2", path)
			ours += x.product(b, "aws-cur2", path, fmt.Sprintf("payer-%d", turns), "1")
			must(b, x.db.Exec(x.ctx, "TRUNCATE TABLE idlewatt_store.commits")) // each turn is a bill of its own
		}
	}
	n := float64(rows * turns)
	b.ReportMetric(n/ours.Seconds(), "import-rows/s")
	b.ReportMetric(n/theirs.Seconds(), "engine-rows/s")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "ratio")
	b.ReportMetric(float64(st.Size())/1e6, "MB")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkUnchanged delivers a month of 1,000,000 rows again, unchanged.
func BenchmarkUnchanged(b *testing.B) {
	path := filepath.Join(b.TempDir(), "cur2.parquet")
	must(b, demo.GenerateCUR(path, 1_000_000, 1))
	x := newBench(b)
	x.product(b, "aws-cur2", path, "payer", "1")
	version := 1
	var took time.Duration
	for b.Loop() {
		version++
		took += x.product(b, "aws-cur2", path, "payer", fmt.Sprint(version))
	}
	b.ReportMetric(took.Seconds()/float64(version-1), "s/delivery")
	b.ReportMetric(0, "ns/op")
}
