package query_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/schema/migrations"
	"github.com/idlewatt/idlewatt/schema/money"
)

func TestMain(m *testing.M) { localtest.Main(m) }

var may = query.Month{Year: 2026, Month: time.May}

// everything asks every question once.
func everything(ctx context.Context, db query.DB) map[string]func() (int, error) {
	from, to := may.Bounds(time.UTC)
	return map[string]func() (int, error){
		"allocation": func() (int, error) {
			r, err := db.Allocation(ctx, query.AllocationQuestion{Month: may, By: query.Dimensions()})
			return len(r), err
		},
		"allocation of all": func() (int, error) {
			r, err := db.Allocation(ctx, query.AllocationQuestion{Month: may})
			return len(r), err
		},
		"daily": func() (int, error) { r, err := db.Daily(ctx, query.DailyQuestion{Month: may}); return len(r), err },
		"reconciliation": func() (int, error) {
			r, err := db.Reconciliation(ctx, query.ReconciliationQuestion{Month: may})
			return len(r), err
		},
		"summary": func() (int, error) { r, err := db.Summary(ctx, query.SummaryQuestion{Month: may}); return len(r), err },
		"idle": func() (int, error) {
			r, err := db.Idle(ctx, query.IdleQuestion{From: from, To: to, Limit: 3})
			return len(r), err
		},
		"idle now": func() (int, error) { r, err := db.IdleNow(ctx, query.IdleNowQuestion{}); return len(r), err },
		"jobs": func() (int, error) {
			r, err := db.Jobs(ctx, query.JobsQuestion{From: from, To: to, Limit: 9})
			return len(r), err
		},
		"rates":    func() (int, error) { r, err := db.Rates(ctx, query.RatesQuestion{Month: may}); return len(r), err },
		"coverage": func() (int, error) { r, err := db.Coverage(ctx, query.CoverageQuestion{Limit: 5}); return len(r), err },
		"telemetry": func() (int, error) {
			r, err := db.Telemetry(ctx, query.TelemetryQuestion{Limit: 5})
			return len(r), err
		},
		"sources": func() (int, error) { r, err := db.Sources(ctx, query.SourcesQuestion{Month: may}); return len(r), err },
		"running": func() (int, error) {
			r, err := db.Running(ctx, query.RunningQuestion{SeenSince: time.Date(2026, 5, 30, 0, 0, 0, 0, time.UTC)})
			return len(r), err
		},
		"hosts": func() (int, error) {
			r, err := db.Hosts(ctx, query.HostsQuestion{SeenSince: time.Date(2026, 5, 30, 0, 0, 0, 0, time.UTC)})
			return len(r), err
		},
		"wallets": func() (int, error) { r, err := db.Wallets(ctx, query.WalletsQuestion{}); return len(r), err },
		"deliveries": func() (int, error) {
			r, err := db.Deliveries(ctx, query.DeliveriesQuestion{Limit: 5})
			return len(r), err
		},
	}
}

// Every question runs on the views as the migrations make them, for the analyst too.
func TestQuestionsOnTheRealViews(t *testing.T) {
	t.Parallel()
	engines := localtest.Fresh(t)
	sql := clickhouse.OpenDB(engines.ClickHouseOptions())
	defer sql.Close() //nolint:errcheck // test
	if err := migrations.Apply(t.Context(), sql, "Europe/Berlin"); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*clickhouse.Options{engines.ClickHouseOptions(), engines.AnalystOptions()} {
		db, err := clickhouse.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close() //nolint:errcheck // test
		for name, ask := range everything(t.Context(), query.New(db)) {
			if n, err := ask(); err != nil || n != 0 {
				t.Errorf("%s as %s: %d rows, %v", name, o.Auth.Username, n, err)
			}
		}
	}
}

// demo fills the stand-ins of testdata/demo.sql.
func demo(t *testing.T) driver.Conn {
	t.Helper()
	db, err := clickhouse.Open(localtest.Fresh(t).ClickHouseOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	text, err := os.ReadFile("testdata/demo.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, stmt := range strings.Split(string(text), "\n;;\n") {
		if err := db.Exec(t.Context(), stmt); err != nil {
			t.Fatalf("%.120s: %v", stmt, err)
		}
	}
	return db
}

func TestQuestionsFindRows(t *testing.T) {
	t.Parallel()
	db := query.New(demo(t))
	for name, ask := range everything(t.Context(), db) {
		if n, err := ask(); err != nil || n == 0 {
			t.Errorf("%s: %d rows, %v", name, n, err)
		}
	}
	// Both sides of the books, asked for by different questions, are exactly the same.
	summary, err := db.Summary(t.Context(), query.SummaryQuestion{Month: may})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.Allocation(t.Context(), query.AllocationQuestion{Month: may, By: []string{"project", "node"}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := map[string]money.Decimal{}, map[string]money.Decimal{}
	for _, r := range summary {
		a[r.Currency] = a[r.Currency].Add(r.Allocated)
	}
	for _, r := range rows {
		b[r.Currency] = b[r.Currency].Add(r.Effective)
	}
	for _, currency := range []string{"USD", "EUR"} {
		if !a[currency].Equal(b[currency]) || a[currency].IsZero() {
			t.Errorf("%s: %s and %s", currency, a[currency], b[currency])
		}
	}
	empty, err := db.Allocation(t.Context(), query.AllocationQuestion{Month: may.Add(1)})
	if err != nil || len(empty) != 0 {
		t.Errorf("June holds %d rows, %v", len(empty), err)
	}
}

func TestDimensionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, by := range [][]string{{"x_Project"}, {"project", "project"}, {"project; DROP TABLE x"}} {
		if _, err := (query.DB{}).Allocation(t.Context(), query.AllocationQuestion{Month: may, By: by}); err == nil {
			t.Errorf("%q is taken", by)
		}
	}
}

func TestMonth(t *testing.T) {
	t.Parallel()
	m, err := query.ParseMonth("2026-12")
	if err != nil || m.Add(1).String() != "2027-01" || m.Add(-12).String() != "2025-12" {
		t.Errorf("%v %v %v", m.Add(1), m.Add(-12), err)
	}
	for _, s := range []string{"2026-13", "2026", "", "2026-5", "May"} {
		if _, err := query.ParseMonth(s); err == nil {
			t.Errorf("%q is a month", s)
		}
	}
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	from, to := (query.Month{Year: 2026, Month: time.March}).Bounds(zone)
	if h := to.Sub(from).Hours(); h != 31*24-1 {
		t.Errorf("March 2026 in Berlin has %v hours", h)
	}
}
