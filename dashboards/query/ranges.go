package query

import (
	"context"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// RangesQuestion asks how far the estimates of a month may be off, because nobody saw when a
// resource began or ended.
type RangesQuestion struct{ Month Month }

// RangeRow is what one provider's estimates may cost more or less, in one currency.
type RangeRow struct {
	Provider string
	Currency string
	More     money.Decimal
	Less     money.Decimal
}

// SQL returns the statement.
func (q RangesQuestion) SQL() (string, []any) {
	from := q.Month.Day()
	return `SELECT toString(e.Provider) AS Who, toString(e.BillingCurrency) AS Currency, toString(sum(e.CostHigh) - sum(e.Cost)) AS More, toString(sum(e.Cost) - sum(e.CostLow)) AS Less
FROM idlewatt.estimates AS e
WHERE e.Status = 'estimated' AND e.ChargePeriodStart >= toDateTime64({from:String}, 3, 'UTC') AND e.ChargePeriodStart < toDateTime64({to:String}, 3, 'UTC')
GROUP BY Who, Currency HAVING sum(e.CostHigh) - sum(e.CostLow) >= toDecimal128('0.01', 18)
ORDER BY Who, Currency`, span(from, from.AddDate(0, 1, 0))
}

// Ranges answers the question.
func (d DB) Ranges(ctx context.Context, q RangesQuestion) ([]RangeRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "ranges of estimates", sql, args, func(rows driver.Rows, r *RangeRow) error {
		var t [2]*string
		if err := rows.Scan(&r.Provider, &r.Currency, &t[0], &t[1]); err != nil {
			return err
		}
		return amounts(t[:], &r.More, &r.Less)
	})
}
