// Package query asks the public views the questions of reports and pages: one file per
// question, each a struct that becomes SQL with arguments and comes back as typed rows.
//
// Here lives SQL over database idlewatt, nothing else: no text for people (report, web), no
// calculation that a view already has. Amounts leave ClickHouse as text and become
// schema/money decimals; nothing passes through a float, and no currencies are added up.
package query

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// DB answers questions. Any user who may read database idlewatt will do.
type DB struct{ conn driver.Conn }

// New returns the questions of a connection.
func New(conn driver.Conn) DB { return DB{conn: conn} }

// Month is a calendar month: a billing period.
type Month struct {
	Year  int
	Month time.Month
}

// ParseMonth reads YYYY-MM.
func ParseMonth(s string) (Month, error) {
	t, err := time.Parse("2006-01", s)
	if err != nil {
		return Month{}, fmt.Errorf("reading month %q: want YYYY-MM", s)
	}
	return Month{Year: t.Year(), Month: t.Month()}, nil
}

// MonthOf is the month of an instant in a zone.
func MonthOf(at time.Time, zone *time.Location) Month {
	t := at.In(zone)
	return Month{Year: t.Year(), Month: t.Month()}
}

// String writes YYYY-MM.
func (m Month) String() string { return m.Day().Format("2006-01") }

// Day is the month's first day, at 00:00 UTC.
func (m Month) Day() time.Time { return time.Date(m.Year, m.Month, 1, 0, 0, 0, 0, time.UTC) }

// Bounds are the month's first instant and the one after its last, in a zone.
func (m Month) Bounds(zone *time.Location) (from, to time.Time) {
	return time.Date(m.Year, m.Month, 1, 0, 0, 0, 0, zone), time.Date(m.Year, m.Month+1, 1, 0, 0, 0, 0, zone)
}

// Add returns the month n months later.
func (m Month) Add(n int) Month {
	return MonthOf(time.Date(m.Year, m.Month+time.Month(n), 1, 0, 0, 0, 0, time.UTC), time.UTC)
}

// period is the argument for the month of a billing period.
func (m Month) period() any { return clickhouse.Named("month", m.Day().Format(time.DateOnly)) }

// span are the arguments for a time from and to, as instants.
func span(from, to time.Time) []any {
	const layout = "2006-01-02 15:04:05.000"
	return []any{clickhouse.Named("from", from.UTC().Format(layout)), clickhouse.Named("to", to.UTC().Format(layout))}
}

// inPeriod is the condition that a row is of the month's billing period, wherever the
// provider's day begins: zones are at most 14 hours ahead.
const inPeriod = "BillingPeriodStart >= toDate({month:String}) - 1 AND BillingPeriodStart < toDate({month:String}) + 31\n" +
	"        AND toStartOfMonth(BillingPeriodStart + INTERVAL 14 HOUR) = toDate({month:String})"

// ask runs a statement and scans every row.
func ask[T any](ctx context.Context, d DB, what string, sql string, args []any, scan func(driver.Rows, *T) error) ([]T, error) {
	rows, err := d.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", what, err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var out []T
	for rows.Next() {
		var one T
		if err := scan(rows, &one); err != nil {
			return nil, fmt.Errorf("reading %s: %w", what, err)
		}
		out = append(out, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	return out, nil
}

// amounts parses texts into decimals, in order; a nil text leaves its decimal as it is.
func amounts(texts []*string, into ...any) error {
	for i, text := range texts {
		if text == nil {
			continue
		}
		d, _, err := money.Parse(*text)
		if err != nil {
			return err
		}
		switch to := into[i].(type) {
		case *money.Decimal:
			*to = d
		case **money.Decimal:
			*to = &d
		}
	}
	return nil
}
