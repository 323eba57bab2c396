package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// AllocationQuestion asks what a month cost, by dimensions and allocation kind.
type AllocationQuestion struct {
	Month Month
	// By names dimensions; see Dimensions. Empty asks for the whole.
	By []string
}

// AllocationRow is the cost of one kind for one value of each dimension.
type AllocationRow struct {
	Currency  string
	Values    []string // of the dimensions, in the order of By; empty is untagged
	Kind      string
	Effective money.Decimal
	Billed    money.Decimal
	Estimated money.Decimal
	GPUHours  money.Decimal
}

// dimensions maps the names people use to columns of idlewatt.allocations.
func dimensions() map[string]string {
	return map[string]string{
		"project": "x_Project", "team": "x_Team", "environment": "x_Environment", "provider": "ServiceProviderName",
		"account": "BillingAccountId", "sub_account": "SubAccountId", "region": "RegionId", "service": "ServiceName",
		"gpu_model": "x_GpuModel", "pricing_model": "x_PricingModel", "node": "Node", "kind": "x_AllocationKind",
	}
}

// Dimensions returns the names that By may hold, sorted.
func Dimensions() []string { return slices.Sorted(maps.Keys(dimensions())) }

// CheckDimensions reports the first name that is none.
func CheckDimensions(by []string) error {
	for i, b := range by {
		if _, ok := dimensions()[b]; !ok {
			return fmt.Errorf("unknown dimension %q, want %s", b, strings.Join(Dimensions(), ", "))
		}
		if slices.Contains(by[:i], b) {
			return fmt.Errorf("dimension %q stands twice", b)
		}
	}
	return nil
}

// SQL returns the statement. Names of dimensions never come into it, only our columns.
func (q AllocationQuestion) SQL() (string, []any) {
	values := "CAST([], 'Array(String)')"
	if len(q.By) > 0 {
		var columns []string
		for _, b := range q.By {
			columns = append(columns, "toString(ifNull("+dimensions()[b]+", ''))")
		}
		values = "[" + strings.Join(columns, ", ") + "]"
	}
	return `SELECT toString(BillingCurrency) AS Currency, ` + values + ` AS Dims, toString(x_AllocationKind) AS Kind,
    toString(sum(ifNull(a.EffectiveCost, 0))) AS Effective, toString(sumIf(a.BilledCost, x_ChargeStatus != 'estimated')) AS Billed,
    toString(sumIf(ifNull(a.EffectiveCost, 0), x_ChargeStatus = 'estimated')) AS Estimated, toString(sum(x_GpuHours)) AS GpuHours
FROM idlewatt.allocations AS a
WHERE ` + inPeriod + `
GROUP BY Currency, Dims, Kind
ORDER BY Currency, Dims, Kind`, []any{q.Month.period()}
}

// Allocation answers the question.
func (d DB) Allocation(ctx context.Context, q AllocationQuestion) ([]AllocationRow, error) {
	if err := CheckDimensions(q.By); err != nil {
		return nil, err
	}
	sql, args := q.SQL()
	return ask(ctx, d, "allocation", sql, args, func(rows driver.Rows, r *AllocationRow) error {
		var effective, billed, estimated, hours string
		if err := rows.Scan(&r.Currency, &r.Values, &r.Kind, &effective, &billed, &estimated, &hours); err != nil {
			return err
		}
		return amounts([]*string{&effective, &billed, &estimated, &hours}, &r.Effective, &r.Billed, &r.Estimated, &r.GPUHours)
	})
}

// DailyQuestion asks what each day of a month cost, by kind.
type DailyQuestion struct{ Month Month }

// DailyRow is the cost of one kind on one day of the reporting time zone.
type DailyRow struct {
	Day       time.Time
	Currency  string
	Kind      string
	Effective money.Decimal
}

// SQL returns the statement.
func (q DailyQuestion) SQL() (string, []any) {
	return `SELECT toDate(a.Day) AS On, toString(BillingCurrency) AS Currency, toString(x_AllocationKind) AS Kind,
    toString(sum(ifNull(a.EffectiveCost, 0))) AS Effective
FROM idlewatt.allocations_daily AS a
WHERE ` + inPeriod + `
GROUP BY On, Currency, Kind
ORDER BY Currency, On, Kind`, []any{q.Month.period()}
}

// Daily answers the question.
func (d DB) Daily(ctx context.Context, q DailyQuestion) ([]DailyRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "daily costs", sql, args, func(rows driver.Rows, r *DailyRow) error {
		var effective string
		if err := rows.Scan(&r.Day, &r.Currency, &r.Kind, &effective); err != nil {
			return err
		}
		return amounts([]*string{&effective}, &r.Effective)
	})
}
