package report

import (
	"slices"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/money"
)

// missing are the cents that a table lacks once every cell is cut down. Placing them so that
// rows and columns add up is a flow of whole cents: source, rows, cells with a remainder,
// columns, sink.
type missing struct {
	values        [][]money.Decimal
	floors        [][]money.Decimal
	rows, columns []int // by key: the result does not depend on the order of the input
	rowSums       []money.Decimal
	columnSums    []money.Decimal
	cents         int
}

func newMissing(values [][]money.Decimal, rows, columns []int, total money.Decimal) *missing {
	m := &missing{
		values: values, rows: rows, columns: columns,
		rowSums: make([]money.Decimal, len(rows)), columnSums: make([]money.Decimal, len(columns)),
	}
	left := total
	for i, row := range values {
		m.floors = append(m.floors, make([]money.Decimal, len(row)))
		for j, v := range row {
			f := v.RoundFloor(2)
			m.floors[i][j] = f
			m.rowSums[i], m.columnSums[j], left = m.rowSums[i].Add(f), m.columnSums[j].Add(f), left.Sub(f)
		}
	}
	m.cents = wholeCents(left)
	return m
}

func wholeCents(d money.Decimal) int { return int(d.Shift(2).IntPart()) }

// place hands the cents out inside the bounds of the sums; ok is false where that cannot be.
func (m *missing) place(rows, columns []bounds) (g Grid, ok bool) {
	const source, freeRows, freeColumns, sink = 0, 1, 2, 3
	rowNode := func(i int) int { return 4 + i }
	columnNode := func(j int) int { return 4 + len(rows) + j }
	n := newNetwork(4 + len(rows) + len(columns))
	mustRows, mustColumns := 0, 0
	for _, i := range m.rows {
		low, high := wholeCents(rows[i].low.Sub(m.rowSums[i])), wholeCents(rows[i].high.Sub(m.rowSums[i]))
		n.edge(source, rowNode(i), low)
		n.edge(freeRows, rowNode(i), high-low)
		mustRows += low
	}
	for _, j := range m.columns {
		low, high := wholeCents(columns[j].low.Sub(m.columnSums[j])), wholeCents(columns[j].high.Sub(m.columnSums[j]))
		n.edge(columnNode(j), sink, low)
		n.edge(columnNode(j), freeColumns, high-low)
		mustColumns += low
	}
	if mustRows > m.cents || mustColumns > m.cents {
		return Grid{}, false
	}
	n.edge(source, freeRows, m.cents-mustRows)
	n.edge(freeColumns, sink, m.cents-mustColumns)
	// The largest remainders come first: a later, smaller one changes what is placed only
	// where nothing else completes a sum.
	cells := m.largest()
	flow, next := 0, 0
	for tenth := 9; tenth >= 0; tenth-- {
		for ; next < len(cells) && cells[next].tenth == tenth; next++ {
			cells[next].edge = n.edge(rowNode(cells[next].i), columnNode(cells[next].j), 1)
		}
		flow += n.maximum(source, sink)
	}
	if flow < m.cents {
		return Grid{}, false
	}
	g = Grid{Rows: slices.Clone(m.rowSums), Columns: slices.Clone(m.columnSums)}
	for _, row := range m.floors {
		g.Cells = append(g.Cells, slices.Clone(row))
	}
	cent := decimal.New(1, -2)
	for _, c := range cells {
		if n.capacity[c.edge] == 0 {
			g.Cells[c.i][c.j] = g.Cells[c.i][c.j].Add(cent)
			g.Rows[c.i], g.Columns[c.j] = g.Rows[c.i].Add(cent), g.Columns[c.j].Add(cent)
		}
	}
	return g, true
}

// part is a cell with a remainder, and the edge that may give it a cent.
type part struct{ i, j, tenth, edge int }

// largest lists the cells with a remainder by tenths of a cent, the largest first, then by
// key.
func (m *missing) largest() []part {
	var out []part
	for _, i := range m.rows {
		for _, j := range m.columns {
			if rest := m.values[i][j].Sub(m.floors[i][j]); !rest.IsZero() {
				out = append(out, part{i: i, j: j, tenth: int(rest.Shift(3).IntPart())})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b part) int { return b.tenth - a.tenth })
	return out
}

// network finds a maximum flow (Dinic). Edge e and its reverse are e and e^1.
type network struct {
	out      [][]int // edges by node
	to       []int
	capacity []int
	level    []int
	next     []int
}

func newNetwork(nodes int) *network {
	return &network{out: make([][]int, nodes), level: make([]int, nodes), next: make([]int, nodes)}
}

func (n *network) edge(from, to, capacity int) int {
	e := len(n.to)
	n.to, n.capacity = append(n.to, to, from), append(n.capacity, capacity, 0)
	n.out[from], n.out[to] = append(n.out[from], e), append(n.out[to], e+1)
	return e
}

func (n *network) maximum(source, sink int) int {
	flow := 0
	for n.layer(source, sink) {
		clear(n.next)
		for {
			pushed := n.push(source, sink, int(^uint(0)>>1))
			if pushed == 0 {
				break
			}
			flow += pushed
		}
	}
	return flow
}

// layer numbers the nodes by distance; false when the sink cannot be reached.
func (n *network) layer(source, sink int) bool {
	for i := range n.level {
		n.level[i] = -1
	}
	n.level[source] = 0
	for queue := []int{source}; len(queue) > 0; queue = queue[1:] {
		for _, e := range n.out[queue[0]] {
			if n.capacity[e] > 0 && n.level[n.to[e]] < 0 {
				n.level[n.to[e]] = n.level[queue[0]] + 1
				queue = append(queue, n.to[e])
			}
		}
	}
	return n.level[sink] >= 0
}

func (n *network) push(at, sink, most int) int {
	if at == sink {
		return most
	}
	for ; n.next[at] < len(n.out[at]); n.next[at]++ {
		e := n.out[at][n.next[at]]
		if n.capacity[e] == 0 || n.level[n.to[e]] != n.level[at]+1 {
			continue
		}
		if d := n.push(n.to[e], sink, min(most, n.capacity[e])); d > 0 {
			n.capacity[e], n.capacity[e^1] = n.capacity[e]-d, n.capacity[e^1]+d
			return d
		}
	}
	return 0
}
