package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/dashboards/report"
	"github.com/idlewatt/idlewatt/deploy/local/localtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	flag.Parse()
	localtest.Main(m)
}

var may = query.Month{Year: 2026, Month: time.May}

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func demo(t *testing.T) driver.Conn {
	t.Helper()
	db, err := clickhouse.Open(localtest.Fresh(t).ClickHouseOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	text, err := os.ReadFile("../query/testdata/demo.sql")
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

func builder(t *testing.T, db driver.Conn) *report.Builder {
	t.Helper()
	now := time.Date(2026, 5, 31, 9, 30, 0, 0, time.UTC)
	return report.New(query.New(db), berlin(t), func() time.Time { return now })
}

// Every report in every format is compared with its golden file.
func TestGolden(t *testing.T) {
	t.Parallel()
	b := builder(t, demo(t))
	for name, r := range map[string]report.Request{
		"allocation":      {Name: "allocation", Month: may},
		"allocation-team": {Name: "allocation", Month: may, By: []string{"team", "project"}},
		"allocation-none": {Name: "allocation", Month: may.Add(3)},
		"idle":            {Name: "idle", Month: may},
		"jobs":            {Name: "jobs", Month: may},
		"reconciliation":  {Name: "reconciliation", Month: may},
	} {
		got, err := b.Build(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		addsUp(t, got)
		for _, format := range report.Formats() {
			var out bytes.Buffer
			if err := report.Render(&out, got, format); err != nil {
				t.Fatal(err)
			}
			check(t, format, out.String())
			golden(t, name+"."+map[string]string{"table": "txt"}[format]+strings.TrimPrefix(format, "table"), out.Bytes())
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (run with -update if that is meant; -want +got):\n%s", name, d)
	}
}

// addsUp checks that what people see adds up: every money column to its total, and the kinds
// of every row to its effective cost.
func addsUp(t *testing.T, r report.Report) {
	t.Helper()
	number := func(s string) decimal.Decimal {
		d, err := decimal.NewFromString(strings.ReplaceAll(s, ",", ""))
		if err != nil {
			t.Fatalf("%q is no number", s)
		}
		return d
	}
	for _, s := range r.Sections {
		for _, table := range s.Tables {
			if len(table.Total) == 0 {
				continue
			}
			for c, column := range table.Columns {
				if column.Kind != report.Money || table.Total[c].Show == "" {
					continue
				}
				sum := decimal.Zero
				for _, row := range table.Rows {
					if !row[c].Null {
						sum = sum.Add(number(row[c].Show))
					}
				}
				if !sum.Equal(number(table.Total[c].Show)) {
					t.Errorf("%s, %s: rows show %s, total %s", table.Key, column.Key, sum, table.Total[c].Show)
				}
			}
			if table.Key != "allocation" {
				continue
			}
			for _, row := range append(table.Rows[:len(table.Rows):len(table.Rows)], table.Total) {
				var effective, kinds decimal.Decimal
				for c, column := range table.Columns {
					switch {
					case column.Key == "effective_cost":
						effective = number(row[c].Show)
					case column.Kind == report.Money && column.Key != "billed_cost" && column.Key != "estimated":
						kinds = kinds.Add(number(row[c].Show))
					}
				}
				if !kinds.Equal(effective) {
					t.Errorf("%s: kinds show %s, effective %s", row[0].Show, kinds, effective)
				}
			}
		}
	}
}

var outside = regexp.MustCompile(`(?i)(src|href|url\()\s*=?\s*["']?(https?:)?//|<script|<link|@import`)

// check looks for what a format must not hold.
func check(t *testing.T, format, text string) {
	t.Helper()
	switch format {
	case "html":
		if outside.MatchString(text) {
			t.Errorf("the page asks for something outside: %s", outside.FindString(text))
		}
		if strings.Contains(text, "<b>&") || strings.Contains(text, "lab-<b>") {
			t.Error("a name from outside is not escaped")
		}
	case "json":
		if !json.Valid([]byte(text)) {
			t.Error("not JSON")
		}
	case "csv":
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			t.Error(err)
		}
		for _, row := range rows {
			for _, cell := range row {
				if strings.HasPrefix(cell, "=") {
					t.Errorf("%q is a formula", cell)
				}
			}
		}
	}
}

func TestBooksThatDoNotCloseAreRefused(t *testing.T) {
	t.Parallel()
	db := demo(t)
	for _, stmt := range []string{
		"DROP VIEW idlewatt.charges",
		`CREATE VIEW idlewatt.charges AS SELECT * REPLACE (if(ServiceName = 'Tax', EffectiveCost + toDecimal128('0.000000000000000001', 18), EffectiveCost) AS EffectiveCost) FROM idlewatt.allocations`,
	} {
		if err := db.Exec(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range report.Names() {
		_, err := builder(t, db).Build(t.Context(), report.Request{Name: name, Month: may})
		var refused *report.BooksError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "Amazon Web Services 123456789012, USD:") ||
			!strings.HasSuffix(err.Error(), "difference 0.000000000000000001") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrongRequests(t *testing.T) {
	t.Parallel()
	b := builder(t, demo(t))
	for _, r := range []report.Request{{Name: "allocations", Month: may}, {Name: "allocation", Month: may, By: []string{"colour"}}} {
		if _, err := b.Build(t.Context(), r); err == nil {
			t.Errorf("%+v is taken", r)
		}
	}
	if err := report.Render(&bytes.Buffer{}, report.Report{}, "pdf"); err == nil {
		t.Error("pdf is a format")
	}
}
