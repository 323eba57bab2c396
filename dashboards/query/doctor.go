package query

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// TaggedQuestion asks how much money of the last charges has a project, and which resources
// without one cost most.
type TaggedQuestion struct{ Offenders int }

// TaggedRow is one currency's spend over the newest billing period that has charges.
type TaggedRow struct {
	Currency  string
	Period    time.Time
	Effective money.Decimal
	Untagged  money.Decimal
	Offenders []string // resource ids without a project, dearest first
}

// SQL returns the statement.
func (q TaggedQuestion) SQL() (string, []any) {
	return `SELECT toString(BillingCurrency) AS Currency, toDateTime64(max(BillingPeriodStart), 3, 'UTC') AS Period,
    toString(sum(Cost)) AS Effective, toString(sumIf(Cost, NOT Tagged)) AS Untagged,
    arrayMap(t -> t.2, arraySlice(arrayReverseSort(t -> t.1, groupArrayIf((Cost, Resource), NOT Tagged AND Resource != '' AND Cost > 0)), 1, {offenders:UInt64})) AS Offenders
FROM
(
    SELECT BillingCurrency, BillingPeriodStart, ifNull(ResourceId, '') AS Resource, isNotNull(x_Project) AS Tagged, sum(ifNull(EffectiveCost, 0)) AS Cost
    FROM idlewatt.allocations
    WHERE BillingPeriodStart = (SELECT max(BillingPeriodStart) FROM idlewatt.charges) AND x_AllocationKind NOT IN ('tax', 'credit', 'adjustment')
    GROUP BY BillingCurrency, BillingPeriodStart, Resource, Tagged
)
GROUP BY Currency ORDER BY Currency`, []any{clickhouse.Named("offenders", uint64(max(q.Offenders, 1)))}
}

// Tagged answers the question.
func (d DB) Tagged(ctx context.Context, q TaggedQuestion) ([]TaggedRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "tags", sql, args, func(rows driver.Rows, r *TaggedRow) error {
		var t [2]*string
		if err := rows.Scan(&r.Currency, &r.Period, &t[0], &t[1], &r.Offenders); err != nil {
			return err
		}
		return amounts(t[:], &r.Effective, &r.Untagged)
	})
}

// SeenRow is what telemetry has of one node.
type SeenRow struct {
	Node    string
	GPUs    uint64
	Until   time.Time // end of the newest interval
	Unknown float64   // share of the last 24 h of its telemetry without a verdict, 0 to 1
}

// Seen asks which nodes have telemetry, longest silent first.
func (d DB) Seen(ctx context.Context) ([]SeenRow, error) {
	const sql = `SELECT toString(Node) AS Called, uniqExact(GpuUuid, GpuInstance) AS Gpus, toDateTime64(max(IntervalEnd), 3, 'UTC') AS Until,
    sumIf(dateDiff('second', IntervalStart, IntervalEnd), State = 'unknown' AND IntervalEnd > Newest - INTERVAL 1 DAY)
        / greatest(1, sumIf(dateDiff('second', IntervalStart, IntervalEnd), IntervalEnd > Newest - INTERVAL 1 DAY)) AS Unknown
FROM (SELECT *, max(IntervalEnd) OVER (PARTITION BY Node) AS Newest FROM idlewatt.gpu_intervals)
GROUP BY Called ORDER BY Until, Called`
	return ask(ctx, d, "telemetry", sql, nil, func(rows driver.Rows, r *SeenRow) error {
		return rows.Scan(&r.Node, &r.GPUs, &r.Until, &r.Unknown)
	})
}
