package report

import (
	"cmp"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/money"
)

// oneCent is the smallest amount that tables show.
func oneCent() money.Decimal { return decimal.New(1, -2) }

// Cents rounds amounts to whole cents so that they add up to their rounded sum: each is cut
// down, and the cents that are missing go to the largest remainders. Ties go by key, so the
// result does not depend on the order of the input; equal keys with equal amounts are alike.
func Cents(values []money.Decimal, keys []string) (shown []money.Decimal, total money.Decimal) {
	sum := decimal.Zero
	for _, v := range values {
		sum = sum.Add(v)
	}
	total = sum.RoundBank(2)
	return spread(values, keys, total), total
}

// spread rounds amounts to whole cents that add up to total, which is their sum's floor or
// ceiling in cents.
func spread(values []money.Decimal, keys []string, total money.Decimal) []money.Decimal {
	shown := make([]money.Decimal, len(values))
	order := make([]int, len(values))
	left := total
	for i, v := range values {
		shown[i], order[i] = v.RoundFloor(2), i
		left = left.Sub(shown[i])
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(values[b].Sub(shown[b]).Cmp(values[a].Sub(shown[a])), cmp.Compare(keys[a], keys[b]))
	})
	for i := 0; left.IsPositive() && len(order) > 0; i = (i + 1) % len(order) {
		shown[order[i]] = shown[order[i]].Add(oneCent())
		left = left.Sub(oneCent())
	}
	return shown
}

// Grid is a table in whole cents that adds up both ways.
type Grid struct {
	Cells   [][]money.Decimal
	Rows    []money.Decimal // sums of rows
	Columns []money.Decimal // sums of columns
	Total   money.Decimal
}

// CentsGrid rounds a table to whole cents so that every row and every column adds up to its
// shown sum, and the sums to the total. Every cell and every sum is the exact one cut down,
// or a cent more. The sums follow the largest-remainder rule; where the zeros of the table
// make that impossible, sums of columns give way first, then sums of rows. Ties go by the
// keys of row and column.
func CentsGrid(values [][]money.Decimal, rowKeys, columnKeys []string) Grid {
	rows, columns := make([]money.Decimal, len(rowKeys)), make([]money.Decimal, len(columnKeys))
	sum := decimal.Zero
	for i, row := range values {
		for j, v := range row {
			rows[i], columns[j], sum = rows[i].Add(v), columns[j].Add(v), sum.Add(v)
		}
	}
	total := sum.RoundBank(2)
	fixedRows, fixedColumns := spread(rows, rowKeys, total), spread(columns, columnKeys, total)
	m := newMissing(values, byKey(rowKeys), byKey(columnKeys), total)
	// The last of these always has a solution: the exact table itself is one in fractions.
	for _, try := range [][2][]bounds{
		{exactly(fixedRows), exactly(fixedColumns)},
		{exactly(fixedRows), between(columns)},
		{between(rows), between(columns)},
	} {
		if g, ok := m.place(try[0], try[1]); ok {
			g.Total = total
			return g
		}
	}
	return Grid{} // not reached
}

// bounds are what a shown sum may be.
type bounds struct{ low, high money.Decimal }

func exactly(sums []money.Decimal) []bounds {
	out := make([]bounds, len(sums))
	for i, s := range sums {
		out[i] = bounds{s, s}
	}
	return out
}

func between(sums []money.Decimal) []bounds {
	out := make([]bounds, len(sums))
	for i, s := range sums {
		out[i] = bounds{s.RoundFloor(2), s.RoundCeil(2)}
	}
	return out
}

func byKey(keys []string) []int {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	return order
}
