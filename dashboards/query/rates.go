package query

import (
	"context"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// RatesQuestion asks what a GPU-hour cost in a month, by model, pricing model and region.
type RatesQuestion struct{ Month Month }

// RateRow is the price of one model under one pricing model.
type RateRow struct {
	Currency       string
	Provider       string
	Region         string
	GPUModel       string
	PricingModel   string
	GPUHours       money.Decimal
	BusyHours      money.Decimal
	Effective      money.Decimal
	PerGPUHour     *money.Decimal
	PerBusyGPUHour *money.Decimal // nil: no busy hour was seen
}

// SQL returns the statement.
func (q RatesQuestion) SQL() (string, []any) {
	return `SELECT toString(BillingCurrency) AS Currency, toString(ifNull(ServiceProviderName, '')) AS Provider, toString(ifNull(RegionId, '')) AS Region,
    toString(ifNull(x_GpuModel, '')) AS Model, toString(ifNull(x_PricingModel, '')) AS Pricing, toString(GpuHours) AS Hours,
    toString(BusyGpuHours) AS Busy, toString(ifNull(EffectiveCost, 0)) AS Effective, toString(CostPerGpuHour) AS PerHour, toString(CostPerBusyGpuHour) AS PerBusyHour
FROM idlewatt.gpu_hour_rates
WHERE toDate(Month) = toDate({month:String})
ORDER BY Currency, Model, Pricing, Provider, Region`, []any{q.Month.period()}
}

// Rates answers the question.
func (d DB) Rates(ctx context.Context, q RatesQuestion) ([]RateRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "GPU-hour rates", sql, args, func(rows driver.Rows, r *RateRow) error {
		var t [5]*string
		err := rows.Scan(&r.Currency, &r.Provider, &r.Region, &r.GPUModel, &r.PricingModel, &t[0], &t[1], &t[2], &t[3], &t[4])
		if err != nil {
			return err
		}
		return amounts(t[:], &r.GPUHours, &r.BusyHours, &r.Effective, &r.PerGPUHour, &r.PerBusyGPUHour)
	})
}
