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

// CentsGrid rounds a table so that every row and every column adds up to its shown sum, and
// the sums to the total. Sums are rounded first, by largest remainder; then cells are cut
// down and the missing cents are placed where the remainders are, at most one to a cell
// wherever that is possible. Ties go by the keys of row and column.
func CentsGrid(values [][]money.Decimal, rowKeys, columnKeys []string) Grid {
	rows, columns := make([]money.Decimal, len(rowKeys)), make([]money.Decimal, len(columnKeys))
	sum := decimal.Zero
	for i, row := range values {
		for j, v := range row {
			rows[i], columns[j], sum = rows[i].Add(v), columns[j].Add(v), sum.Add(v)
		}
	}
	g := Grid{Total: sum.RoundBank(2)}
	g.Rows, g.Columns = spread(rows, rowKeys, g.Total), spread(columns, columnKeys, g.Total)
	p := placement{values: values, need: make([]int64, len(rowKeys)), room: make([]int64, len(columnKeys)), order: byKey(rowKeys)}
	g.Cells = make([][]money.Decimal, len(values))
	p.given = make([][]bool, len(values))
	rowLeft, columnLeft := slices.Clone(g.Rows), slices.Clone(g.Columns)
	for i, row := range values {
		g.Cells[i], p.given[i] = make([]money.Decimal, len(row)), make([]bool, len(row))
		for j, v := range row {
			g.Cells[i][j] = v.RoundFloor(2)
			rowLeft[i], columnLeft[j] = rowLeft[i].Sub(g.Cells[i][j]), columnLeft[j].Sub(g.Cells[i][j])
		}
	}
	for i, d := range rowLeft {
		p.need[i] = d.Div(oneCent()).IntPart()
	}
	for j, d := range columnLeft {
		p.room[j] = d.Div(oneCent()).IntPart()
	}
	p.columns = byKey(columnKeys)
	p.run(g.Cells)
	return g
}

func byKey(keys []string) []int {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	return order
}

// placement hands out the missing cents: a matching of rows that need one with columns that
// have room for one, by augmenting paths.
type placement struct {
	values  [][]money.Decimal
	need    []int64 // cents a row still lacks; below zero it has too many
	room    []int64 // cents a column still lacks
	given   [][]bool
	order   []int // rows by key
	columns []int // columns by key
}

func (p *placement) run(cells [][]money.Decimal) {
	for _, i := range p.order {
		for p.need[i] > 0 && p.give(i, make([]bool, len(p.columns))) {
			p.need[i]--
		}
	}
	for i := range cells {
		for j := range cells[i] {
			if p.given[i][j] {
				cells[i][j] = cells[i][j].Add(oneCent())
			}
		}
	}
	// What no fraction can take (sums that round against their parts) goes where both sums ask.
	for _, i := range p.order {
		for _, j := range p.columns {
			n := min(p.need[i], p.room[j])
			if p.need[i] < 0 || p.room[j] < 0 {
				n = max(p.need[i], p.room[j])
			}
			if n == 0 || (p.need[i] < 0) != (p.room[j] < 0) {
				continue
			}
			cells[i][j] = cells[i][j].Add(oneCent().Mul(decimal.NewFromInt(n)))
			p.need[i], p.room[j] = p.need[i]-n, p.room[j]-n
		}
	}
}

// give finds a cell of the row for one cent, moving other rows' cents where that makes room.
func (p *placement) give(i int, tried []bool) bool {
	for _, j := range p.largest(i) {
		if tried[j] {
			continue
		}
		tried[j] = true
		if p.room[j] > 0 {
			p.room[j]--
			p.given[i][j] = true
			return true
		}
		for _, other := range p.order {
			if other != i && p.given[other][j] && p.give(other, tried) {
				p.given[other][j], p.given[i][j] = false, true
				return true
			}
		}
	}
	return false
}

// largest lists the columns in which the row has a remainder and no cent yet.
func (p *placement) largest(i int) []int {
	var out []int
	for _, j := range p.columns {
		if !p.given[i][j] && !remainder(p.values[i][j]).IsZero() {
			out = append(out, j)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return remainder(p.values[i][b]).Cmp(remainder(p.values[i][a])) })
	return out
}

func remainder(d money.Decimal) money.Decimal { return d.Sub(d.RoundFloor(2)) }
