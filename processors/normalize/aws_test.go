package normalize

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/idlewatt/idlewatt/schema/event"
)

// cur is a CUR 2.0 file in the making: the sample's rows, to take away from and add to.
type cur struct {
	t      testing.TB
	header []string
	rows   [][]string
}

func sampleCUR(t testing.TB, rows ...int) *cur {
	t.Helper()
	all, err := csv.NewReader(bytes.NewReader(readBill(t, "aws_cur2.csv"))).ReadAll()
	must(t, err)
	c := &cur{t: t, header: all[0]}
	for i, row := range all[1:] {
		if len(rows) == 0 || slices.Contains(rows, i+1) {
			c.rows = append(c.rows, row)
		}
	}
	return c
}

// add appends a row that is like row n of the sample but for some columns, given as name, value.
func (c *cur) add(n int, changes ...string) *cur {
	c.t.Helper()
	row := slices.Clone(sampleCUR(c.t, n).rows[0])
	for i := 0; i < len(changes); i += 2 {
		at := slices.Index(c.header, changes[i])
		if at < 0 {
			c.t.Fatalf("the sample has no column %s", changes[i])
		}
		row[at] = changes[i+1]
	}
	c.rows = append(c.rows, row)
	return c
}

// without takes away the columns whose name holds a word.
func (c *cur) without(word string) *cur {
	out := &cur{t: c.t, rows: make([][]string, len(c.rows))}
	for i, h := range c.header {
		if strings.Contains(h, word) {
			continue
		}
		out.header = append(out.header, h)
		for j, row := range c.rows {
			out.rows[j] = append(out.rows[j], row[i])
		}
	}
	return out
}

func (c *cur) bytes() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	must(c.t, w.Write(c.header))
	must(c.t, w.WriteAll(c.rows))
	return b.Bytes()
}

// loadCUR loads it as the newest delivery of the payer, and returns what was found.
func (r *rig) loadCUR(c *cur, assume event.Assumptions) Outcome {
	r.Helper()
	d := r.delivery(event.BillingDelivery{
		Source: "payer", Format: "aws-cur2", Version: fmt.Sprint(engine.name.Add(1)), Assume: assume,
	}, r.put("cur.csv", c.bytes()))
	return r.load(Live, d)
}

// figure wants one value of the payer's charges, and that none of the known wrong ones is it.
func (r *rig) figure(what, sql, want string, wrong ...string) {
	r.Helper()
	got := r.ask("SELECT toString((SELECT " + sql + " FROM idlewatt.charges WHERE x_Source = 'payer'))")
	if len(got) != 1 || got[0] != want {
		r.Errorf("%s: %s is %v, want %s", what, sql, got, want)
	}
	if slices.Contains(wrong, want) || slices.Contains(wrong, got[0]) {
		r.Errorf("%s: %s is the known wrong answer %s", what, sql, got[0])
	}
}

const sumBilled, sumEffective, sumUnblended = "sum(BilledCost)", "sum(EffectiveCost)", "sum(x_UnblendedCost)"

// What counts double on an AWS bill, each trap with its numbers; letters are those of the list
// that the test data was made for. Old folders and other exports of the same bill are below.
func TestAWSDoubleCountTraps(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	none := event.Assumptions{}

	// (a) Covered usage, its negation, its effective cost: billed cancels, effective counts once.
	r.loadCUR(sampleCUR(t), none)
	r.figure("a, net", sumBilled, "27213.2735", "27284.3215")
	r.figure("a, as printed", sumUnblended, "27229.2815", "27284.3215")
	r.figure("a, net", sumEffective, "63.4735", "24.4415")
	r.figure("a, covered", "sumIf(EffectiveCost, x_PricingModel = 'savings_plan')", "45") // 34.6752 used + 10.3248 not = 45 paid
	// (b) The reservation's fee, its monthly row and its effective cost.
	r.figure("b, used and unused", "sumIf(EffectiveCost, x_PricingModel = 'reserved')", "12.4", "18.6", "27168.4")
	r.figure("b, paid", "sumIf(BilledCost, x_PricingModel = 'reserved')", "27162.2")
	r.figure("b, unused only", "sumIf(EffectiveCost, CommitmentDiscountStatus = 'Unused')", "16.5248") // 10.3248 of the plan + 6.2
	// (c) The pod of row 11 is a part of row 1: it has a split cost, and no cost.
	r.figure("c", "toString((countIf(isNotNull(x_SplitParentId)), sumIf(BilledCost, isNotNull(x_SplitParentId)), sumIf(EffectiveCost, isNotNull(x_SplitParentId)), "+
		"countIf(isNotNull(x_SplitParentId) AND isNotNull(coalesce(ConsumedQuantity, ListCost, x_GpuHours)))))", "(1,0,0,0)")
	r.figure("c", "toString((any(x_SplitParentId), sum(x_SplitCost), sum(x_SplitUnusedCost), sum(x_SplitUsage)))", "('i-0aaaa00000000001',24.768,0,96)")
	// (e) UnusedBox hours are idle, the Reservation hours of the same reservation are none.
	r.figure("e, idle GPU hours", "sumIf(x_GpuHours, CapacityReservationStatus = 'Unused')", "8", "24", "16")
	r.figure("e, ran", "sumIf(x_GpuHours, ifNull(CapacityReservationStatus, '') != 'Unused')", "28", "52", "44")
	r.figure("e, idle cost", "sumIf(EffectiveCost, x_PricingModel = 'capacity_reservation')", "49.536")
	r.figure("e, machine hours", "sumIf(ConsumedQuantity, x_GpuHours > 0)", "5", "7")
	// (f) List and contracted cost: over usage once, never over fees and what they cover.
	r.figure("f", "sum(ListCost)", "178.38414", "27385.58414")
	r.figure("f", "sumIf(ContractedCost, ChargeCategory = 'Usage')", "178.94614")
	r.figure("f, over all rows it would be", "sum(ContractedCost) - sumIf(ContractedCost, ChargeCategory IN ('Credit', 'Adjustment', 'Tax'))", "27386.14614") // 178.94614 and what pays for a part of it
	r.figure("f, by kind", "toString((sumIf(ContractedCost, x_LineItemType = 'SavingsPlanCoveredUsage'), sumIf(ContractedCost, x_LineItemType = 'SavingsPlanNegation'), "+
		"sumIf(ContractedCost, x_LineItemType = 'DiscountedUsage'), sumIf(ContractedCost, x_PricingModel = 'spot'), sumIf(ContractedCost, x_LineItemType = 'RIFee')))",
		"(55.04,0,10.49264,11.57,6.2)")
	// Credits, refunds and tax are apart: cost per GPU-hour is before them.
	r.figure("apart", "toString((sumIf(EffectiveCost, ChargeCategory IN ('Usage', 'Purchase')), sumIf(EffectiveCost, x_GpuHours > 0 AND ifNull(CapacityReservationStatus, '') != 'Unused')))", "(170.8135,101.9812)")

	// Without net columns: the gross figures, and the true-up from amortised to cash.
	r.loadCUR(sampleCUR(t).without("net_"), none)
	r.figure("a, gross", sumBilled, "27229.2815", "27284.3215", "27256.8015")
	r.figure("a, gross", sumEffective, "79.4815", "24.4415")
	r.figure("c, gross", "toString(("+sumBilled+" + sum(x_SplitCost), sum(x_SplitCost)))", "(27256.8015,27.52)") // what would be wrong
	r.figure("true-up: amortised - amortised upfront of the period + upfront fees", sumEffective+" - toDecimal128('6.2', 18) + sumIf(BilledCost, x_LineItemType = 'Fee')", "27229.2815")
}

// (d) Discounts are in net costs or rows of their own, never both.
func TestAWSDiscountsCountOnce(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	// The three rows of the legacy sample: -16.008.
	discounts := func(c *cur, net string) *cur {
		for _, amount := range []string{"-5.504", "-5.504", "-5.0"} {
			c.add(13, "line_item_line_item_type", "EdpDiscount", "line_item_unblended_cost", amount, "line_item_net_unblended_cost", strings.ReplaceAll(net, "=", amount))
		}
		return c
	}
	for _, c := range []struct {
		name              string
		bill              *cur
		billed, effective string
		warned            bool
	}{
		{"rows without a net cost, beside net costs", discounts(sampleCUR(t), ""), "27213.2735", "63.4735", true},
		{"rows whose net cost is 0, beside net costs", discounts(sampleCUR(t), "0"), "27213.2735", "63.4735", false},
		{"rows alone", discounts(sampleCUR(t), "").without("net_"), "27213.2735", "63.4735", false},
		{"neither", sampleCUR(t).without("net_"), "27229.2815", "79.4815", false},
		// A net column that says nothing but what is printed holds no discount.
		{"rows beside net costs of the same amounts", discounts(sampleCUR(t, 12), ""), "-13.2365", "-13.2365", false},
	} {
		out := r.loadCUR(c.bill, event.Assumptions{})
		r.figure(c.name, sumBilled, c.billed, "27197.2655", "27181.2575")
		r.figure(c.name, sumEffective, c.effective)
		if warned := len(found(out, "discount that net costs hold already")) > 0; warned != c.warned {
			t.Errorf("%s: the delivery's defects are %v", c.name, out.Defects)
		}
	}
}

// found lists the defects of a name.
func found(out Outcome, name string) (list []string) {
	for d, n := range out.Defects {
		if strings.HasPrefix(d, name) {
			list = append(list, fmt.Sprint(n, " ", d))
		}
	}
	return list
}

// (g) A member's own export and the payer's are one bill. (h) So are two executions of an
// export, and a file that a listing names twice.
func TestAWSOneBillOneDoor(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	all := sampleCUR(t)
	older := r.put("old.csv", sampleCUR(t, 1, 2, 3).bytes())
	r.loadCUR(all, event.Assumptions{})
	account := slices.Index(all.header, "line_item_usage_account_id")
	member := &cur{t: t, header: all.header}
	for _, row := range all.rows {
		if row[account] == "100000000010" {
			member.rows = append(member.rows, row)
		}
	}
	r.load(Held, r.delivery(event.BillingDelivery{Source: "member", Format: "aws-cur2", Version: "1"}, r.put("member.csv", member.bytes())))
	r.want("SELECT toString(count()), toString(sum(BilledCost)) FROM idlewatt.charges", nil, "15|27213.2735")
	// An old execution comes late, and a listing names it beside the new one: never 45 rows.
	r.load(Older, r.delivery(event.BillingDelivery{Source: "payer", Format: "aws-cur2", Version: "0"}, older))
	again, err := r.p.Deliver(t.Context(), r.delivery(event.BillingDelivery{Source: "payer", Format: "aws-cur2", Version: "999999"},
		r.put("chunk-1.csv", all.bytes()), r.put("chunk-1-of-an-old-folder.csv", all.bytes())))
	if again.Status != Refused || err == nil || !strings.Contains(err.Error(), "is the same bytes as chunk-1.csv") {
		t.Errorf("a file that is listed twice: %s, %v", again.Status, err)
	}
	r.want("SELECT toString(count()), toString(sum(BilledCost)) FROM idlewatt.charges", nil, "15|27213.2735")
}

// (i) EMR, SageMaker and Marketplace name machine types, too; only EC2's rows are machines.
func TestAWSOtherProductsAreNoMachines(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	c := sampleCUR(t).
		add(1, "line_item_product_code", "ElasticMapReduce", "product_servicecode", "ElasticMapReduce", "line_item_unblended_cost", "1", "line_item_net_unblended_cost", "1").
		add(1, "line_item_product_code", "AmazonSageMaker", "product_servicecode", "AmazonSageMaker", "product_instance_type", "ml.p5.48xlarge",
			"line_item_usage_type", "USE2-Train:ml.p5.48xlarge", "line_item_unblended_cost", "63.3", "line_item_net_unblended_cost", "63.3").
		add(1, "bill_billing_entity", "AWS Marketplace", "line_item_unblended_cost", "2", "line_item_net_unblended_cost", "2").
		add(1, "line_item_usage_type", "USE2-HostBoxUsage:p3.16xlarge", "line_item_unblended_cost", "0", "line_item_net_unblended_cost", "0").
		add(1, "line_item_usage_type", "USE2-HostUsage:p3", "line_item_unblended_cost", "27", "line_item_net_unblended_cost", "27").
		add(1, "line_item_usage_type", "USE2-EBSOptimized:p5.48xlarge", "line_item_unblended_cost", "0", "line_item_net_unblended_cost", "0")
	r.loadCUR(c, event.Assumptions{})
	r.figure("i, ran", "sumIf(x_GpuHours, ifNull(CapacityReservationStatus, '') != 'Unused')", "28", "36", "44", "52", "60")
	r.figure("i, what they cost", "sumIf(EffectiveCost, x_GpuHours > 0 AND ifNull(CapacityReservationStatus, '') != 'Unused')", "101.9812")
	r.figure("i, and all is billed", sumBilled, "27306.5735")
	r.want(`SELECT ifNull(x_PricingModel, '-') AS m, ServiceCategory, ifNull(x_InstanceType, '-'), toString(BilledCost) FROM idlewatt.charges
		WHERE x_Source = 'payer' AND x_Row > 15 ORDER BY x_Row`, nil,
		"on_demand|Analytics|-|1", "on_demand|AI and Machine Learning|ml.p5.48xlarge|63.3", "marketplace|Compute|-|2", "on_demand|Compute|-|0", "on_demand|Compute|-|27", "on_demand|Compute|-|0")
	// A dedicated instance is a machine of its own.
	r.loadCUR(sampleCUR(t, 12).add(1, "line_item_usage_type", "USE2-DedicatedUsage:p5.48xlarge"), event.Assumptions{})
	r.figure("dedicated", "sum(x_GpuHours)", "8")
}

// The usage type of Capacity Blocks is not documented: words find them, or a pattern does.
func TestAWSCapacityBlocks(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	const arn = "arn:aws:ec2:us-east-2:100000000010:capacity-reservation/cr-0bbbbbbbbbbbbbbb2"
	fee := []string{
		"line_item_line_item_type", "Fee", "line_item_usage_amount", "1", "line_item_unblended_cost", "755", "line_item_net_unblended_cost", "", "product_instance_type", "p5.48xlarge",
	}
	inside := []string{"capacity_reservation_capacity_reservation_arn", arn, "capacity_reservation_capacity_reservation_type", "CapacityBlock",
		"line_item_unblended_cost", "0.5", "line_item_net_unblended_cost", "", "pricing_public_on_demand_cost", ""}
	block := func(more ...string) *cur {
		return sampleCUR(t, 12).add(1, inside...).add(5, append(append(fee, "reservation_reservation_a_r_n", ""), more...)...)
	}
	for _, c := range []struct {
		name, fee string
		bill      *cur
		assume    event.Assumptions
	}{
		{"by its words", "capacity_block|-|-", block("line_item_line_item_description", "Capacity Block for ML, p5.48xlarge, 24 hours"), event.Assumptions{}},
		{"by a pattern", "capacity_block|-|-", block("line_item_usage_type", "USE2-CB4ML:p5"), event.Assumptions{CapacityBlock: "CB4ML|CapacityBlock"}},
		// A reservation's fee is spread over its usage and has effective cost 0: this one must not be taken for it.
		{"by the reservation that it names", "capacity_block|" + arn + "|-", block("reservation_reservation_a_r_n", arn), event.Assumptions{}},
		{"by its resource", "capacity_block|" + arn + "|-", block("line_item_resource_id", arn), event.Assumptions{}},
		{"not known", "-|-|-", block("line_item_usage_type", "USE2-CB4ML:p5"), event.Assumptions{}},
	} {
		r.loadCUR(c.bill, c.assume)
		r.want(`SELECT ifNull(x_PricingModel, '-'), ifNull(CapacityReservationId, '-'), ifNull(CommitmentDiscountId, '-'),
			ChargeCategory, toString(BilledCost), toString(EffectiveCost), ifNull(x_GpuModel, '-'), ifNull(toString(x_GpuHours), '-') FROM idlewatt.charges WHERE x_Source = 'payer' AND x_Row > 1 ORDER BY x_Row`, nil,
			"capacity_block|"+arn+"|-|Usage|0.5|0.5|H100|8", c.fee+"|Purchase|755|755|H100|-")
		// A price per hour without the block's fee would be far too low: there is none.
		r.want(`SELECT toString(GpuHours), toString(EffectiveCost), ifNull(toString(CostPerGpuHour), '-') FROM idlewatt.gpu_hour_rates WHERE x_PricingModel = 'capacity_block'`, nil, "8|0.5|-")
		if t.Failed() {
			t.Fatal(c.name)
		}
	}
	if _, err := r.p.Deliver(t.Context(), r.delivery(event.BillingDelivery{Format: "aws-cur2", Assume: event.Assumptions{CapacityBlock: "("}}, r.put("c.csv", sampleCUR(t).bytes()))); err == nil {
		t.Error("a pattern that is no regular expression was taken")
	}
}

// Line items that are rare and decide much.
func TestAWSRareLineItems(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	plan := "arn:aws:savingsplans::100000000001:savingsplan/aaaaaaaa-0000-4000-8000-000000000001"
	money := func(kind, cost string, more ...string) []string {
		return append([]string{"line_item_line_item_type", kind, "line_item_unblended_cost", cost, "line_item_net_unblended_cost", ""}, more...)
	}
	c := sampleCUR(t, 12).
		add(14, money("SavingsPlanUpfrontFee", "1000", "savings_plan_savings_plan_a_r_n", plan)...).
		add(14, money("Refund", "-400", "savings_plan_savings_plan_a_r_n", plan)...).
		add(14, money("Refund", "-3", "line_item_product_code", "ComputeSavingsPlans")...).
		add(14, money("PrivateRateDiscount", "-2")...).
		add(14, money("FlatRateSubscription", "7")...).
		add(14, money("Fee", "29", "line_item_product_code", "AWSSupportBusiness", "product_servicecode", "")...).
		add(7, money("RIFee", "6.2", "reservation_unused_amortized_upfront_fee_for_billing_period", "", "reservation_net_unused_amortized_upfront_fee_for_billing_period", "",
			"reservation_unused_recurring_fee", "", "reservation_net_unused_recurring_fee", "")...).
		add(14, money("SomethingNew", "0.01")...)
	out := r.loadCUR(c, event.Assumptions{})
	r.want(`SELECT x_LineItemType, ChargeCategory, ifNull(ChargeFrequency, '-'), toString(BilledCost), ifNull(toString(EffectiveCost), '-'), ifNull(toString(ContractedCost), '-'), ServiceCategory, ifNull(x_PricingModel, '-')
		FROM idlewatt.charges WHERE x_Source = 'payer' AND x_Row > 1 ORDER BY x_Row`, nil,
		"SavingsPlanUpfrontFee|Purchase|One-Time|1000|0|1000|Compute|savings_plan",
		"Refund|Adjustment|-|-400|0|-400|Compute|-", // of a one-time fee that was spread over usage
		"Refund|Adjustment|-|-3|0|-3|Compute|-",
		"PrivateRateDiscount|Adjustment|-|-2|-2|-2|Compute|-",
		"FlatRateSubscription|Purchase|Recurring|7|7|7|Compute|-",
		"Fee|Purchase|One-Time|29|29|29|Management and Governance|-",
		"RIFee|Purchase|Recurring|6.2|-|6.2|Compute|reserved",
		"SomethingNew|Usage|Usage-Based|0.01|0.01|0.01|Compute|-")
	for _, name := range []string{"line item type that idlewatt does not know", "no effective cost in this dataset"} {
		if got := found(out, name); len(got) != 1 || !strings.HasPrefix(got[0], "1 ") {
			t.Errorf("%s: %v in %v", name, got, out.Defects)
		}
	}
}
