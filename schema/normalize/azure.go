package normalize

import (
	"regexp"
	"strings"
)

// azureActual is the contract of ActualCost exports over EA, MCA and the old pay-as-you-go
// names. Header names vary in case and language: see azureKey.
func azureActual() Format {
	text := func(name string, aliases ...string) Column { return Column{Name: name, Kind: Text, Aliases: aliases} }
	money := func(name string, aliases ...string) Column { return Column{Name: name, Kind: Money, Aliases: aliases} }
	cols := []Column{
		text("BillingAccountId"), text("BillingAccountName"), text("BillingProfileId"), text("BillingProfileName"),
		text("SubscriptionId", "subscriptionguid"), text("SubscriptionName"),
		text("Product", "productname"), text("ProductId"), text("PartNumber"), text("MeterId"), text("ServiceFamily"),
		text("MeterCategory"), text("MeterSubCategory"), text("MeterRegion"), text("MeterName"),
		text("BillingCurrency", "billingcurrencycode", "currency"), text("PricingCurrency"),
		text("ResourceLocation", "location"), text("AvailabilityZone"), text("ConsumedService"),
		text("ResourceId", "instanceid", "instancename"), text("ResourceName"), text("AdditionalInfo"),
		text("ResourceGroup", "resourcegroupname"), text("UnitOfMeasure"), text("ReservationId"), text("ReservationName"),
		text("BenefitId"), text("BenefitName"), text("PublisherName"), text("ChargeType"), text("Frequency"),
		text("PublisherType"), text("PricingModel"), text("InvoiceId"), {Name: "Tags", Kind: Map},
		{Name: "CostInBillingCurrency", Kind: Money, Required: true, Filled: true, Aliases: []string{"cost", "pretaxcost"}},
		money("Quantity", "usagequantity", "consumedquantity"), money("UnitPrice"), money("EffectivePrice", "resourcerate"),
		money("PayGPrice"), money("PaygCostInBillingCurrency"),
		{Name: "Date", Kind: Time, Required: true, Filled: true, Aliases: []string{"usagedatetime"}, Assumable: "--period"},
		{Name: "BillingPeriodStartDate", Kind: Time, Aliases: []string{"billingperiodstart"}},
		{Name: "BillingPeriodEndDate", Kind: Time, Aliases: []string{"billingperiodend"}},
	}
	cols = with(cols, "BillingAccountId", assumable("--account"))
	cols = with(cols, "BillingCurrency", assumable("--currency"))
	return Format{
		Name: "azure-actual", Dataset: "actual", Provider: "azure", SQL: azureSQL, Columns: cols,
		Summary: "Azure Cost Management actual cost (EA, MCA, pay-as-you-go): CSV, gzip, Parquet",
		Times:   Azure, Key: azureKey, Daily: true, FoldTagKeys: true,
		// In actual cost, usage that a commitment covers costs 0 and unused commitments are absent.
		Refuses: []Refusal{
			{"x_LineItemType IN ('UnusedReservation', 'UnusedSavingsPlan')", amortised},
			{"x_LineItemType = 'Usage' AND CommitmentDiscountStatus = 'Used' AND BilledCost != 0", amortised},
		},
		Signature: []string{"CostInBillingCurrency", "Date"},
	}
}

const amortised = "this is amortised cost, another view of the same money; export actual cost (dataset ActualCost)"

var bracketed = regexp.MustCompile(`\(([A-Za-z0-9_ ]+)\)\s*$`)

// azureKey strips the byte order mark, takes the English name that localised headers carry
// in brackets, and lowers the case.
func azureKey(header string) string {
	h := trimBOM(header)
	if m := bracketed.FindStringSubmatch(h); m != nil {
		h = m[1]
	}
	return strings.ToLower(strings.TrimSpace(h))
}
