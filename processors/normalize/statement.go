package normalize

import (
	"fmt"
	"slices"
	"strings"
)

// moneyColumns are rounded half-even to 18 digits and range-checked on their way in.
var moneyColumns = map[string]bool{
	"BilledCost": true, "EffectiveCost": true, "ListCost": true, "ContractedCost": true,
	"ListUnitPrice": true, "ContractedUnitPrice": true, "ConsumedQuantity": true, "PricingQuantity": true,
	"CommitmentDiscountQuantity": true, "PricingCurrencyContractedUnitPrice": true,
	"PricingCurrencyEffectiveCost": true, "PricingCurrencyListUnitPrice": true, "x_PairCash": true,
	"x_UnblendedCost": true, "x_SplitCost": true, "x_SplitUnusedCost": true, "x_SplitUsage": true,
}

// helperColumns are made by the format's SQL for the outer statement and not stored.
var helperColumns = map[string]bool{"x_StatedGpus": true, "x_StatedGpuModel": true, "x_MachineHours": true, "x_BadTags": true} // x_BadTags is listed by hand

// remainder is what covered usage and its negations of one scope leave over; it is put on
// one row so that the sum holds.
type remainder struct {
	scope, currency, object string
	row                     uint64
	amount                  string
}

// statement builds the INSERT of one object. columns are those that the format's SQL makes.
func (l *attempt) statement(s source, from, rowNumber string, columns []string) string {
	cols := []string{
		"x_Load", "x_Scope", "x_Source", "x_Dataset", "x_Delivery", "x_Object", "x_FocusVersion",
		"x_TagSet", "x_BadTags", "x_GpuModel", "x_GpuCount", "x_GpuHours", "x_BilledResidue", "x_EffectiveResidue",
	}
	model := "nullIf(g.GpuModel, '')"
	if slices.Contains(columns, "x_StatedGpuModel") {
		model = "coalesce(x_StatedGpuModel, " + model + ")"
	}
	scope := "formatDateTime(" + l.scopeTime() + ", '" + l.scopeLayout() + "')"
	exprs := []string{
		fmt.Sprintf("toUInt64(%d) + %s + throwIf(%s, 'a date is before 2000 or after 2100')", l.load, l.ordinal(), insane),
		"concat(" + literal(l.scopePrefix()) + ", " + scope + ")",
		literal(l.d.Source), literal(s.format.Dataset), literal(l.d.Delivery), literal(s.object.SHA256), literal(l.focusVersion(s)),
		"sipHash64(mapSort(Tags), ifNull(SubAccountId, ''))",
		"x_BadTags",
		model,
		"CAST(" + gpuCount + " AS Nullable(Decimal(38, 18)))",
		"toDecimal128(roundBankers(" + gpuHours + ", 18), 18)",
		residue("BilledCost"), residue("EffectiveCost"),
	}
	for _, c := range columns {
		if helperColumns[c] {
			continue
		}
		cols = append(cols, c)
		exprs = append(exprs, l.outer(c, s.object.SHA256))
	}
	return "INSERT INTO idlewatt_store.charges (" + strings.Join(cols, ", ") + ")\n" +
		"WITH src AS (\n" + s.sql(from, rowNumber) + "\n)\nSELECT\n    " + strings.Join(exprs, ",\n    ") +
		"\nFROM (\n" + strings.TrimSpace(s.format.SQL) + "\n) AS n\n" +
		"LEFT ANY JOIN (SELECT InstanceType, GpuModel, GpuCount FROM idlewatt_store.gpu_catalog FINAL WHERE GpuCount > 0) AS g\n" +
		"    ON g.InstanceType = ifNull(n.x_InstanceType, '')"
}

// insane are dates that no bill has: a month outside the attempt's 16 bits would be loaded
// where nobody looks, and daily views would have to spread a charge over centuries.
const insane = "toYear(BillingPeriodStart) NOT BETWEEN 2000 AND 2100 OR toYear(ChargePeriodStart) NOT BETWEEN 2000 AND 2100 OR toYear(ChargePeriodEnd) NOT BETWEEN 2000 AND 2100"

// gpuCount is the number of GPUs of a machine whose hours are billed: what the bill states,
// else the catalogue. Not for rows that are no machine's own hours.
const gpuCount = "if(x_MachineHours IS NULL, NULL, coalesce(x_StatedGpus, nullIf(toDecimal256(g.GpuCount, 18), toDecimal256(0, 18))))"

// gpuHours is a plain product and not multiplyDecimal, which took half of a load's time. It
// cannot wrap: hours that pass the range check are under 10^20 and a machine has under 10^5
// GPUs, which makes 10^61 of the 5 x 10^76 that the type holds at scale 36.
const gpuHours = "if(abs(x_MachineHours) < toDecimal256('100000000000000000000', 18) AND " + gpuCount + " < 100000, " +
	"toDecimal256(" + gpuCount + ", 18) * toDecimal256(roundBankers(x_MachineHours, 18), 18), NULL)"

// residue is what rounding to 18 digits takes away.
func residue(c string) string {
	return fmt.Sprintf("CAST(ifNull(%[1]s - roundBankers(%[1]s, 18), toDecimal256(0, 40)) AS Decimal(76, 40))", c)
}

func (l *attempt) outer(c, object string) string {
	switch {
	case c == "BilledCost" && len(l.remainders) > 0:
		return "toDecimal128(roundBankers(BilledCost + " + l.remainderExpr(object) + ", 18), 18)"
	case moneyColumns[c]:
		return "toDecimal128(roundBankers(" + c + ", 18), 18)"
	case c == "BillingCurrency":
		return "ifNull(BillingCurrency, 'XXX')"
	case c == "BillingAccountId":
		return "ifNull(BillingAccountId, '')"
	default:
		return c
	}
}

// remainderExpr adds each scope's remainder to the one row of the object that carries it.
func (l *attempt) remainderExpr(object string) string {
	var b strings.Builder
	for _, r := range l.remainders {
		if r.object == object {
			fmt.Fprintf(&b, "x_Row = %d, toDecimal256(%s, 40), ", r.row, literal(r.amount))
		}
	}
	if b.Len() == 0 {
		return "toDecimal256(0, 40)"
	}
	return "multiIf(" + b.String() + "toDecimal256(0, 40))"
}

func (l *attempt) scopeTime() string {
	if l.format.Daily {
		return "ChargePeriodStart"
	}
	return "BillingPeriodStart"
}

func (l *attempt) scopeLayout() string {
	if l.format.Daily {
		return "%Y-%m-%d"
	}
	return "%Y-%m"
}

func (l *attempt) scopePrefix() string { return l.d.Source + "/" + l.format.Dataset + "/" }

// ordinal tells the scopes of one attempt apart in the low 16 bits of the load: the day
// since 1970, or the month since year 0.
func (l *attempt) ordinal() string {
	if l.format.Daily {
		return "toUInt64(toUInt16(toDate(ChargePeriodStart)))"
	}
	return "toUInt64(toYear(BillingPeriodStart) * 12 + toMonth(BillingPeriodStart))"
}
