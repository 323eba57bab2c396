package report_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/dashboards/report"
	"github.com/idlewatt/idlewatt/schema/money"
)

func amounts(t *rapid.T, n int, label string) []money.Decimal {
	out := make([]money.Decimal, n)
	for i := range out {
		out[i] = decimal.New(rapid.Int64Range(-9e12, 9e12).Draw(t, label), -int32(rapid.IntRange(0, 9).Draw(t, "digits")))
		if rapid.IntRange(0, 3).Draw(t, "zero") == 0 {
			out[i] = decimal.Zero
		}
	}
	return out
}

func keys(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("k%03d", i)
	}
	return out
}

func TestCentsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		values, keys := amounts(t, n, "value"), keys(n)
		shown, total := report.Cents(values, keys)
		sum, exact := decimal.Zero, decimal.Zero
		for i, s := range shown {
			sum, exact = sum.Add(s), exact.Add(values[i])
			if s.Sub(values[i]).Abs().GreaterThanOrEqual(decimal.New(1, -2)) || !s.Equal(s.Truncate(2)) {
				t.Fatalf("%s is shown as %s", values[i], s)
			}
		}
		if !sum.Equal(total) || !total.Equal(exact.RoundBank(2)) {
			t.Fatalf("rows add up to %s, shown total %s, exact %s", sum, total, exact)
		}
		order := rand.New(rand.NewPCG(uint64(n), 1)).Perm(n) //nolint:gosec // a shuffle
		mixed, mixedKeys := make([]money.Decimal, n), make([]string, n)
		for to, from := range order {
			mixed[to], mixedKeys[to] = values[from], keys[from]
		}
		again, _ := report.Cents(mixed, mixedKeys)
		for to, from := range order {
			if !again[to].Equal(shown[from]) {
				t.Fatalf("the result depends on the order: %s and %s", again[to], shown[from])
			}
		}
	})
}

func TestCentsGridAddsUpBothWays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(1, 12).Draw(t, "rows"), rapid.IntRange(1, 12).Draw(t, "columns")
		var values [][]money.Decimal
		for range n {
			values = append(values, amounts(t, m, "value"))
		}
		g := report.CentsGrid(values, keys(n), keys(m))
		columns, total := make([]money.Decimal, m), decimal.Zero
		exactRows, exactColumns, exact := make([]money.Decimal, n), make([]money.Decimal, m), decimal.Zero
		for i, row := range g.Cells {
			sum := decimal.Zero
			for j, c := range row {
				sum, columns[j] = sum.Add(c), columns[j].Add(c)
				near(t, c, values[i][j])
				exactRows[i], exactColumns[j], exact = exactRows[i].Add(values[i][j]), exactColumns[j].Add(values[i][j]), exact.Add(values[i][j])
			}
			if !sum.Equal(g.Rows[i]) {
				t.Fatalf("row %d adds up to %s, shown %s", i, sum, g.Rows[i])
			}
			near(t, sum, exactRows[i])
			total = total.Add(sum)
		}
		for j := range columns {
			near(t, columns[j], exactColumns[j])
			if !columns[j].Equal(g.Columns[j]) {
				t.Fatalf("column %d adds up to %s, shown %s", j, columns[j], g.Columns[j])
			}
		}
		if !total.Equal(g.Total) || !total.Equal(exact.RoundBank(2)) {
			t.Fatalf("total %s, shown %s, exact %s", total, g.Total, exact)
		}
		turned := turn(values)
		again := report.CentsGrid(turned, backwards(keys(n)), keys(m))
		for i := range g.Cells {
			for j := range g.Cells[i] {
				if !again.Cells[n-1-i][j].Equal(g.Cells[i][j]) {
					t.Fatal("the result depends on the order of the rows")
				}
			}
		}
	})
}

// near checks that an amount is shown cut down, or a cent more.
func near(t *rapid.T, shown, exact money.Decimal) {
	if !shown.Equal(exact.RoundFloor(2)) && !shown.Equal(exact.RoundCeil(2)) {
		t.Fatalf("%s is shown as %s", exact, shown)
	}
}

func turn(values [][]money.Decimal) [][]money.Decimal {
	out := slices.Clone(values)
	slices.Reverse(out)
	return out
}

func backwards(keys []string) []string { slices.Reverse(keys); return keys }

func TestTiesGoByKey(t *testing.T) {
	t.Parallel()
	third := decimal.RequireFromString("3.333333333333333333")
	shown, total := report.Cents([]money.Decimal{third, third, third}, []string{"c", "a", "b"})
	got := fmt.Sprint(shown, total)
	if d := cmp.Diff("[3.33 3.34 3.33] 10", got); d != "" {
		t.Error(d)
	}
}
