package normalize

import (
	"context"
	"errors"
	"fmt"
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
	e := RefusedError{File: s.object.Name}
	found, err := p.firstFault(ctx, s, &e)
	switch {
	case errors.As(err, &known):
		return known
	case err != nil: // the file itself cannot be read as what it says it is
		return parseFailure(s, err)
	case found:
		return e
	default:
		return RefusedError{File: s.object.Name, Reason: store.ErrorText(cause)}
	}
}

// firstFault fills in row, column and reason of the first bad cell.
func (p *Processor) firstFault(ctx context.Context, s source, e *RefusedError) (found bool, err error) {
	from, row := p.table(s)
	query := explainSQL(s, from, row)
	if p.streams(s) {
		// What is streamed can only be inserted: into a table of its own.
		table := fmt.Sprintf("idlewatt_store.refusal_%d", p.Loads.Next())
		if err := p.db.Exec(ctx, "CREATE TABLE "+table+" (row UInt64, column String, reason String) ENGINE = Memory"); err != nil {
			return false, err
		}
		defer p.drop(ctx, table)
		if err := p.stream(ctx, s, "INSERT INTO "+table+" "+query); err != nil {
			return false, err
		}
		query = "SELECT row, column, reason FROM " + table
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"max_threads": 1, "input_format_parallel_parsing": 0,
	}))
	rows, err := p.db.Query(ctx, query)
	if err != nil {
		return false, err
	}
	defer rows.Close() //nolint:errcheck // read only
	if found = rows.Next(); found {
		return true, rows.Scan(&e.Row, &e.Column, &e.Reason)
	}
	return false, rows.Err()
}

func (p *Processor) drop(ctx context.Context, table string) {
	if err := p.db.Exec(context.WithoutCancel(ctx), "DROP TABLE IF EXISTS "+table); err != nil {
		p.Log.WarnContext(ctx, "dropping the table of an explanation", slog.String("error", err.Error()))
	}
}

var atRow = regexp.MustCompile(`\(at row (\d+)\)`)
var atColumn = regexp.MustCompile(`ERROR.*`)

// parseFailure turns the engine's words about a file's syntax into ours.
func parseFailure(s source, err error) error {
	text := store.ErrorText(err)
	e := RefusedError{File: s.object.Name}
	if m := atRow.FindStringSubmatch(text); m != nil {
		fmt.Sscan(m[1], &e.Row) //nolint:errcheck // digits by the pattern
	}
	first, _, _ := strings.Cut(text, "\n")
	hint := atColumn.FindString(text)
	if hint != "" {
		hint = "; " + hint
	}
	e.Reason = unreadable(s) + first + hint + "; fetch the file again and compare its size"
	return e
}

func unreadable(s source) string {
	what := "is not readable as " + s.object.Encoding
	if s.object.Compression != "none" {
		what += " (" + s.object.Compression + ")"
	}
	return what + ", or is cut short: "
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
			num := "toDecimal256OrNull(" + raw + ", 40)"
			add(h, "isNotNull("+raw+") AND isNull("+num+")",
				"concat('cannot read ', toString(assumeNotNull("+raw+")), ' as a number that fits Decimal(38,18)')")
			add(h, "ifNull(abs("+num+") >= toDecimal256('100000000000000000000', 40), 0)",
				"concat(toString(assumeNotNull("+raw+")), ' overflows Decimal(38,18): more than 20 digits before the point')")
		case normalize.Time:
			t := timeExpr(raw, s.format.Times, false)
			if strings.Contains(s.columnType(h), "Date") {
				t = "toDateTime64(" + column(h) + ", 3, 'UTC')"
			}
			add(h, "isNotNull("+raw+") AND (isNull("+t+") OR toYear("+t+") < 2000 OR toYear("+t+") > 2100)",
				"concat('cannot read ', toString(assumeNotNull("+raw+")), ' as a date or time')")
		}
	}
	return fmt.Sprintf(`SELECT toUInt64(rn) AS row, bad.1 AS column, bad.2 AS reason
FROM (SELECT %s AS rn, arrayFilter(t -> t.1 != '', [%s]) AS faults FROM %s AS f)
ARRAY JOIN faults AS bad ORDER BY rn LIMIT 1`, row, strings.Join(checks, ",\n"), from)
}
