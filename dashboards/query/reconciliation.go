package query

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// ReconciliationQuestion asks how a month's bills compare with invoices and allocations.
type ReconciliationQuestion struct{ Month Month }

// ReconciliationRow is one billing account and currency of the month.
type ReconciliationRow struct {
	Issuer      string
	Account     string
	InvoiceID   string
	Currency    string
	Invoice     *money.Decimal // nil: no invoice
	Billed      money.Decimal
	Amortised   money.Decimal // effective minus billed
	Effective   money.Decimal
	Allocated   money.Decimal
	Difference  money.Decimal // effective minus allocated; anything but zero is a defect
	Explained   *money.Decimal
	Unexplained *money.Decimal
	Status      string
	CheckedAt   time.Time
}

// SQL returns the statement.
func (q ReconciliationQuestion) SQL() (string, []any) {
	return `SELECT toString(ifNull(InvoiceIssuerName, '')) AS Issuer, toString(BillingAccountId) AS Account, toString(ifNull(InvoiceId, '')) AS Invoice,
    toString(BillingCurrency) AS Currency, toString(InvoiceTotal) AS Total, toString(BilledCost) AS Billed,
    toString(AmortisationDifference) AS Amortised, toString(EffectiveCost) AS Effective, toString(AllocatedCost) AS Allocated,
    toString(r.Difference) AS Diff, toString(ExplainedDifference) AS Explained, toString(UnexplainedDifference) AS Unexplained,
    toString(Status) AS State, toDateTime64(CheckedAt, 3, 'UTC') AS Checked
FROM idlewatt.reconciliation AS r
WHERE ` + inPeriod + `
ORDER BY Currency, Issuer, Account, Invoice`, []any{q.Month.period()}
}

// Reconciliation answers the question.
func (d DB) Reconciliation(ctx context.Context, q ReconciliationQuestion) ([]ReconciliationRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "reconciliation", sql, args, func(rows driver.Rows, r *ReconciliationRow) error {
		var t [8]*string
		err := rows.Scan(&r.Issuer, &r.Account, &r.InvoiceID, &r.Currency, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7], &r.Status, &r.CheckedAt)
		if err != nil {
			return err
		}
		return amounts(t[:], &r.Invoice, &r.Billed, &r.Amortised, &r.Effective, &r.Allocated, &r.Difference, &r.Explained, &r.Unexplained)
	})
}
