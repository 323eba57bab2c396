package normalize

import (
	"fmt"
	"testing"
)

// TestEstimatesLeaveNoTrace: superseded estimates go after an hour, with their parts and
// commits; a bill's load before the live one stays.
func TestEstimatesLeaveNoTrace(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	for dataset, scope := range map[string]string{"estimate": "s/estimate/2026-10-07", "cur": "s/cur/2026-10"} {
		for version := range 3 {
			load := loads.Next()
			must(t, r.db.Exec(r.Context(), `INSERT INTO idlewatt_store.charges (x_Load, x_Scope, x_Source, x_Dataset, BillingPeriodStart, ChargeCategory, BilledCost)
				VALUES (?, ?, 's', ?, '2026-10-01', 'Usage', 1)`, load, scope, dataset))
			must(t, r.db.Exec(r.Context(), `INSERT INTO idlewatt_store.commits (Scope, Load, Version, ContentHash, Source, Dataset, CommittedAt)
				VALUES (?, ?, ?, ?, 's', ?, now64(6) - INTERVAL 2 HOUR)`, scope, load, fmt.Sprint(version), fmt.Sprint(version), dataset))
			must(t, r.db.Exec(r.Context(), "INSERT INTO idlewatt_store.allocations (Load, ChargeLoad, Day) VALUES (1, ?, '2026-10-07')", load))
			must(t, r.db.Exec(r.Context(), "INSERT INTO idlewatt_store.allocation_commits (Load, ChargeLoad, Day) VALUES (1, ?, '2026-10-07')", load))
		}
	}
	must(t, r.p.Sweep(r.Context()))
	r.want("SELECT toString(x_Dataset), toString(count()) FROM idlewatt_store.charges GROUP BY x_Dataset ORDER BY x_Dataset", nil, "cur|2", "estimate|1")
	r.want("SELECT toString(Dataset), toString(count()), max(Version) FROM idlewatt_store.commits GROUP BY Dataset ORDER BY Dataset", nil, "cur|3|2", "estimate|1|2")
	r.want("SELECT (SELECT toString(count()) FROM idlewatt_store.allocations), (SELECT toString(count()) FROM idlewatt_store.allocation_commits)", nil, "3|3")
}
