package normalize

import (
	"context"
	"fmt"
	"strings"
)

// checks find what a bill should not hold. They never change a row: every row is kept and
// the defect is reported. Sources: FOCUS 1.2 to 1.4 requirement texts, and samples.
var checks = []struct{ name, cond string }{
	{"unreadable tags (the cost is kept, its tags are not)", "x_BadTags"},
	{"no billing currency (kept apart as XXX; --currency may state it)", "BillingCurrency = 'XXX'"},
	{"no billing account (not protected against double counting; --account may state it)", "BillingAccountId = ''"},
	{"no effective cost in this dataset", "isNull(EffectiveCost)"},
	{"contracted cost missing", "isNull(ContractedCost) AND x_FocusVersion != ''"},
	{"list cost is not list price x quantity", "x_FocusVersion != '' AND isNull(ChargeClass) AND " +
		"abs(ListCost - multiplyDecimal(toDecimal256(ListUnitPrice, 18), toDecimal256(PricingQuantity, 18), 18)) > greatest(toDecimal256('0.000000001', 18), divideDecimal(toDecimal256(abs(ListCost), 18), toDecimal256(100, 0), 18))"},
	{"effective cost 0 on uncovered usage with a billed cost", "x_FocusVersion != '' AND ChargeCategory = 'Usage' AND isNull(CommitmentDiscountId) AND EffectiveCost = 0 AND BilledCost != 0"},
	{"credit whose effective cost is not its billed cost", "x_FocusVersion != '' AND ChargeCategory = 'Credit' AND EffectiveCost != BilledCost"},
	{"charge category unknown to FOCUS", "ChargeCategory NOT IN ('Usage', 'Purchase', 'Tax', 'Credit', 'Adjustment')"},
	{"line item type that idlewatt does not know (its cost is kept, under other)", "x_Dataset = 'cur' AND NOT endsWith(x_LineItemType, 'Discount') AND x_LineItemType NOT IN ('Usage', 'DiscountedUsage', " +
		"'SavingsPlanCoveredUsage', 'SavingsPlanNegation', 'SavingsPlanUpfrontFee', 'SavingsPlanRecurringFee', 'Fee', 'RIFee', 'FlatRateSubscription', 'Tax', 'Credit', 'Refund')"},
	{"discount that net costs hold already (this row counts 0)", "x_Dataset = 'cur' AND endsWith(x_LineItemType, 'Discount') AND x_PairCash != 0 AND BilledCost = 0"},
	{"pod or task with a cost of its own (counted, beside its parent's)", "isNotNull(x_SplitParentId) AND BilledCost != 0"},
	{"charge frequency unknown to FOCUS", "ifNull(ChargeFrequency, 'Recurring') NOT IN ('One-Time', 'Recurring', 'Usage-Based')"},
	{"availability zone is a number", "isNotNull(AvailabilityZone) AND isNotNull(toFloat64OrNull(AvailabilityZone))"},
	{"region name without region id", "isNotNull(RegionName) AND isNull(RegionId) AND x_FocusVersion != ''"},
	{"negative usage", "ChargeCategory = 'Usage' AND BilledCost < 0"},
	{"charge outside its billing period", "ChargePeriodStart < BillingPeriodStart OR ChargePeriodStart >= BillingPeriodEnd"},
	{"charge period that ends before it starts", "ChargePeriodEnd <= ChargePeriodStart"},
	{"consumed quantity on unused commitment", "CommitmentDiscountStatus = 'Unused' AND ConsumedQuantity != 0 AND x_FocusVersion != ''"},
	{"GPU instance type that the catalogue does not know", "isNotNull(x_GpuHours) AND isNull(x_GpuModel)"},
	{"tag keys that differ only by a blank", "arrayExists(k -> k != trimBoth(k), mapKeys(Tags))"},
}

// defects counts the attempt's rows under each check that finds any, and names the first.
func (a *attempt) defects(ctx context.Context) (map[string]uint64, error) {
	var cols []string
	for _, c := range checks {
		cols = append(cols, "countIf(ifNull("+c.cond+", 0))")
	}
	row := a.p.db.QueryRow(ctx, "SELECT ["+strings.Join(cols, ", ")+"] FROM idlewatt_store.charges WHERE x_Load >= ? AND x_Load < ?", a.load, a.load+1<<16)
	var counts []uint64
	if err := row.Scan(&counts); err != nil {
		return nil, fmt.Errorf("looking for defects: %w", err)
	}
	out := map[string]uint64{}
	for i, n := range counts {
		if n == 0 {
			continue
		}
		where, err := a.firstRow(ctx, checks[i].cond)
		if err != nil {
			return nil, err
		}
		out[checks[i].name+"; first: "+where] = n
	}
	return out, nil
}

// firstRow names the file and row of the first row under a condition.
func (a *attempt) firstRow(ctx context.Context, cond string) (string, error) {
	var object string
	var n uint64
	row := a.p.db.QueryRow(ctx, "SELECT x_Object, x_Row FROM idlewatt_store.charges WHERE x_Load >= ? AND x_Load < ? AND ifNull("+cond+", 0) "+
		"ORDER BY x_Row, x_Object LIMIT 1", a.load, a.load+1<<16)
	if err := row.Scan(&object, &n); err != nil {
		return "", fmt.Errorf("looking for the first defect: %w", err)
	}
	for _, o := range a.d.Objects {
		if o.SHA256 == object {
			object = o.Name
		}
	}
	return fmt.Sprintf("%s, row %d", object, n), nil
}
