package alert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// placesSQL asks where machines stand and what they are called, of the last two months.
const placesSQL = `SELECT assumeNotNull(ResourceId) AS Id, ifNull(argMax(AvailabilityZone, ChargePeriodStart), '') AS Zone,
    ifNull(argMax(ResourceName, ChargePeriodStart), '') AS Name
FROM idlewatt_store.charges
WHERE x_Load IN (SELECT Load FROM idlewatt_store.live_loads) AND ResourceId IN {ids:Array(String)}
    AND BillingPeriodStart >= toStartOfMonth(toDate({day:String})) - INTERVAL 1 MONTH
GROUP BY Id`

// jobsSQL asks how jobs ended: of several attempts, the last that was over at that moment.
const jobsSQL = `SELECT JobId, argMax(toString(j.Outcome), j.End) AS How, assumeNotNull(max(j.End)) AS Ended,
    argMax(toString(j.User), j.End) AS Who, argMax(toString(j.Scheduler), j.End) AS By
FROM idlewatt_store.jobs AS j
WHERE JobId IN {ids:Array(String)} AND isNotNull(j.End) AND j.End <= toDateTime64({at:String}, 3, 'UTC') GROUP BY JobId`

// holdersSQL asks who runs the jobs that are not over, or not yet.
const holdersSQL = `SELECT JobId, argMax(toString(j.User), j.Attempt) AS Who, argMax(toString(j.Scheduler), j.Attempt) AS By
FROM idlewatt_store.jobs AS j WHERE JobId IN {ids:Array(String)} GROUP BY JobId`

// Describe implements Facts.
func (c ClickHouse) Describe(ctx context.Context, nodes []IdleNode) error {
	var resources, jobs []string
	var day time.Time
	for _, n := range nodes {
		if n.ResourceID != "" {
			resources = append(resources, n.ResourceID)
		}
		if n.LastJobID != "" {
			jobs = append(jobs, n.LastJobID)
		}
		if n.SeenUntil.After(day) {
			day = n.SeenUntil
		}
	}
	on, at := clickhouse.Named("day", day.UTC().Format(time.DateOnly)), clickhouse.Named("at", day.UTC().Format(sqlTime))
	type place struct{ zone, name string }
	places := map[string]place{}
	err := c.each(ctx, placesSQL, func(rows driver.Rows) error {
		var id string
		var p place
		err := rows.Scan(&id, &p.zone, &p.name)
		places[id] = p
		return err
	}, clickhouse.Named("ids", resources), on)
	if err != nil {
		return fmt.Errorf("asking where nodes stand: %w", err)
	}
	ended := map[string]IdleNode{}
	err = c.each(ctx, holdersSQL, func(rows driver.Rows) error {
		var id string
		var j IdleNode
		err := rows.Scan(&id, &j.JobUser, &j.Scheduler)
		ended[id] = j
		return err
	}, clickhouse.Named("ids", jobs))
	if err != nil {
		return fmt.Errorf("asking who runs jobs: %w", err)
	}
	err = c.each(ctx, jobsSQL, func(rows driver.Rows) error {
		var id string
		var j IdleNode
		err := rows.Scan(&id, &j.JobOutcome, &j.JobEnded, &j.JobUser, &j.Scheduler)
		ended[id] = j
		return err
	}, clickhouse.Named("ids", jobs), at)
	if err != nil {
		return fmt.Errorf("asking how jobs ended: %w", err)
	}
	for i := range nodes {
		n := &nodes[i]
		p, j := places[n.ResourceID], ended[n.LastJobID]
		n.Zone, n.Name = p.zone, p.name
		n.JobOutcome, n.JobEnded, n.JobUser, n.Scheduler = j.JobOutcome, j.JobEnded, j.JobUser, j.Scheduler
	}
	return nil
}

// spendSQL returns the statement for a month's cost. A charge counts in the month in which
// its time begins in the reporting zone; one that covers a whole billing period counts in
// the month of that period.
func spendSQL(q SpendQuestion) (sql string, args []any) {
	column := map[Cost]string{CostEffective: "EffectiveCost", CostBilled: "BilledCost", CostList: "ListCost"}[q.Cost]
	args = append(monthArgs(q), clickhouse.Named("label", q.Label.Format(time.DateOnly)))
	where := ""
	if q.Dimension != "" {
		where = "\n    AND ifNull(" + dimensions()[q.Dimension] + ", '') = {value:String}"
		args = append(args, clickhouse.Named("value", q.Value))
	}
	return `SELECT BillingCurrency, toString(sum(ifNull(` + column + `, 0))) AS Cost, countIf(isNull(` + column + `)) AS Without,
    toString(sumIf(ifNull(` + column + `, 0), x_ChargeStatus = 'estimated')) AS Estimated
FROM idlewatt.allocations
WHERE BillingPeriodStart >= toDate({label:String}) - 62 AND BillingPeriodStart < toDate({label:String}) + 62
    AND if(dateDiff('hour', ChargePeriodStart, ChargePeriodEnd) >= 648,
        toStartOfMonth(BillingPeriodStart) = toDate({label:String}),
        ChargePeriodStart >= toDateTime64({from:String}, 3, 'UTC') AND ChargePeriodStart < toDateTime64({to:String}, 3, 'UTC'))` + where + `
GROUP BY BillingCurrency`, args
}

func monthArgs(q SpendQuestion) []any {
	return []any{clickhouse.Named("from", q.From.UTC().Format(sqlTime)), clickhouse.Named("to", q.To.UTC().Format(sqlTime))}
}

// lastBillSQL asks when the newest live load whose period reaches into the month came.
const lastBillSQL = `SELECT max(CommittedAt) FROM idlewatt_store.commits
WHERE Load IN (SELECT Load FROM idlewatt_store.live_loads) AND Dataset != 'estimate'
    AND PeriodStart < toDateTime64({to:String}, 3, 'UTC') AND PeriodEnd > toDateTime64({from:String}, 3, 'UTC')`

// Spend implements Facts.
func (c ClickHouse) Spend(ctx context.Context, q SpendQuestion) (Spend, error) {
	out := Spend{By: map[string]money.Decimal{}, Estimated: map[string]money.Decimal{}}
	sql, args := spendSQL(q)
	err := c.each(ctx, sql, func(rows driver.Rows) error {
		var currency, text, estimated string
		var without uint64
		if err := rows.Scan(&currency, &text, &without, &estimated); err != nil {
			return err
		}
		d, _, err := money.Parse(text)
		e, _, eerr := money.Parse(estimated)
		out.By[currency], out.Estimated[currency], out.Without = d, e, out.Without+without
		return errors.Join(err, eerr)
	}, args...)
	if err != nil {
		return out, fmt.Errorf("asking for the month's cost: %w", err)
	}
	err = c.each(ctx, lastBillSQL, func(rows driver.Rows) error { return rows.Scan(&out.LastBill) }, monthArgs(q)...)
	if err != nil {
		return out, fmt.Errorf("asking for the newest bill: %w", err)
	}
	return out, nil
}
