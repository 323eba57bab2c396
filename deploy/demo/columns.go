package demo

import (
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/parquet-go/parquet-go"
)

// column is one column of the file and how a line fills it. Exactly one getter is set; empty
// text and an amount that is not there become null.
type column struct {
	name   string
	text   func(*line) string
	double func(*line) opt
	at     func(*line) time.Time
	pairs  func(*line) []pair
	rates  func(*line) []amountPair // a map of doubles
}

type amountPair struct {
	key   string
	value units
}

func text(name string, get func(*line) string) column  { return column{name: name, text: get} }
func double(name string, get func(*line) opt) column   { return column{name: name, double: get} }
func at(name string, get func(*line) time.Time) column { return column{name: name, at: get} }
func pairs(name string, get func(*line) []pair) column { return column{name: name, pairs: get} }
func fixed(name, value string) column                  { return text(name, func(*line) string { return value }) }
func planDouble(name string, get func(*plan) opt) column {
	return double(name, func(l *line) opt {
		if l.plan == nil {
			return opt{}
		}
		return get(l.plan)
	})
}

func splitDouble(name string, get func(*split) opt) column {
	return double(name, func(l *line) opt {
		if l.split == nil {
			return opt{}
		}
		return get(l.split)
	})
}

// lineID is the one text column that is different in every row.
const lineID = "identity_line_item_id"

// columns returns the export's columns in alphabetical order, as Parquet groups have them.
func columns() []column {
	cols := billColumns()
	cols = append(cols, lineColumns()...)
	cols = append(cols, productColumns()...)
	return append(cols, commitmentColumns()...)
}

func billColumns() []column {
	return []column{
		text("bill_bill_type", func(l *line) string { return l.payer.billType }),
		fixed("bill_billing_entity", "AWS"),
		at("bill_billing_period_end_date", func(*line) time.Time { return monthEnd }),
		at("bill_billing_period_start_date", func(*line) time.Time { return monthStart }),
		text("bill_invoice_id", func(l *line) string { return l.payer.invoiceID }),
		fixed("bill_invoicing_entity", issuer),
		text("bill_payer_account_id", func(l *line) string { return l.payer.id }),
		text("bill_payer_account_name", func(l *line) string { return l.payer.name }),
		text("capacity_reservation_capacity_reservation_arn", func(l *line) string { return l.capacityARN }),
		text("capacity_reservation_capacity_reservation_status", func(l *line) string { return l.capacity }),
		pairs("cost_category", func(*line) []pair { return nil }),
		{name: "discount", rates: func(l *line) []amountPair {
			if l.net == l.cost {
				return nil
			}
			return []amountPair{{"private_rate_discount", l.net - l.cost}, {"total_discount", l.net - l.cost}}
		}},
		text(lineID, func(l *line) string { return hex16(noise(l.id, 1)) + hex16(noise(l.id, 2)) }),
		text("identity_time_interval", func(l *line) string { return l.interval }),
	}
}

func lineColumns() []column {
	return []column{
		text("line_item_availability_zone", func(l *line) string { return l.holder.zone }),
		double("line_item_blended_cost", func(l *line) opt { return some(l.cost) }),
		fixed("line_item_currency_code", currency),
		fixed("line_item_legal_entity", issuer),
		text("line_item_line_item_description", func(l *line) string {
			if l.description != "" {
				return l.description
			}
			return l.item.description
		}),
		text("line_item_line_item_type", func(l *line) string { return l.kind }),
		double("line_item_net_unblended_cost", func(l *line) opt { return some(l.net) }),
		text("line_item_operation", func(l *line) string { return l.item.operation }),
		text("line_item_product_code", func(l *line) string { return l.item.product }),
		text("line_item_resource_id", func(l *line) string { return l.holder.resource }),
		text("line_item_tax_type", func(l *line) string { return l.taxType }),
		double("line_item_unblended_cost", func(l *line) opt { return some(l.cost) }),
		text("line_item_unblended_rate", func(l *line) string {
			if !l.rate.ok {
				return ""
			}
			return l.rate.v.text()
		}),
		text("line_item_usage_account_id", func(l *line) string { return l.holder.account }),
		text("line_item_usage_account_name", func(l *line) string { return l.holder.name }),
		double("line_item_usage_amount", func(l *line) opt { return some(l.amount) }),
		at("line_item_usage_end_date", func(l *line) time.Time { return l.to }),
		at("line_item_usage_start_date", func(l *line) time.Time { return l.from }),
		text("line_item_usage_type", func(l *line) string { return l.item.usage }),
		fixed("pricing_currency", currency),
		double("pricing_public_on_demand_cost", func(l *line) opt { return l.list }),
		text("pricing_public_on_demand_rate", func(l *line) string {
			if !l.list.ok {
				return ""
			}
			return l.item.rate.text()
		}),
		text("pricing_rate_id", func(l *line) string { return l.item.rateID }),
		text("pricing_term", func(l *line) string { return l.item.term }),
		text("pricing_unit", func(l *line) string { return l.item.unit }),
	}
}

func productColumns() []column {
	return []column{
		pairs("product", func(l *line) []pair { return l.item.attributes }),
		text("product_instance_type", func(l *line) string { return l.item.instance }),
		text("product_product_family", func(l *line) string { return l.item.family }),
		fixed("product_region_code", region),
		text("product_servicecode", func(l *line) string { return l.item.service }),
		text("product_sku", func(l *line) string { return l.item.sku }),
	}
}

func commitmentColumns() []column {
	return []column{
		double("reservation_effective_cost", func(*line) opt { return opt{} }),
		text("reservation_reservation_a_r_n", func(*line) string { return "" }),
		pairs("resource_tags", func(l *line) []pair { return l.holder.tags }),
		planDouble("savings_plan_amortized_upfront_commitment_for_billing_period", func(p *plan) opt { return p.upfront }),
		planDouble("savings_plan_net_amortized_upfront_commitment_for_billing_period", func(p *plan) opt { return p.upfront }),
		planDouble("savings_plan_net_recurring_commitment_for_billing_period", func(p *plan) opt { return p.recurs }),
		planDouble("savings_plan_net_savings_plan_effective_cost", func(p *plan) opt { return p.effective }),
		text("savings_plan_offering_type", func(l *line) string {
			if l.plan == nil {
				return ""
			}
			return "ComputeSavingsPlans"
		}),
		planDouble("savings_plan_recurring_commitment_for_billing_period", func(p *plan) opt { return p.recurs }),
		text("savings_plan_savings_plan_a_r_n", func(l *line) string {
			if l.plan == nil {
				return ""
			}
			return l.plan.arn
		}),
		planDouble("savings_plan_savings_plan_effective_cost", func(p *plan) opt { return p.effective }),
		planDouble("savings_plan_savings_plan_rate", func(p *plan) opt { return opt{p.rate, p.rate != 0} }),
		planDouble("savings_plan_total_commitment_to_date", func(p *plan) opt { return p.total }),
		planDouble("savings_plan_used_commitment", func(p *plan) opt { return p.used }),
		splitDouble("split_line_item_actual_usage", func(s *split) opt { return s.actual }),
		splitDouble("split_line_item_net_split_cost", func(s *split) opt { return s.cost }),
		text("split_line_item_parent_resource_id", func(l *line) string {
			if l.split == nil {
				return ""
			}
			return l.split.parent
		}),
		splitDouble("split_line_item_reserved_usage", func(s *split) opt { return s.reserved }),
		splitDouble("split_line_item_split_cost", func(s *split) opt { return s.cost }),
		text("split_line_item_split_usage_ratio", func(l *line) string {
			if l.split == nil {
				return ""
			}
			return l.split.ratio
		}),
		splitDouble("split_line_item_unused_cost", func(s *split) opt { return s.unused }),
	}
}

// node returns the column's type in Parquet.
func (c column) node() parquet.Node {
	switch {
	case c.text != nil && c.name == lineID:
		return parquet.Optional(parquet.String())
	case c.text != nil: // few different texts, as every engine that writes exports sees it
		return parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary))
	case c.double != nil:
		return parquet.Optional(parquet.Leaf(parquet.DoubleType))
	case c.at != nil:
		return parquet.Optional(parquet.Timestamp(parquet.Millisecond))
	case c.rates != nil:
		return parquet.Map(parquet.String(), parquet.Leaf(parquet.DoubleType))
	default:
		words := parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
		return parquet.Map(words, parquet.Optional(words))
	}
}

func hex16(v uint64) string { return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, v)) }
