package normalize

import (
	"strings"
	"unicode"
)

// capacityBlock is no column of any bill: it holds the pattern by which a person says which
// rows are Capacity Blocks, whose usage type AWS does not document.
const capacityBlock = "capacity_block_pattern"

// awsColumns is the contract that legacy CUR and CUR 2.0 share, in CUR 2.0 names. All but
// the cost and the line item type are optional: AWS leaves out what a month does not use.
func awsColumns() []Column {
	cols := columns(Text,
		"bill_bill_type", "bill_billing_entity", "bill_invoice_id", "bill_invoicing_entity",
		"bill_payer_account_id", "bill_payer_account_name",
		"capacity_reservation_capacity_reservation_arn", "capacity_reservation_capacity_reservation_status",
		"capacity_reservation_capacity_reservation_type", capacityBlock,
		"line_item_availability_zone", "line_item_currency_code", "line_item_legal_entity",
		"line_item_line_item_description", "line_item_line_item_type", "line_item_operation",
		"line_item_product_code", "line_item_resource_id", "line_item_usage_account_id",
		"line_item_usage_account_name", "line_item_usage_type", "pricing_currency", "pricing_purchase_option",
		"pricing_rate_id", "pricing_term", "pricing_unit", "product_gpu", "product_instance_type",
		"product_product_family", "product_product_name", "product_region", "product_region_code",
		"product_servicecode", "product_sku", "reservation_reservation_a_r_n",
		"savings_plan_savings_plan_a_r_n", "savings_plan_offering_type", "split_line_item_parent_resource_id",
	)
	cols = append(cols, columns(Money,
		"line_item_unblended_cost", "line_item_net_unblended_cost", "line_item_usage_amount",
		"line_item_unblended_rate", "pricing_public_on_demand_cost", "pricing_public_on_demand_rate",
		"reservation_effective_cost", "reservation_net_effective_cost",
		"reservation_unused_amortized_upfront_fee_for_billing_period",
		"reservation_net_unused_amortized_upfront_fee_for_billing_period",
		"reservation_unused_recurring_fee", "reservation_net_unused_recurring_fee",
		"savings_plan_savings_plan_effective_cost", "savings_plan_net_savings_plan_effective_cost",
		"savings_plan_total_commitment_to_date", "savings_plan_used_commitment",
		"savings_plan_amortized_upfront_commitment_for_billing_period",
		"savings_plan_net_amortized_upfront_commitment_for_billing_period",
		"savings_plan_recurring_commitment_for_billing_period",
		"savings_plan_net_recurring_commitment_for_billing_period",
		"split_line_item_split_cost", "split_line_item_net_split_cost",
		"split_line_item_unused_cost", "split_line_item_net_unused_cost", "split_line_item_split_usage",
	)...)
	cols = append(cols, columns(Time,
		"bill_billing_period_start_date", "bill_billing_period_end_date",
		"line_item_usage_start_date", "line_item_usage_end_date",
	)...)
	cols = append(cols, columns(Map, "resource_tags", "product", "cost_category")...)
	cols = with(cols, "line_item_line_item_type", requiredFilled)
	cols = with(cols, "line_item_unblended_cost", requiredFilled)
	cols = with(cols, "bill_billing_period_start_date", func(c *Column) {
		c.Required, c.Filled, c.Assumable = true, true, "--period"
	})
	cols = with(cols, "bill_payer_account_id", assumable("--account"))
	cols = with(cols, "line_item_currency_code", assumable("--currency"))
	cols = with(cols, "line_item_usage_account_id", alias("line_item_usage_account_id"))
	cols = with(cols, capacityBlock, assumable("--capacity-block"))
	return cols
}

func awsLegacy() Format {
	return Format{
		Name: "aws-cur-legacy", Dataset: "cur", Provider: "aws", SQL: awsSQL, Columns: awsColumns(),
		Summary: "AWS Cost and Usage Report (legacy): CSV, gzip, Parquet",
		Key:     awsKey, TagKey: awsTagKey, TagMap: "resource_tags", Nulls: nil,
		Signature: []string{"line_item_line_item_type", "line_item_unblended_cost"},
	}
}

func awsCUR2() Format {
	f := awsLegacy()
	f.Name, f.Summary = "aws-cur2", "AWS CUR 2.0 (Data Exports): CSV.gz, Parquet; tags as a map"
	f.Signature = append(f.Signature, "bill_payer_account_name")
	return f
}

// awsKey turns a legacy CSV header (lineItem/UnblendedCost) into the Parquet and CUR 2.0
// name (line_item_unblended_cost): the rule AWS itself uses for Athena.
func awsKey(header string) string {
	h := trimBOM(header)
	group, name, ok := strings.Cut(h, "/")
	if !ok {
		return strings.ToLower(h)
	}
	if group == "resourceTags" || group == "costCategory" {
		return ""
	}
	return snake(group) + "_" + snake(name)
}

func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// awsTagKey recognises tags that are columns: resourceTags/user:team in legacy CSV,
// resource_tags_user_team in legacy Parquet. Keys keep their case, AWS tells Team from team, and their prefix, which the
// SQL takes off all keys alike.
func awsTagKey(header string) (string, bool) {
	h := trimBOM(header)
	if key, ok := strings.CutPrefix(h, "resourceTags/"); ok {
		return key, true
	}
	return strings.CutPrefix(h, "resource_tags_")
}
