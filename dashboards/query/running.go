package query

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// RunningQuestion asks what runs, as far as the last polls know.
type RunningQuestion struct {
	// SeenSince leaves out what was not seen since then: nobody knows whether it still runs.
	SeenSince time.Time
}

// RunningRow is one resource that runs.
type RunningRow struct {
	Provider     string
	Account      string
	Region       string
	Name         string
	ResourceID   string
	Kind         string
	GPUModel     string
	GPUs         *money.Decimal
	PricingModel string
	Since        time.Time
	SeenUntil    time.Time
	Currency     string
	PerHour      *money.Decimal // nil: nothing prices it
	RateSource   string         // provider, negotiated or catalogue
	Cost         *money.Decimal // estimated, up to SeenUntil
}

// SQL returns the statement.
func (q RunningQuestion) SQL() (string, []any) {
	return `SELECT toString(r.Provider) AS Cloud, toString(r.Account) AS Acc, toString(RegionId) AS Place, toString(ResourceName) AS Called, toString(r.ResourceId) AS Id,
    toString(ResourceType) AS Sort, toString(x_GpuModel) AS Model, toString(x_GpuCount) AS Gpus, toString(x_PricingModel) AS Pricing,
    toDateTime64(RunStart, 3, 'UTC') AS Since, toDateTime64(SeenUntil, 3, 'UTC') AS Until, toString(BillingCurrency) AS Currency,
    toString(CostPerHour) AS PerHour, toString(RateSource) AS How, toString(CostSoFar) AS Cost
FROM idlewatt.running AS r
WHERE r.SeenUntil >= toDateTime64({since:String}, 3, 'UTC')
ORDER BY Currency = '', Currency, r.CostPerHour DESC NULLS LAST, Cloud, Called, Id, Sort`,
		[]any{clickhouse.Named("since", q.SeenSince.UTC().Format("2006-01-02 15:04:05.000"))}
}

// Running answers the question.
func (d DB) Running(ctx context.Context, q RunningQuestion) ([]RunningRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "running machines", sql, args, func(rows driver.Rows, r *RunningRow) error {
		var t [3]*string
		err := rows.Scan(&r.Provider, &r.Account, &r.Region, &r.Name, &r.ResourceID, &r.Kind, &r.GPUModel, &t[0], &r.PricingModel, &r.Since,
			&r.SeenUntil, &r.Currency, &t[1], &r.RateSource, &t[2])
		if err != nil {
			return err
		}
		return amounts(t[:], &r.GPUs, &r.PerHour, &r.Cost)
	})
}

// WalletsQuestion asks how far prepaid balances reach.
type WalletsQuestion struct{}

// WalletRow is the newest balance of one prepaid account.
type WalletRow struct {
	Provider string
	Account  string
	At       time.Time
	Balance  money.Decimal
	Currency string
	PerHour  *money.Decimal // nil: not known
	End      *time.Time     // when it is used up at this pace; nil: not known, or in many years
}

// SQL returns the statement.
func (WalletsQuestion) SQL() (string, []any) {
	return `SELECT toString(w.Provider) AS Cloud, toString(w.Account) AS Acc, toDateTime64(w.At, 3, 'UTC') AS Told, toString(w.Balance) AS Rest,
    toString(BillingCurrency) AS Currency, toString(SpendPerHour) AS PerHour, CAST(ExpectedEnd AS Nullable(DateTime64(3, 'UTC'))) AS Till
FROM idlewatt.wallets AS w
ORDER BY isNull(Till), Till, Cloud, Acc`, nil
}

// Wallets answers the question.
func (d DB) Wallets(ctx context.Context, q WalletsQuestion) ([]WalletRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "prepaid balances", sql, args, func(rows driver.Rows, r *WalletRow) error {
		var t [2]*string
		if err := rows.Scan(&r.Provider, &r.Account, &r.At, &t[0], &r.Currency, &t[1], &r.End); err != nil {
			return err
		}
		return amounts(t[:], &r.Balance, &r.PerHour)
	})
}
