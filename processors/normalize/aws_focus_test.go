package normalize

import (
	"fmt"
	"testing"

	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// The sample month as AWS's FOCUS export tells it: the sums of the CUR, and the machines' hours
// without those of licences, EBS optimisation, EMR and used reservations.
func TestFocusOfAWSSaysTheSameAsItsCUR(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	d := r.delivery(event.BillingDelivery{Format: "aws-focus"}, r.put("aws_focus.csv", readBill(t, "aws_focus.csv")))
	r.load(Live, d)
	src := []any{d.Source}
	r.want(`SELECT toString(sum(BilledCost)), toString(sum(EffectiveCost)) FROM idlewatt.charges WHERE x_Source = ?`, src, "27213.2735|63.4735")
	r.want(`SELECT ifNull(x_InstanceType, '-') AS type, ifNull(x_PricingModel, '-') AS model, ifNull(x_GpuModel, '-'), toString(sum(x_GpuHours)), toString(sum(EffectiveCost))
		FROM idlewatt.charges WHERE x_Source = ? AND x_GpuHours > 0 GROUP BY ALL ORDER BY type, model`, src,
		"g6e.12xlarge|reserved|L40S|4|6.2", "p4d.24xlarge|spot|A100|8|11.57", "p5.48xlarge|capacity_reservation|H100|8|49.536",
		"p5.48xlarge|on_demand|H100|8|49.536", "p5.48xlarge|savings_plan|H100|8|34.6752")
	r.want(`SELECT ifNull(x_Team, '-') AS team, toString(sum(EffectiveCost)) FROM idlewatt.charges
		WHERE x_Source = ? AND ChargeCategory IN ('Usage', 'Purchase') GROUP BY team ORDER BY team`, src,
		"-|66.3108", "chat-api|6.2", "pretrain|86.7327", "research|11.57")
	r.want(`SELECT DISTINCT x_FocusVersion, ServiceProviderName FROM idlewatt.charges WHERE x_Source = ?`, src, "1.2|AWS")
	r.want(`SELECT Tags['aws:eks:cluster-name'], Tags['team'] FROM idlewatt.charges WHERE x_Source = ? AND x_Row = 1`, src, "train-a|pretrain")
}

// The same sums whatever the file is packed in, and whichever way its bytes take.
func TestFocusOfAWSAddsUpInEveryForm(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	for i, v := range r.variants(bill{file: "aws_focus.csv", format: "aws-focus"}) {
		r.p.SharedDisk = !v.streamed
		d := r.delivery(event.BillingDelivery{Source: "payer", Format: "aws-focus", Version: fmt.Sprint(i)}, v.object)
		r.load(Live, d)
		r.sums(d.Source, "17|27213.2735|63.4735|27402.1615")
		r.want(`SELECT toString(sum(x_GpuHours)) FROM idlewatt.charges WHERE x_Source = ?`, []any{d.Source}, "36")
	}
}

// A public FOCUS 1.0 sample has no columns of AWS's own: its EC2 machines are told by their
// resource and the description. Two of its rows are hours of EBS optimisation (Mbps).
func TestFocus10OfAWSHasInstanceTypes(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	d := r.delivery(event.BillingDelivery{Format: "aws-focus"}, r.put("focus10.csv", readBill(t, "focus10_sample_1000.csv")))
	r.load(Live, d)
	r.want(`SELECT toString(countIf(x_InstanceType IS NOT NULL)), toString(countIf(x_InstanceType IS NOT NULL AND NOT startsWith(ResourceId, 'i-'))),
		toString(countIf(x_InstanceType = 'g3.4xlarge') > 0) FROM idlewatt.charges WHERE x_Source = ?`, []any{d.Source}, "26|0|1")
}

func TestFocusOfAWSIsTold(t *testing.T) {
	t.Parallel()
	h := []string{"BilledCost", "ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodStart", "x_ServiceCode", "x_Operation"}
	if f, ok := normalize.Guess(h); !ok || f.Name != "aws-focus" {
		t.Errorf("%s", f.Name)
	}
	if f, ok := normalize.Guess(h[:5]); !ok || f.Name != "focus" {
		t.Errorf("without the operation: %s", f.Name)
	}
}
