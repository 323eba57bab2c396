package normalize

import (
	"strings"

	"github.com/idlewatt/idlewatt/schema/lines"
)

// focusTexts and focusMoney are the CostAndUsage columns of FOCUS 1.0 to 1.4 that are kept.
var focusTexts = []string{
	"AvailabilityZone", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency",
	"CapacityReservationId", "CapacityReservationStatus", "ChargeCategory", "ChargeClass", "ChargeDescription",
	"ChargeFrequency", "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
	"CommitmentDiscountStatus", "CommitmentDiscountType", "CommitmentDiscountUnit", "ConsumedUnit",
	"HostProviderName", "InvoiceDetailId", "InvoiceId", "InvoiceIssuerName", "PricingCategory",
	"PricingCurrency", "PricingUnit", "ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId",
	"ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceProviderName",
	"ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceId", "SubAccountId", "SubAccountName",
	"SubAccountType", "AllocatedMethodId", "AllocatedResourceId", "AllocatedResourceName",
	"x_LineItemType", "x_PricingModel", "x_InstanceType", "x_GpuModel",
}

var focusMoney = []string{
	"BilledCost", "CommitmentDiscountQuantity", "ConsumedQuantity", "ContractedCost", "ContractedUnitPrice",
	"EffectiveCost", "ListCost", "ListUnitPrice", "PricingCurrencyContractedUnitPrice",
	"PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice", "PricingQuantity",
	"x_GpuCount", "x_MachineHours",
}

func focus() Format {
	cols := columns(Text, focusTexts...)
	cols = append(cols, columns(Money, focusMoney...)...)
	cols = append(cols, columns(Time,
		"BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")...)
	cols = append(cols, columns(Map, "Tags")...)
	cols = append(cols, columns(JSON,
		"SkuPriceDetails", "AllocatedMethodDetails", "AllocatedTags", "ContractApplied",
		"CommitmentProgramEligibilityDetails")...)
	for _, n := range []string{"BilledCost", "ChargePeriodStart", "ChargePeriodEnd"} {
		cols = with(cols, n, requiredFilled)
	}
	cols = with(cols, "BillingPeriodStart", func(c *Column) {
		c.Required, c.Filled, c.Assumable = true, true, "--period"
	})
	cols = with(cols, "BillingAccountId", assumable("--account"))
	cols = with(cols, "BillingCurrency", assumable("--currency"))
	return Format{
		Name: "focus", Dataset: "focus", SQL: focusSQL, Columns: cols,
		Summary:   "FOCUS 1.0 to 1.4 cost and usage: CSV, gzip, zstd, Parquet",
		Key:       func(h string) string { return strings.ToLower(trimBOM(h)) },
		Nulls:     []string{"NULL", "null", "(null)"},
		Signature: []string{"BilledCost", "ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodStart"},
	}
}

// chargeLines are files of schema/lines: FOCUS with columns of ours, whole for usage days.
func chargeLines() Format {
	f := focus()
	f.Name, f.Dataset, f.Daily = lines.Format, "usage", true
	f.Summary = "charges from a provider's API, as connectors write them: CSV in FOCUS names"
	f.Signature = append(f.Signature, "x_MachineHours", "x_LineItemType")
	return f
}

// awsFocus is FOCUS 1.0 and 1.2 as AWS exports it: focus, and two columns of AWS's own.
func awsFocus() Format {
	f := focus()
	f.Name, f.Provider = "aws-focus", "aws"
	f.Summary = "FOCUS 1.0 and 1.2 of AWS Data Exports: CSV.gz, Parquet"
	f.Columns = append(f.Columns, columns(Text, "x_ServiceCode", "x_Operation")...)
	f.Signature = append(f.Signature, "x_ServiceCode", "x_Operation")
	inner := strings.TrimSuffix(strings.TrimSpace(focusSQL), "FROM src") + "    , src.x_ServiceCode AS aws_service, src.x_Operation AS aws_operation\nFROM src"
	f.SQL = strings.Replace(awsFocusSQL, "\n    focus\n", "\n"+inner+"\n", 1)
	return f
}

// FocusVersion tells a file's version by its newest column (FOCUS changelogs). The keys are
// lower case; the result is never older than 1.0.
func FocusVersion(header []string) string {
	have := map[string]bool{}
	for _, h := range header {
		have[strings.ToLower(trimBOM(h))] = true
	}
	for _, v := range []struct{ version, columns string }{
		{"1.4", "commitmentprogrameligibilitydetails invoicedetailid"},
		{"1.3", "serviceprovidername hostprovidername allocatedmethodid allocatedresourceid contractapplied"},
		{"1.2", "billingaccounttype subaccounttype invoiceid pricingcurrency"},
		{"1.1", "capacityreservationid capacityreservationstatus commitmentdiscountquantity servicesubcategory skumeter skupricedetails"},
	} {
		for _, c := range strings.Fields(v.columns) {
			if have[c] {
				return v.version
			}
		}
	}
	return "1.0"
}
