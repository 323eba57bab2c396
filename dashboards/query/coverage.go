package query

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// CoverageQuestion asks where telemetry and bill do not meet, most expensive first.
type CoverageQuestion struct{ Limit int }

// CoverageRow is a host without a resource, an ambiguous one, or a resource without telemetry.
type CoverageRow struct {
	Kind       string
	Name       string
	ResourceID string
	GPUHours   money.Decimal
	Currency   string
	Cost       *money.Decimal
	First      time.Time
	Last       time.Time
	Candidates []string // resources that an ambiguous host may be
}

// SQL returns the statement.
func (q CoverageQuestion) SQL() (string, []any) {
	return `SELECT toString(Kind) AS What, toString(Name) AS Called, toString(ResourceId) AS Resource, toString(u.GpuHours) AS Hours,
    toString(BillingCurrency) AS Currency, toString(u.Cost) AS Price,
    toDateTime64(FirstSeen, 3, 'UTC') AS First, toDateTime64(LastSeen, 3, 'UTC') AS Last, u.Candidates
FROM idlewatt.unmatched_hosts AS u
ORDER BY u.Cost DESC NULLS LAST, u.GpuHours DESC, What, Called, Resource
LIMIT {limit:UInt64}`, []any{clickhouse.Named("limit", uint64(max(q.Limit, 1)))}
}

// Coverage answers the question.
func (d DB) Coverage(ctx context.Context, q CoverageQuestion) ([]CoverageRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "coverage", sql, args, func(rows driver.Rows, r *CoverageRow) error {
		var t [2]*string
		if err := rows.Scan(&r.Kind, &r.Name, &r.ResourceID, &t[0], &r.Currency, &t[1], &r.First, &r.Last, &r.Candidates); err != nil {
			return err
		}
		return amounts(t[:], &r.GPUHours, &r.Cost)
	})
}
