package query

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// SourcesQuestion asks what a month's figures rest on.
type SourcesQuestion struct{ Month Month }

// SourceRow is what one source has delivered of a month, in one currency. What it only tells
// of running machines, and no bill has yet, is a row of its own.
type SourceRow struct {
	Source    string
	Currency  string
	Estimated bool
	Rows      uint64
	Billed    money.Decimal
	// From and Until are the beginning of the first charge and the end of the latest: how far
	// the data reaches. Both are the period's start where only charges for all of it are there.
	From, Until time.Time
	// Without counts charges that state no effective cost.
	Without uint64
}

// SQL returns the statement. Charges for the whole period say nothing about how far it goes.
func (q SourcesQuestion) SQL() (string, []any) {
	return `SELECT toString(x_Source) AS Source, toString(BillingCurrency) AS Currency, x_ChargeStatus = 'estimated' AS Guess, count() AS Rows, toString(sum(c.BilledCost)) AS Billed,
    toDateTime64(ifNull(minOrNullIf(ChargePeriodStart, dateDiff('hour', ChargePeriodStart, ChargePeriodEnd) < 648), min(BillingPeriodStart)), 3, 'UTC') AS Since,
    toDateTime64(max(if(dateDiff('hour', ChargePeriodStart, ChargePeriodEnd) < 648, ChargePeriodEnd, BillingPeriodStart)), 3, 'UTC') AS Until, countIf(isNull(c.EffectiveCost)) AS Without
FROM idlewatt.charges AS c
WHERE ` + inPeriod + `
GROUP BY Source, Currency, Guess
ORDER BY Source, Currency, Guess`, []any{q.Month.period()}
}

// Sources answers the question.
func (d DB) Sources(ctx context.Context, q SourcesQuestion) ([]SourceRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "sources", sql, args, func(rows driver.Rows, r *SourceRow) error {
		var billed string
		var guess uint8
		if err := rows.Scan(&r.Source, &r.Currency, &guess, &r.Rows, &billed, &r.From, &r.Until, &r.Without); err != nil {
			return err
		}
		r.Estimated = guess != 0
		return amounts([]*string{&billed}, &r.Billed)
	})
}

// NewestMonth returns the newest billing period that has charges; ok is false if none has.
func (d DB) NewestMonth(ctx context.Context) (m Month, ok bool, err error) {
	type row struct {
		month time.Time
		n     uint64
	}
	rows, err := ask(ctx, d, "newest month", "SELECT toDateTime64(max(BillingPeriodStart), 3, 'UTC') AS Newest, count() AS N FROM idlewatt.charges", nil,
		func(rows driver.Rows, r *row) error { return rows.Scan(&r.month, &r.n) })
	if err != nil || len(rows) == 0 || rows[0].n == 0 {
		return Month{}, false, err
	}
	return MonthOf(rows[0].month, time.UTC), true, nil
}

// DeliveriesQuestion asks for the latest deliveries.
type DeliveriesQuestion struct{ Limit int }

// DeliveryRow is one delivery that was tried.
type DeliveryRow struct {
	At      time.Time
	Source  string
	Format  string
	Version string
	Status  string
	Message string
	Rows    uint64
	Files   []string
}

// SQL returns the statement.
func (q DeliveriesQuestion) SQL() (string, []any) {
	return `SELECT toDateTime64(d.At, 3, 'UTC') AS Tried, toString(x_Source) AS Source, toString(Format) AS Form, toString(Version) AS Ver,
    toString(Status) AS State, toString(Message) AS Said, toUInt64(Rows) AS N, arrayMap(f -> toString(f), Files) AS Names
FROM idlewatt.deliveries AS d
ORDER BY d.At DESC, x_Delivery
LIMIT {limit:UInt64}`, []any{clickhouse.Named("limit", uint64(max(q.Limit, 1)))}
}

// Deliveries answers the question.
func (d DB) Deliveries(ctx context.Context, q DeliveriesQuestion) ([]DeliveryRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "deliveries", sql, args, func(rows driver.Rows, r *DeliveryRow) error {
		return rows.Scan(&r.At, &r.Source, &r.Format, &r.Version, &r.Status, &r.Message, &r.Rows, &r.Files)
	})
}
