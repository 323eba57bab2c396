package report

import "github.com/idlewatt/idlewatt/dashboards/query"

// Running is the table of what runs at this moment; its costs are estimates.
func (b *Builder) Running(rows []query.RunningRow) Table {
	t := Table{
		Key: "running", Title: "Machines and volumes that run, as the last poll saw them; costs are estimated", Empty: "Nothing is known to run.",
		Columns: []Column{
			{Key: "provider", Title: "Provider", Kind: Text}, {Key: "name", Title: "Name", Kind: Text}, {Key: "kind", Title: "Kind", Kind: Text},
			{Key: "gpu_count", Title: "GPUs", Kind: Text}, {Key: "gpu_model", Title: "Model", Kind: Text}, {Key: "since", Title: "Since", Kind: Moment},
			{Key: "seen_until", Title: "Seen until", Kind: Moment}, {Key: "per_hour", Title: "Per hour", Kind: Money}, {Key: "rate_source", Title: "Rate", Kind: Text},
			{Key: "cost", Title: "Cost so far", Kind: Money}, {Key: "currency", Title: "Currency", Kind: Text}, {Key: "pricing_model", Title: "Pricing", Kind: Text},
			{Key: "account", Title: "Account", Kind: Text}, {Key: "region", Title: "Region", Kind: Text},
		},
	}
	for _, r := range rows {
		name, gpus, how := r.Name, "", r.RateSource
		if name == "" {
			name = r.ResourceID
		}
		if r.GPUs != nil {
			gpus = r.GPUs.String()
		}
		if how == "" {
			how = "no rate"
		}
		t.Rows = append(t.Rows, []Cell{
			text(r.Provider), text(name), text(r.Kind), text(gpus), text(r.GPUModel), b.moment(r.Since), b.moment(r.SeenUntil), rateCell(r.PerHour), text(how),
			optional(r.Cost), text(r.Currency), text(words(r.PricingModel)), text(r.Account), text(r.Region),
		})
	}
	return t
}

// Wallets is the table of prepaid balances and how far they reach.
func (b *Builder) Wallets(rows []query.WalletRow) Table {
	t := Table{
		Key: "wallets", Title: "Prepaid balances", Empty: "No prepaid balance is known.",
		Columns: []Column{
			{Key: "provider", Title: "Provider", Kind: Text}, {Key: "account", Title: "Account", Kind: Text}, {Key: "balance", Title: "Balance", Kind: Money},
			{Key: "currency", Title: "Currency", Kind: Text}, {Key: "per_hour", Title: "Spent per hour", Kind: Money}, {Key: "end", Title: "Used up", Kind: Moment},
			{Key: "at", Title: "Told", Kind: Moment},
		},
	}
	for _, r := range rows {
		t.Rows = append(t.Rows, []Cell{
			text(r.Provider), text(r.Account), optional(&r.Balance), text(r.Currency), rateCell(r.PerHour), b.optionalMoment(r.End), b.moment(r.At),
		})
	}
	return t
}
