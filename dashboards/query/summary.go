package query

import (
	"context"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// SummaryQuestion asks for a month's sums by account and kind: the two sides that must agree
// are asked for in one statement, so that no delivery can come in between.
type SummaryQuestion struct{ Month Month }

// SummaryRow is one billing account, currency and kind. Charged is what the account's bill
// itself says, the same on each of its rows.
type SummaryRow struct {
	Issuer    string
	Account   string
	Currency  string
	Kind      string
	Allocated money.Decimal
	Estimated money.Decimal
	Billed    money.Decimal // of the whole account, without what is only estimated
	Charged   money.Decimal // effective cost of the whole account, from the bill
}

// SQL returns the statement.
func (q SummaryQuestion) SQL() (string, []any) {
	return `SELECT b.Issuer AS By, b.Account AS Acc, b.Currency AS Cur, a.Kind AS Sort, toString(a.Allocated) AS Alloc, toString(a.Estimated) AS Est,
    toString(b.Billed) AS Bill, toString(b.Charged) AS Charge
FROM
(
    SELECT toString(BillingAccountId) AS Account, toString(BillingCurrency) AS Currency, ifNull(toString(any(c.InvoiceIssuerName)), '') AS Issuer,
        sumIf(c.BilledCost, x_ChargeStatus != 'estimated') AS Billed, sum(ifNull(c.EffectiveCost, 0)) AS Charged
    FROM idlewatt.charges AS c
    WHERE ` + inPeriod + ` GROUP BY Account, Currency
) AS b
LEFT JOIN
(
    SELECT toString(BillingAccountId) AS Account, toString(BillingCurrency) AS Currency, toString(x_AllocationKind) AS Kind,
        sum(ifNull(c.EffectiveCost, 0)) AS Allocated, sumIf(ifNull(c.EffectiveCost, 0), x_ChargeStatus = 'estimated') AS Estimated
    FROM idlewatt.allocations AS c
    WHERE ` + inPeriod + ` GROUP BY Account, Currency, Kind
) AS a ON a.Account = b.Account AND a.Currency = b.Currency
ORDER BY Cur, Acc, Sort`, []any{q.Month.period()}
}

// Summary answers the question.
func (d DB) Summary(ctx context.Context, q SummaryQuestion) ([]SummaryRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "summary", sql, args, func(rows driver.Rows, r *SummaryRow) error {
		var t [4]*string
		if err := rows.Scan(&r.Issuer, &r.Account, &r.Currency, &r.Kind, &t[0], &t[1], &t[2], &t[3]); err != nil {
			return err
		}
		return amounts(t[:], &r.Allocated, &r.Estimated, &r.Billed, &r.Charged)
	})
}
