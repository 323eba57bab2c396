package attribute

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEstimatesAreSplitAndSaidToBe: a charge of dataset estimate goes to jobs and idle time like
// any other, and everything that shows it says so.
func TestEstimatesAreSplitAndSaidToBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	load := w.bill("inv/estimate/2026-10-07", "1", []charge{hourly("n", 7, 10, 2, "8")})
	must(t, w.db.Exec(w.ctx, "ALTER TABLE idlewatt_store.charges UPDATE x_Dataset = 'estimate', x_Object = 'estimate' WHERE x_Load = ? SETTINGS mutations_sync = 1", load))
	w.bill("s/cur/2026-10", "1", []charge{hourly("m", 7, 10, 2, "6")})
	var seen []interval
	for _, node := range []string{"n", "m"} {
		seen = append(seen, interval{uuid: node + "-0", node: node, start: at(7, 10, 0), end: at(7, 11, 0), state: "busy", job: node},
			interval{uuid: node + "-1", node: node, start: at(7, 10, 0), end: at(7, 11, 0), state: "unallocated_idle"})
	}
	w.observe(seen)
	w.once()
	for sql, want := range map[string][]string{
		"SELECT concat(JobId, ' ', toString(EffectiveCost), ' ', toString(EstimatedCost)) FROM idlewatt.job_costs ORDER BY JobId":                              {"m 3 0", "n 4 4"},
		"SELECT concat(Node, ' ', toString(Cost), ' ', x_ChargeStatus) FROM idlewatt.idle_waste ORDER BY Node":                                                 {"m 3 billed", "n 4 estimated"},
		"SELECT concat(toString(BilledCost), ' ', toString(EffectiveCost), ' ', toString(EstimatedCost)) FROM idlewatt.project_costs":                          {"6 14 8"},
		"SELECT concat(toString(BilledCost), ' ', toString(AllocatedCost), ' ', toString(Difference), ' ', Status) FROM idlewatt.reconciliation":               {"6 6 0 no_invoice"},
		"SELECT concat(x_AllocationKind, ' ', toString(EffectiveCost)) FROM idlewatt.allocations WHERE x_ChargeStatus = 'estimated' ORDER BY EffectiveCost, 1": {"job_used 4", "unallocated_idle 4"},
	} {
		if d := cmp.Diff(want, w.lines(sql)); d != "" {
			t.Errorf("%s (-want +got):\n%s", sql, d)
		}
	}
}
