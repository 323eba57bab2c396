// Package normalize holds, per bill format, which columns a file may have and the SQL that
// turns them into FOCUS 1.4 rows.
//
// The SQL files read from a subquery named src, in which every column of the format's
// contract exists under its canonical name with one type per kind, whatever the file held.
// Building src from a file's header, and running the SQL, is processors/normalize.
package normalize

import (
	_ "embed"
	"slices"
	"strings"
)

// Kind is the type that a column has in src.
type Kind int

// Kinds of columns. Absent and empty cells are NULL in all of them but Map, where they are {}.
const (
	Text  Kind = iota // Nullable(String)
	Money             // Nullable(Decimal(76, 40)), exact
	Time              // Nullable(DateTime64(3, 'UTC'))
	Map               // Map(String, String), empty values dropped
	JSON              // Nullable(String)
)

// Column is one column of a format's contract.
type Column struct {
	Name     string // canonical: the name in src
	Kind     Kind
	Required bool
	// Aliases are other header names, already in key form (see Format.Key).
	Aliases []string
	// Filled says that an empty cell is an error, not only an absent column.
	Filled bool
	// Assumable names the --flag that may stand in for an absent column.
	Assumable string
}

// Refusal is a condition on a row of idlewatt_store.charges and what it gives away.
type Refusal struct{ Cond, Reason string }

// TimeForm is how a format writes times in text.
type TimeForm int

// Forms of times in text.
const (
	ISO   TimeForm = iota // 2026-10-31T22:00:00Z, with a blank for the T, or a date alone
	Azure                 // M/D/YYYY or MM/DD/YYYY, month first; or ISO
)

// Format is one kind of bill.
type Format struct {
	Name     string // as in --format
	Dataset  string // formats of one dataset supersede each other within a source
	Provider string // aws, azure; empty where the rows say it
	Summary  string
	SQL      string
	Columns  []Column
	Times    TimeForm
	// Nulls are words that mean no value.
	Nulls []string
	// Key turns a header name as printed into the form that Name and Aliases have.
	Key func(header string) string
	// TagKey turns a header into a tag key if the column is a tag of its own; ok is false else.
	TagKey func(header string) (key string, ok bool)
	// TagMap is the contract column that TagKey columns are gathered in.
	TagMap string
	// FoldTagKeys says that the provider's tag keys have no case (Azure).
	FoldTagKeys bool
	// Signature are canonical columns that tell this format from the others in a header.
	Signature []string
	// Refuses are conditions on loaded rows under which the file is not what it is said to be.
	Refuses []Refusal
	// Daily scopes are one usage day; the others are one billing period.
	Daily bool
}

//go:embed aws_cur.sql
var awsSQL string

//go:embed focus.sql
var focusSQL string

//go:embed aws_focus.sql
var awsFocusSQL string

//go:embed azure_actual.sql
var azureSQL string

// Formats returns every bill format, most specific first, in the order that guessing tries.
func Formats() []Format {
	return []Format{awsCUR2(), awsLegacy(), chargeLines(), awsFocus(), focus(), azureActual()}
}

// Find returns the format of that name.
func Find(name string) (Format, bool) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

// Names returns the names of all formats.
func Names() []string {
	var out []string
	for _, f := range Formats() {
		out = append(out, f.Name)
	}
	return out
}

// Guess returns the first format whose signature is in the header.
func Guess(header []string) (Format, bool) {
	for _, f := range Formats() {
		have := f.Match(header)
		if !slices.ContainsFunc(f.Signature, func(c string) bool { _, ok := have[c]; return !ok }) {
			return f, true
		}
	}
	return Format{}, false
}

// Match maps canonical names to the header names of a file that carry them. Where several
// headers fit, the first of Name, Aliases in that order wins.
func (f Format) Match(header []string) map[string]string {
	byKey := map[string]string{}
	for _, h := range header {
		if k := f.Key(h); k != "" {
			if _, taken := byKey[k]; !taken {
				byKey[k] = h
			}
		}
	}
	out := map[string]string{}
	for _, c := range f.Columns {
		for _, name := range append([]string{f.Key(c.Name)}, c.Aliases...) {
			if h, ok := byKey[name]; ok {
				out[c.Name] = h
				break
			}
		}
	}
	return out
}

// columns builds contract columns of one kind.
func columns(k Kind, names ...string) []Column {
	var out []Column
	for _, n := range names {
		out = append(out, Column{Name: n, Kind: k})
	}
	return out
}

// with returns the columns with one of them changed.
func with(cols []Column, name string, change func(*Column)) []Column {
	for i := range cols {
		if cols[i].Name == name {
			change(&cols[i])
		}
	}
	return cols
}

func requiredFilled(c *Column) { c.Required, c.Filled = true, true }

func assumable(flag string) func(*Column) {
	return func(c *Column) { c.Assumable = flag }
}

func alias(names ...string) func(*Column) {
	return func(c *Column) { c.Aliases = append(c.Aliases, names...) }
}

func trimBOM(h string) string { return strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")) }
