package normalize

import (
	"context"
	"fmt"
	"strings"
)

// corrections looks for what single rows do not tell, and reports whether the rows have to be
// written again for it.
func (a *attempt) corrections(ctx context.Context) (bool, error) {
	if err := a.findRemainders(ctx); err != nil {
		return false, err
	}
	periods, err := a.netPeriods(ctx)
	if err != nil {
		return false, err
	}
	for i := range a.sources {
		a.sources[i].netPeriods = periods
	}
	return len(a.remainders) > 0 || len(periods) > 0, nil
}

// netSQL finds billing periods in which net costs hold discounts already (some row's net cost
// is not its unblended cost) and discounts are rows as well, without a net cost of their own.
const netSQL = `
SELECT DISTINCT toString(toDate(BillingPeriodStart)) AS period FROM idlewatt_store.charges
WHERE x_Load >= ? AND x_Load < ? AND isNotNull(x_UnblendedCost) AND NOT endsWith(ifNull(x_LineItemType, ''), 'Discount')
    AND x_LineItemType NOT IN ('SavingsPlanCoveredUsage', 'SavingsPlanNegation') AND BilledCost != x_UnblendedCost
    AND BillingPeriodStart IN (SELECT BillingPeriodStart FROM idlewatt_store.charges
        WHERE x_Load >= ? AND x_Load < ? AND endsWith(ifNull(x_LineItemType, ''), 'Discount') AND x_PairCash != 0)
ORDER BY period`

func (a *attempt) netPeriods(ctx context.Context) ([]string, error) {
	if !strings.Contains(a.format.SQL, "net_periods") {
		return nil, nil
	}
	rows, err := a.p.db.Query(ctx, netSQL, a.load, a.load+1<<16, a.load, a.load+1<<16)
	if err != nil {
		return nil, fmt.Errorf("looking for discounts that are counted twice: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	var out []string
	for rows.Next() {
		var p string
		if err := rows.Scan(&p); err != nil {
			return nil, fmt.Errorf("looking for discounts that are counted twice: %w", err)
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

// remainderSQL finds, per scope and currency, what covered usage and its negations leave
// over, and the row that shall carry it: the first negation, else the first covered row.
const remainderSQL = `
SELECT x_Scope, BillingCurrency, toString(sum(toDecimal256(x_PairCash, 18))) AS rest,
    argMin((x_Object, x_Row), (x_LineItemType != 'SavingsPlanNegation', x_Object, x_Row)) AS carrier
FROM idlewatt_store.charges WHERE x_Load >= ? AND x_Load < ? AND x_PairCash != 0 AND x_LineItemType IN ('SavingsPlanCoveredUsage', 'SavingsPlanNegation')
GROUP BY x_Scope, BillingCurrency HAVING sum(toDecimal256(x_PairCash, 18)) != 0`

func (a *attempt) findRemainders(ctx context.Context) error {
	rows, err := a.p.db.Query(ctx, "SELECT x_Scope, BillingCurrency, rest, carrier.1, carrier.2 FROM ("+remainderSQL+")", a.load, a.load+1<<16)
	if err != nil {
		return fmt.Errorf("checking covered usage against its negations: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	for rows.Next() {
		var r remainder
		if err := rows.Scan(&r.scope, &r.currency, &r.amount, &r.object, &r.row); err != nil {
			return fmt.Errorf("checking covered usage against its negations: %w", err)
		}
		a.remainders = append(a.remainders, r)
	}
	return rows.Err()
}
