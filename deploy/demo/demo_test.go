package demo_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/deploy/demo"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// month is made once for all tests of this package, which only read it.
var month struct {
	dir string
	demo.Month
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "idlewatt-demo")
	if err == nil {
		month.dir = filepath.Join(dir, "month")
		month.Month, err = demo.Generate(month.dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func TestGenerateTwiceGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	a, b := month.dir, t.TempDir()
	if _, err := demo.Generate(b); err != nil {
		t.Fatal(err)
	}
	var files int
	err := filepath.WalkDir(a, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		rel, err := filepath.Rel(a, path)
		if err != nil {
			return err
		}
		if x, y := sum(t, path), sum(t, filepath.Join(b, rel)); x != y {
			t.Errorf("%s differs between two runs", rel)
		}
		return nil
	})
	if err != nil || files != 7 {
		t.Errorf("walked %d files, want 7: %v", files, err)
	}
}

func sum(t *testing.T, path string) [32]byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(b)
}

// TestTotalsFollowFromTheFiles adds the written files up again, with decimals and AWS's own
// rules per line item type, and compares with what Generate promised.
func TestTotalsFollowFromTheFiles(t *testing.T) {
	t.Parallel()
	m := month.Month
	var live demo.Totals
	for i, d := range m.Deliveries {
		got := addUp(t, d.Files)
		compare(t, d.Name, got, d.Totals)
		if i > 0 {
			live = plus(live, got)
		}
		if d.Totals.Rows < 1000 || d.Account == "" {
			t.Errorf("%s: %d rows, account %q", d.Name, d.Totals.Rows, d.Account)
		}
	}
	compare(t, "final", live, m.Final)
	if n := m.Final.Rows; n < 30_000 || n > 60_000 {
		t.Errorf("%d rows: want a month that rows/s mean something for", n)
	}
	t.Logf("billed %s, effective %s, rows %d, projects %v", m.Final.Billed, m.Final.Effective, m.Final.Rows, m.Final.ByProject)
}

func plus(a, b demo.Totals) demo.Totals {
	out := demo.Totals{
		Rows: a.Rows + b.Rows, Billed: a.Billed.Add(b.Billed), Effective: a.Effective.Add(b.Effective),
		ByProject: map[string]demo.Amounts{}, ByAccount: map[string]decimal.Decimal{},
	}
	for _, t := range []demo.Totals{a, b} {
		for k, v := range t.ByProject {
			out.ByProject[k] = demo.Amounts{Billed: out.ByProject[k].Billed.Add(v.Billed), Effective: out.ByProject[k].Effective.Add(v.Effective)}
		}
		for k, v := range t.ByAccount {
			out.ByAccount[k] = out.ByAccount[k].Add(v)
		}
	}
	return out
}

func addUp(t *testing.T, files []string) demo.Totals {
	t.Helper()
	out := demo.Totals{ByProject: map[string]demo.Amounts{}, ByAccount: map[string]decimal.Decimal{}}
	readBill(t, files, func(c cells) {
		cash := c.amount(t, "line_item_unblended_cost")
		if _, ok := c.text["line_item_net_unblended_cost"]; ok {
			cash = c.amount(t, "line_item_net_unblended_cost")
		}
		effective := cash
		switch c.text["line_item_line_item_type"] {
		case "SavingsPlanCoveredUsage":
			effective = c.amount(t, "savings_plan_net_savings_plan_effective_cost")
		case "SavingsPlanNegation":
			effective = decimal.Zero
		case "SavingsPlanRecurringFee":
			effective = c.amount(t, "savings_plan_total_commitment_to_date").Sub(c.amount(t, "savings_plan_used_commitment"))
		}
		// The pair of covered usage and negation sums to nothing, so cash may be added as it
		// stands where rows are not told apart; by project it may not.
		out.Rows++
		out.Billed = out.Billed.Add(cash)
		out.Effective = out.Effective.Add(effective)
		account := c.text["bill_payer_account_id"]
		out.ByAccount[account] = out.ByAccount[account].Add(cash)
		if k := c.text["line_item_line_item_type"]; k == "SavingsPlanCoveredUsage" || k == "SavingsPlanNegation" {
			cash = decimal.Zero
		}
		project := c.maps["resource_tags"]["user_project"]
		p := out.ByProject[project]
		out.ByProject[project] = demo.Amounts{Billed: p.Billed.Add(cash), Effective: p.Effective.Add(effective)}
	})
	return out
}

func compare(t *testing.T, name string, got, want demo.Totals) {
	t.Helper()
	if got.Rows != want.Rows || !got.Billed.Equal(want.Billed) || !got.Effective.Equal(want.Effective) {
		t.Errorf("%s: files hold %d rows, billed %s, effective %s; promised %d, %s, %s",
			name, got.Rows, got.Billed, got.Effective, want.Rows, want.Billed, want.Effective)
	}
	if len(got.ByProject) != len(want.ByProject) || len(got.ByAccount) != len(want.ByAccount) {
		t.Errorf("%s: projects %v, accounts %v; promised %v, %v", name, got.ByProject, got.ByAccount, want.ByProject, want.ByAccount)
	}
	for p, w := range want.ByProject {
		if g := got.ByProject[p]; !g.Billed.Equal(w.Billed) || !g.Effective.Equal(w.Effective) {
			t.Errorf("%s, project %q: files hold %v, promised %v", name, p, g, w)
		}
	}
	for a, w := range want.ByAccount {
		if !got.ByAccount[a].Equal(w) {
			t.Errorf("%s, account %s: files hold %s, promised %s", name, a, got.ByAccount[a], w)
		}
	}
}

func TestBillHoldsWhatTheMonthIsAbout(t *testing.T) {
	t.Parallel()
	m := month.Month
	kinds, usage := map[string]int{}, map[string]int{}
	var weekendHours, partial int
	readBill(t, m.Deliveries[1].Files, func(c cells) {
		kinds[c.text["line_item_line_item_type"]]++
		kind, _, _ := strings.Cut(strings.TrimPrefix(c.text["line_item_usage_type"], "USE2-"), ":")
		usage[kind]++
		if kind == "SpotUsage" && c.text["line_item_usage_amount"] != "1" {
			partial++
		}
		if c.text["line_item_resource_id"] == m.Weekend.ResourceID && kind == "BoxUsage" {
			weekendHours++
			if c.text["pricing_term"] != "OnDemand" || c.text["line_item_line_item_type"] != "Usage" {
				t.Fatalf("the idle node is not on demand: %v", c.text)
			}
		}
		if c.text["bill_invoice_id"] == "" {
			t.Fatal("the closed month has a row without an invoice id")
		}
	})
	for _, k := range []string{"Usage", "SavingsPlanCoveredUsage", "SavingsPlanNegation", "SavingsPlanRecurringFee", "Fee", "Credit", "Tax"} {
		if kinds[k] == 0 {
			t.Errorf("no %s row", k)
		}
	}
	if kinds["SavingsPlanCoveredUsage"] != kinds["SavingsPlanNegation"] || weekendHours != 744 || partial < 20 {
		t.Errorf("kinds %v, hours of the idle node %d, partial spot hours %d", kinds, weekendHours, partial)
	}
	for k, n := range map[string]int{"UnusedBox": 36, "Reservation": 48, "EKS-EC2-vCPU-Hours": 5 * 744} {
		if usage[k] != n {
			t.Errorf("%d rows of %s, want %d", usage[k], k, n)
		}
	}
	if a, b := m.Deliveries[0].Totals, m.Deliveries[1].Totals; a.Billed.Equal(b.Billed) || a.Rows >= b.Rows {
		t.Errorf("the restated delivery does not differ: %v, %v", a, b)
	}
}

// TestColumnsServeTheContract holds the files against the columns that the store reads.
func TestColumnsServeTheContract(t *testing.T) {
	t.Parallel()
	m := month.Month
	f, ok := normalize.Find("aws-cur2")
	if !ok {
		t.Fatal("format aws-cur2 is gone")
	}
	for _, path := range m.Deliveries[0].Files {
		h, err := normalize.ReadHeader(path, event.Object{Encoding: "parquet"})
		if err != nil {
			t.Fatal(err)
		}
		if g, ok := normalize.Guess(h.Names()); !ok || g.Name != f.Name {
			t.Errorf("%s is guessed as %q", path, g.Name)
		}
		if !slices.IsSorted(h.Names()) || len(h.Fields) < 60 {
			t.Errorf("%d columns, sorted %v: Parquet groups sort theirs, so values would be in the wrong place", len(h.Fields), slices.IsSorted(h.Names()))
		}
		have := f.Match(h.Names())
		for _, c := range f.Columns {
			if _, ok := have[c.Name]; c.Required && !ok {
				t.Errorf("required column %s is missing", c.Name)
			}
		}
		for _, field := range h.Fields {
			if slices.Contains([]string{"resource_tags", "product", "cost_category", "discount"}, field.Name) != strings.HasPrefix(field.Type, "Map") {
				t.Errorf("%s is read as %q", field.Name, field.Type)
			}
		}
	}
}

func TestInvoices(t *testing.T) {
	t.Parallel()
	m := month.Month
	b, err := os.ReadFile(m.Invoices)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	matched := 0
	for i, inv := range m.Invoice {
		row := rows[i+1]
		asked := decimal.RequireFromString(row[5])
		if row[1] != inv.Account || row[2] != inv.ID || !asked.Equal(inv.Total) {
			t.Errorf("row %v, promised %v", row, inv)
		}
		if !asked.Sub(m.Final.ByAccount[inv.Account]).Equal(inv.Difference) {
			t.Errorf("invoice %s: %s asked, %s on the bill, promised difference %s", inv.ID, asked, m.Final.ByAccount[inv.Account], inv.Difference)
		}
		if inv.Difference.IsZero() {
			matched++
		}
	}
	if matched != 1 {
		t.Errorf("%d invoices match, want 1 of 2", matched)
	}
}

func TestGenerateCUR(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.parquet"), filepath.Join(dir, "b.parquet")
	for _, p := range []string{a, b} {
		if err := demo.GenerateCUR(p, 5_000, 7); err != nil {
			t.Fatal(err)
		}
	}
	if sum(t, a) != sum(t, b) {
		t.Error("the same rows and seed give other bytes")
	}
	rows := 0
	readBill(t, []string{a}, func(c cells) {
		rows++
		if c.text["line_item_unblended_cost"] == "" || c.text["bill_payer_account_id"] == "" {
			t.Fatalf("row %d has no cost or payer: %v", rows, c.text)
		}
	})
	if rows != 5_000 {
		t.Errorf("%d rows, want 5000", rows)
	}
	if err := demo.GenerateCUR(filepath.Join(dir, "c.parquet"), 0, 7); err == nil {
		t.Error("0 rows are accepted")
	}
}

func BenchmarkGenerateCUR(b *testing.B) {
	path := filepath.Join(b.TempDir(), "cur.parquet")
	const rows = 200_000
	start := time.Now()
	for b.Loop() {
		if err := demo.GenerateCUR(path, rows, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows*b.N)/time.Since(start).Seconds(), "rows/s")
}
