package normalize

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// RefusedError says which cell of which file keeps a delivery from being loaded.
type RefusedError struct {
	File   string
	Row    uint64 // data row, counted from 1; 0 if no single row is at fault
	Column string // as printed in the file's header
	Reason string
}

func (e RefusedError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Row > 0 {
		fmt.Fprintf(&b, ", row %d", e.Row)
	}
	if e.Column != "" {
		fmt.Fprintf(&b, ", column %q", e.Column)
	}
	return b.String() + ": " + e.Reason
}

// explain finds the first cell that the load broke on. It runs only after a failure and
// reads the file once more, on one thread so that rows are counted as people count them.
func (p *Processor) explain(ctx context.Context, s source, cause error) error {
	var known RefusedError
	if errors.As(cause, &known) {
		return known
	}
	from, row := p.table(s)
	found, err := p.firstFault(ctx, s, explainSQL(s, from, row))
	switch {
	case errors.As(err, &known):
		return known
	case err != nil: // the file itself cannot be read as what it says it is
		return p.parseFailure(s, err)
	case found != nil:
		return *found
	}
	// Every cell is right by itself: what is made of them is not.
	cols, err := p.shape(ctx, s)
	if err == nil {
		found, err = p.firstFault(ctx, s, overflowSQL(s, from, row, cols))
	}
	if err == nil && found != nil {
		return *found
	}
	return RefusedError{File: s.object.Name, Reason: store.ErrorText(cause)}
}

// firstFault asks for row, column and reason of the first bad cell; nil if there is none.
func (p *Processor) firstFault(ctx context.Context, s source, query string) (*RefusedError, error) {
	if p.streams(s) {
		// What is streamed can only be inserted: into a table of its own.
		table := fmt.Sprintf("idlewatt_store.refusal_%d", p.Loads.Next())
		if err := p.db.Exec(ctx, "CREATE TABLE "+table+" (row UInt64, column String, reason String) ENGINE = Memory"); err != nil {
			return nil, err
		}
		defer p.drop(ctx, table)
		if err := p.stream(ctx, s, "INSERT INTO "+table+" "+query); err != nil {
			return nil, err
		}
		query = "SELECT row, column, reason FROM " + table
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"max_threads": 1, "input_format_parallel_parsing": 0,
	}))
	rows, err := p.db.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // read only
	if !rows.Next() {
		return nil, rows.Err()
	}
	e := RefusedError{File: s.object.Name}
	return &e, rows.Scan(&e.Row, &e.Column, &e.Reason)
}

func (p *Processor) drop(ctx context.Context, table string) {
	if err := p.db.Exec(context.WithoutCancel(ctx), "DROP TABLE IF EXISTS "+table); err != nil {
		p.Log.WarnContext(ctx, "dropping the table of an explanation", slog.String("error", err.Error()))
	}
}

var (
	atRow    = regexp.MustCompile(`\(at row (\d+)\)`)
	atColumn = regexp.MustCompile(`ERROR.*`)
	// ourPlaces are paths of the archive and other words that help nobody.
	ourPlaces = regexp.MustCompile(`:? ?(While reading from: \S+|\(in file/uri [^)]*\)|\(at row \d+\)|\(while reading header\)|\(code \d+\)):?`)
)

// parseFailure turns the engine's words about a file's syntax into ours.
func (p *Processor) parseFailure(s source, err error) error {
	text := store.ErrorText(err)
	e := RefusedError{File: s.object.Name}
	if m := atRow.FindStringSubmatch(text); m != nil {
		fmt.Sscan(m[1], &e.Row) //nolint:errcheck // digits by the pattern
	}
	if after, cut := p.cutAfter(s); cut != nil && e.Row == 0 {
		e.Row, text = after+1, cut.Error()
	}
	first, _, _ := strings.Cut(text, "\n")
	first = strings.TrimSpace(ourPlaces.ReplaceAllString(first, ""))
	hint := atColumn.FindString(text)
	if hint != "" {
		hint = "; " + hint
	}
	e.Reason = unreadable(s) + first + hint + "; fetch the file again and compare its size"
	return e
}

// cutAfter reads compressed text to where it breaks off: after so many whole rows.
func (p *Processor) cutAfter(s source) (rows uint64, err error) {
	if s.object.Encoding != "csv" || s.object.Compression == "none" {
		return 0, nil
	}
	body, done, err := p.bytes(s)
	if err != nil {
		return 0, err
	}
	defer done()
	r := csv.NewReader(normalize.DropBlankLines(body))
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	for lines := uint64(0); ; lines++ {
		_, err := r.Read()
		if errors.Is(err, io.EOF) {
			return max(lines, 1) - 1, nil
		}
		if err != nil {
			return max(lines, 1) - 1, err
		}
	}
}

func unreadable(s source) string {
	what := "is not readable as " + s.object.Encoding
	if s.object.Compression != "none" {
		what += " (" + s.object.Compression + ")"
	}
	return what + ", or is cut short: "
}

// overflowSQL asks for the first row of which some amount leaves the range.
func overflowSQL(s source, from, row string, columns []string) string {
	var checks []string
	for _, c := range columns {
		if moneyColumns[c] {
			checks = append(checks, fmt.Sprintf("if(ifNull(abs(%[1]s) >= toDecimal256('100000000000000000000', 0), 0), concat('its %[1]s is ', toString(assumeNotNull(%[1]s))), '')", c))
		}
	}
	return fmt.Sprintf(`WITH src AS (
%s
)
SELECT toUInt64(x_Row) AS row, '' AS column, concat(faults[1], ', which overflows Decimal(38,18): more than 20 digits before the point') AS reason
FROM (SELECT x_Row, arrayFilter(t -> t != '', [%s]) AS faults FROM (
%s
)) WHERE notEmpty(faults) ORDER BY row LIMIT 1`, s.sql(from, row), strings.Join(checks, ",\n"), strings.TrimSpace(s.format.SQL))
}

// explainSQL asks for the first bad cell. Each check is (column as printed, what is wrong).
func explainSQL(s source, from, row string) string {
	var checks []string
	add := func(h, cond, reason string) {
		checks = append(checks, fmt.Sprintf("if(%s, (%s, %s), ('', ''))", cond, literal(h), reason))
	}
	for _, c := range s.format.Columns {
		h, ok := s.matched[c.Name]
		if !ok {
			continue
		}
		raw := s.raw(c)
		if c.Filled {
			add(h, "isNull("+raw+")", literal("is empty, but every row must have it"))
		}
		switch c.Kind {
		case normalize.Money:
			num := "toDecimal256OrNull(" + s.number(c) + ", 40)"
			add(h, "isNotNull("+raw+") AND isNull("+num+")",
				"concat('cannot read \"', toString(assumeNotNull("+raw+")), '\" as a number that fits Decimal(38,18)')")
			add(h, "ifNull(abs("+num+") >= toDecimal256('100000000000000000000', 40), 0)",
				"concat(toString(assumeNotNull("+raw+")), ' overflows Decimal(38,18): more than 20 digits before the point')")
		case normalize.Time:
			t := timeExpr(raw, s.format.Times, false)
			if strings.Contains(s.columnType(h), "Date") {
				t = "toDateTime64(" + column(h) + ", 3, 'UTC')"
			}
			add(h, "isNotNull("+raw+") AND (isNull("+t+") OR toYear("+t+") < 2000 OR toYear("+t+") > 2100)",
				"concat('cannot read \"', toString(assumeNotNull("+raw+")), '\" as a date or time')")
		}
	}
	return fmt.Sprintf(`SELECT toUInt64(rn) AS row, bad.1 AS column, bad.2 AS reason
FROM (SELECT %s AS rn, arrayFilter(t -> t.1 != '', [%s]) AS faults FROM %s AS f)
ARRAY JOIN faults AS bad ORDER BY rn LIMIT 1`, row, strings.Join(checks, ",\n"), from)
}
