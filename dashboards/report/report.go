// Package report makes the monthly reports: what a month cost and for whom, what idle cost,
// what jobs cost, whether bills, invoices and allocations agree.
//
// Here live the form of a report (tables, plots, notes), the rule that its books must close,
// and its renderings as table, csv, json, md and html. SQL is in dashboards/query. Amounts
// of different currencies stand in different tables and are never added up.
package report

import (
	"time"

	"github.com/idlewatt/idlewatt/schema/money"
)

// Report is a finished report, ready to be rendered.
type Report struct {
	Name     string // allocation, idle, jobs or reconciliation
	Title    string
	Period   string // the billing period, YYYY-MM
	Made     time.Time
	Facts    []Fact // what the reader must know first
	Books    []Book
	Sections []Section
	Notes    []string

	order map[string]uint64 // charges by currency
}

// Fact is a named value.
type Fact struct{ Name, Value string }

// Tile is a main figure, with what share of something it is.
type Tile struct{ Name, Value, Share string }

// Section is the part of a report in one currency.
type Section struct {
	Title  string
	Tiles  []Tile // its main figures
	Plots  []Plot
	Tables []Table
}

// Kind says what a column holds: it decides alignment and form.
type Kind string

// Kinds of columns.
const (
	Text     Kind = "text"
	Money    Kind = "money"
	Quantity Kind = "quantity"
	Count    Kind = "count"
	Moment   Kind = "time"
	Percent  Kind = "percent"
)

// Number reports whether values of the kind stand at the right.
func (k Kind) Number() bool { return k != Text && k != Moment }

// Column is a column of a table.
type Column struct {
	Key   string // stable, for machines
	Title string
	Kind  Kind
	// Hidden columns are in csv and json only: all of it is zero.
	Hidden bool
}

// Cell is a value as people see it and as machines read it.
type Cell struct {
	Show  string
	Exact string
	Null  bool // not known: not zero
}

// Table is a table in one currency.
type Table struct {
	Key      string
	Title    string
	Currency string // empty where no column is money
	Columns  []Column
	Rows     [][]Cell
	Total    []Cell // empty where a sum means nothing
	Note     string
	// Main tables are what csv holds.
	Main bool
	// Empty is what to say when there are no rows.
	Empty string
}

// Plot is a stacked bar chart: one bar per label.
type Plot struct {
	Title    string
	Currency string
	Upright  bool // columns over days instead of bars by name
	Labels   []string
	Sums     []string // what stands beside each bar, as the table shows it
	Series   []Series
}

// Series is one part of every bar.
type Series struct {
	Key    string
	Title  string
	Values []money.Decimal
}

func text(s string) Cell { return Cell{Show: s, Exact: s} }

func unknown() Cell { return Cell{Show: "unknown", Null: true} }

// cents shows an amount that was rounded with its table, and keeps the exact one.
func cents(shown, exact money.Decimal) Cell {
	return Cell{Show: money.Text(shown, ""), Exact: exact.String()}
}

// quantity shows hours with two decimals.
func quantity(d money.Decimal) Cell { return Cell{Show: money.Text(d, ""), Exact: d.String()} }
