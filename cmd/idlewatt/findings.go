package main

import (
	"fmt"
	"strings"
)

// findings prints what a bill shows by itself: it is already useful before any telemetry.
func (a *app) findings(source string) error {
	for _, q := range []struct{ title, sql string }{
		{"GPU spend by model and pricing model (cost per GPU-hour in the bill's currency, before credits, refunds and tax)", `
SELECT ifNull(x_GpuModel, '(unknown model)') AS model, ifNull(x_PricingModel, '-') AS pricing, BillingCurrency AS currency,
    round(sum(x_GpuHours), 2) AS gpu_hours, round(sum(EffectiveCost), 2) AS effective_cost,
    -- The fee of a Capacity Block is a row without hours: what runs inside has no price of its own.
    if(pricing = 'capacity_block', NULL, round(divideDecimal(toDecimal256(sum(EffectiveCost), 18), toDecimal256(sum(x_GpuHours), 18), 18), 4)) AS per_gpu_hour
FROM idlewatt.charges WHERE x_Source = {source} AND x_ChargeStatus != 'estimated' AND x_GpuHours > 0 AND ifNull(CapacityReservationStatus, '') != 'Unused'
GROUP BY model, pricing, currency ORDER BY effective_cost DESC, model LIMIT 20 FORMAT PrettyCompactMonoBlock`},
		{"Tag keys by cost", `
SELECT kv.1 AS tag_key, BillingCurrency AS currency, round(sum(EffectiveCost), 2) AS effective_cost, uniqExact(kv.2) AS values, count() AS rows
FROM (SELECT *, arrayJoin(arrayZip(mapKeys(Tags), mapValues(Tags))) AS kv FROM idlewatt.charges WHERE x_Source = {source} AND x_ChargeStatus != 'estimated')
GROUP BY tag_key, currency ORDER BY sum(EffectiveCost) DESC, tag_key LIMIT 10 FORMAT PrettyCompactMonoBlock`},
		{"Tag keys that differ only in spelling (they are kept apart)", `
SELECT arraySort(groupUniqArray(k)) AS keys FROM (SELECT arrayJoin(mapKeys(Tags)) AS k FROM idlewatt.charges WHERE x_Source = {source} AND x_ChargeStatus != 'estimated')
GROUP BY lower(replaceRegexpAll(trimBoth(k), '[^A-Za-z0-9]', '_')) HAVING length(keys) > 1 ORDER BY keys FORMAT PrettyCompactMonoBlock`},
		{"Telemetry coverage of GPU spend", `
SELECT c.BillingCurrency AS currency, round(sum(c.EffectiveCost), 2) AS gpu_spend,
    round(sumIf(ifNull(c.EffectiveCost, 0), c.x_AllocationKind IN ('job_used', 'job_idle', 'unallocated_idle', 'unavailable') AND c.x_AllocationQuality != 'provider'), 2) AS observed,
    round(100 * toFloat64(observed) / greatest(toFloat64(gpu_spend), 0.000001), 1) AS percent
FROM idlewatt.allocations AS c WHERE c.x_Source = {source} AND c.x_ChargeStatus != 'estimated' AND c.x_GpuHours > 0 AND c.x_AllocationKind != 'commitment_unused'
GROUP BY currency FORMAT PrettyCompactMonoBlock`},
		{"Instrument these first (GPU spend without telemetry)", `
SELECT Name AS node, ResourceId AS resource, round(GpuHours, 1) AS gpu_hours, round(Cost, 2) AS cost, BillingCurrency AS currency
FROM idlewatt.unmatched_hosts WHERE Kind = 'resource without telemetry'
    AND ResourceId IN (SELECT ResourceId FROM idlewatt.charges WHERE x_Source = {source} AND x_ChargeStatus != 'estimated' AND x_GpuHours > 0) ORDER BY Cost DESC, ResourceId LIMIT 10 FORMAT PrettyCompactMonoBlock`},
	} {
		var b strings.Builder
		sql := strings.ReplaceAll(q.sql, "{source}", "'"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(source)+"'")
		if err := a.query(sql, "TSV", &b); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(q.title), err)
		}
		if strings.TrimSpace(b.String()) != "" {
			fmt.Fprintf(a.out, "\n%s\n%s", q.title, b.String())
		}
	}
	return a.snippet(source)
}

// snippet suggests a dimensions: section from the tag keys that carry the most money.
func (a *app) snippet(source string) error {
	var b strings.Builder
	sql := `SELECT kv FROM (SELECT arrayJoin(mapKeys(Tags)) AS kv, EffectiveCost FROM idlewatt.charges WHERE x_Source = '` +
		strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(source) + `' AND x_ChargeStatus != 'estimated') WHERE NOT startsWith(kv, 'aws:') GROUP BY kv ORDER BY sum(EffectiveCost) DESC, kv LIMIT 50`
	if err := a.query(sql, "TSVRaw", &b); err != nil {
		return fmt.Errorf("looking at tag keys: %w", err)
	}
	keys := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	var lines strings.Builder
	for _, d := range []struct {
		name  string
		words []string
	}{
		{"project", []string{"project", "app", "application", "workload"}},
		{"team", []string{"team", "owner", "squad", "cost_center", "costcenter"}},
		{"environment", []string{"environment", "env", "stage"}},
	} {
		if found := matching(keys, d.words); len(found) > 0 {
			fmt.Fprintf(&lines, "  %s: [%s]\n", d.name, strings.Join(found, ", "))
		}
	}
	if lines.Len() > 0 {
		fmt.Fprintf(a.out, "\nFor idlewatt.yaml:\ndimensions:\n%s", lines.String())
	}
	return nil
}

// matching returns, as YAML, the keys that are one of the words whatever their case, the
// likelier words first; keys are sorted by money.
func matching(keys, words []string) []string {
	var out []string
	for _, w := range words {
		for _, k := range keys {
			if strings.EqualFold(strings.TrimSpace(k), w) {
				out = append(out, fmt.Sprintf("%q", "tag:"+k))
			}
		}
	}
	return out
}
