package query

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// JobsQuestion asks what the jobs cost that ran between two instants. A job's cost is that of
// its whole life.
type JobsQuestion struct {
	From, To time.Time
	// Limit is the number of rows, the most expensive first; zero is all.
	Limit int
}

// JobRow is one attempt of a job.
type JobRow struct {
	Currency   string
	Scheduler  string
	Cluster    string
	Job        string
	Attempt    int64
	User       string
	Project    string
	Team       string
	Outcome    string
	Start, End *time.Time
	GPUHours   money.Decimal
	BusyHours  money.Decimal
	Effective  *money.Decimal
	Idle       *money.Decimal
	Retry      *money.Decimal
	PerGPUHour *money.Decimal
	Estimated  *money.Decimal
	Confidence string
}

// SQL returns the statement.
func (q JobsQuestion) SQL() (string, []any) {
	limit := ""
	args := span(q.From, q.To)
	if q.Limit > 0 {
		limit = "\nLIMIT {limit:UInt64}"
		args = append(args, clickhouse.Named("limit", uint64(q.Limit)))
	}
	return `SELECT toString(ifNull(BillingCurrency, '')) AS Currency, toString(Scheduler) AS Sched, toString(Cluster) AS InCluster, toString(JobId) AS Job,
    toInt64(Attempt) AS Try, toString(ifNull(User, '')) AS Who, toString(ifNull(x_Project, '')) AS Project, toString(ifNull(x_Team, '')) AS Team,
    toString(ifNull(Outcome, '')) AS How, CAST(j.Start AS Nullable(DateTime64(3, 'UTC'))) AS Began, CAST(j.End AS Nullable(DateTime64(3, 'UTC'))) AS Ended,
    toString(GpuHours) AS Hours, toString(BusyGpuHours) AS Busy, toString(j.EffectiveCost) AS Effective, toString(j.IdleCost) AS Idle,
    toString(j.RetryCost) AS Retry, toString(CostPerGpuHour) AS PerHour, toString(j.EstimatedCost) AS Estimated,
    toString(ifNull(j.Confidence, '')) AS Sure
FROM idlewatt.job_costs AS j
WHERE ifNull(j.Start < toDateTime64({to:String}, 3, 'UTC'), 1) AND ifNull(j.End > toDateTime64({from:String}, 3, 'UTC'), 1)
    AND NOT (isNull(j.Start) AND isNull(j.End))
ORDER BY Currency, j.EffectiveCost DESC NULLS LAST, Sched, InCluster, Job, Try` + limit, args
}

// Jobs answers the question.
func (d DB) Jobs(ctx context.Context, q JobsQuestion) ([]JobRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "job costs", sql, args, func(rows driver.Rows, r *JobRow) error {
		var t [7]*string
		err := rows.Scan(&r.Currency, &r.Scheduler, &r.Cluster, &r.Job, &r.Attempt, &r.User, &r.Project, &r.Team, &r.Outcome, &r.Start, &r.End,
			&t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &r.Confidence)
		if err != nil {
			return err
		}
		return amounts(t[:], &r.GPUHours, &r.BusyHours, &r.Effective, &r.Idle, &r.Retry, &r.PerGPUHour, &r.Estimated)
	})
}
