package query

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// IdleQuestion asks which nodes wasted GPU time between two instants. A stretch counts where
// it began.
type IdleQuestion struct {
	From, To time.Time
	// Limit is the number of rows per currency, the most expensive first; zero is all.
	Limit int
}

// IdleRow is what one node wasted in one state for one owner.
type IdleRow struct {
	Currency     string
	Node         string
	ResourceID   string
	GPUModel     string
	State        string
	Cause        string
	Owner        string
	Confidence   string
	Project      string
	PricingModel string
	LastJob      string
	GPUs         uint64
	Stretches    uint64
	First, Last  time.Time
	GPUHours     money.Decimal
	Cost         *money.Decimal // nil: no hour of it has a price
	Avoidable    *money.Decimal
	Unpriced     money.Decimal // GPU-hours without a price
	Coverage     float64
	Status       string // billed, estimated or partly_estimated
}

// SQL returns the statement.
func (q IdleQuestion) SQL() (string, []any) {
	limit := ""
	args := span(q.From, q.To)
	if q.Limit > 0 {
		limit = "\nLIMIT {limit:UInt64} BY Currency"
		args = append(args, clickhouse.Named("limit", uint64(q.Limit)))
	}
	return `SELECT toString(BillingCurrency) AS Currency, toString(w.Node) AS OnNode, toString(ifNull(w.ResourceId, '')) AS Resource,
    toString(ifNull(any(w.x_GpuModel), '')) AS Model, toString(w.State) AS InState, toString(w.Cause) AS Why, toString(w.Owner) AS Who,
    toString(any(w.OwnerConfidence)) AS Sure, toString(ifNull(any(w.x_Project), '')) AS Project, toString(ifNull(any(w.x_PricingModel), '')) AS Pricing,
    toString(argMax(w.LastJobId, w.IntervalStart)) AS Job, uniqExact(w.GpuUuid) AS Gpus, uniqExact(w.IntervalStart) AS Stretches,
    toDateTime64(min(w.IntervalStart), 3, 'UTC') AS First, toDateTime64(max(w.IntervalEnd), 3, 'UTC') AS Last,
    toString(sum(w.GpuHours)) AS Hours, toString(sumOrNull(w.Cost)) AS Wasted,
    if(countIf(isNotNull(w.Cost)) = 0, NULL, toString(sum(ifNull(w.AvoidableCost, 0)))) AS Avoid,
    toString(sumIf(w.GpuHours, isNull(w.Cost))) AS Unpriced, toFloat64(min(w.Coverage)) AS Covered,
    multiIf(uniqExact(w.x_ChargeStatus) > 1, 'partly_estimated', toString(any(w.x_ChargeStatus))) AS Status
FROM idlewatt.idle_waste AS w
WHERE w.IntervalStart >= toDateTime64({from:String}, 3, 'UTC') AND w.IntervalStart < toDateTime64({to:String}, 3, 'UTC')
GROUP BY Currency, OnNode, Resource, InState, Why, Who
ORDER BY Currency = '', Currency, sumOrNull(w.Cost) DESC NULLS LAST, sum(w.GpuHours) DESC, OnNode, Resource, InState, Why, Who` + limit, args
}

// Idle answers the question.
func (d DB) Idle(ctx context.Context, q IdleQuestion) ([]IdleRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "idle waste", sql, args, func(rows driver.Rows, r *IdleRow) error {
		var t [4]*string
		err := rows.Scan(&r.Currency, &r.Node, &r.ResourceID, &r.GPUModel, &r.State, &r.Cause, &r.Owner, &r.Confidence, &r.Project,
			&r.PricingModel, &r.LastJob, &r.GPUs, &r.Stretches, &r.First, &r.Last, &t[0], &t[1], &t[2], &t[3], &r.Coverage, &r.Status)
		if err != nil {
			return err
		}
		return amounts(t[:], &r.GPUHours, &r.Cost, &r.Avoidable, &r.Unpriced)
	})
}

// IdleNowQuestion asks which nodes are idle at this moment.
type IdleNowQuestion struct{}

// IdleNowRow is one node that is idle at this moment.
type IdleNowRow struct {
	Node         string
	ResourceID   string
	GPUModel     string
	GPUs         uint64
	Since        time.Time
	State        string
	Cause        string
	Currency     string
	Cost         *money.Decimal
	PerHour      *money.Decimal
	Avoidable    *money.Decimal
	PricingModel string
	Owner        string
	Project      string
	LastJob      string
}

// SQL returns the statement.
func (IdleNowQuestion) SQL() (string, []any) {
	return `SELECT toString(Node) AS OnNode, toString(ifNull(ResourceId, '')) AS Resource, toString(ifNull(x_GpuModel, '')) AS Model, toUInt64(GpuCount) AS Gpus,
    toDateTime64(IdleSince, 3, 'UTC') AS Since, toString(n.State) AS InState, toString(n.Cause) AS Why, toString(BillingCurrency) AS Currency,
    toString(CostSoFar) AS Cost, toString(CostPerHour) AS PerHour, toString(AvoidablePerHour) AS Avoidable,
    toString(ifNull(x_PricingModel, '')) AS Pricing, toString(n.Owner) AS Who, toString(ifNull(x_Project, '')) AS Project, toString(LastJobId) AS Job
FROM idlewatt.idle_now AS n
ORDER BY Currency = '', Currency, CostSoFar DESC NULLS LAST, OnNode, Resource, InState, Who`, nil
}

// IdleNow answers the question.
func (d DB) IdleNow(ctx context.Context, q IdleNowQuestion) ([]IdleNowRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "idle nodes", sql, args, func(rows driver.Rows, r *IdleNowRow) error {
		var t [3]*string
		err := rows.Scan(&r.Node, &r.ResourceID, &r.GPUModel, &r.GPUs, &r.Since, &r.State, &r.Cause, &r.Currency, &t[0], &t[1], &t[2],
			&r.PricingModel, &r.Owner, &r.Project, &r.LastJob)
		if err != nil {
			return err
		}
		return amounts(t[:], &r.Cost, &r.PerHour, &r.Avoidable)
	})
}
