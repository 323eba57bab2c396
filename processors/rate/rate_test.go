package rate

import (
	"testing"
)

// shown lists what stands among the charges.
const shown = `SELECT concat(ifNull(ResourceId, '-'), ' ', ifNull(ResourceType, '-'), ' ', formatDateTime(ChargePeriodStart, '%d %H:%i'), ' ', formatDateTime(ChargePeriodEnd, '%H:%i'), ' ',
	toString(BilledCost), ' ', BillingCurrency, ' ', x_ChargeStatus) FROM idlewatt.charges WHERE x_Dataset = 'estimate' ORDER BY ChargePeriodStart, ResourceId, ResourceType`

func TestProvidersRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(run{resource: "pod-1", rate: "2.5", gpu: "H100", gpus: 2, from: at(7, 10, 15), to: at(7, 12, 30), pricing: "secure"})
	if n := w.once(); n != 2 {
		t.Errorf("%d were written, want a day of estimates and one of charges", n)
	}
	w.want(shown, "pod-1 machine 07 10:15 11:00 1.875 USD estimated", "pod-1 machine 07 11:00 12:00 2.5 USD estimated", "pod-1 machine 07 12:00 12:30 1.25 USD estimated")
	if n := w.once(); n != 0 {
		t.Errorf("nothing changed, and %d were written again", n)
	}
}
