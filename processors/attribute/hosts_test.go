package attribute

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// machine tells of one run of a machine; no end is an open one.
func (w *world) machine(resource string, from time.Time, to *time.Time, hosts ...string) {
	w.t.Helper()
	must(w.t, w.db.Exec(w.ctx, "INSERT INTO idlewatt_store.instances (ResourceId, Kind, Source, Provider, Hosts, SeenFrom, SeenTo, Evidence) VALUES (?, 'machine', 'aws', 'aws', ?, ?, ?, 'inventory')",
		resource, hosts, from, to))
}

// hours are a machine's hourly charges of one GPU on 7 October.
func hours(resource string, from, to int, cost string) (out []charge) {
	for h := from; h < to; h++ {
		out = append(out, hourly(resource, 7, h, 1, cost))
	}
	return out
}

// seenOn is idle time of a GPU on 7 October, cut at the hour.
func seenOn(uuid, node string, from, to int) (out []interval) {
	for h := from; h < to; h++ {
		out = append(out, interval{uuid: uuid, node: node, start: at(7, h, 0), end: at(7, h+1, 0), state: "unallocated_idle"})
	}
	return out
}

const (
	moneyByGPU = `SELECT concat(GpuUuid, ' ', ResourceId, ' ', toString(toHour(min(ChargePeriodStart))), '-', toString(toHour(max(ChargePeriodEnd))), ' ', toString(sum(EffectiveCost)))
		FROM idlewatt.allocations GROUP BY GpuUuid, ResourceId ORDER BY ResourceId, GpuUuid`
	wasteByGPU = `SELECT concat(GpuUuid, ' ', ResourceId, ' ', toString(sum(GpuHours)), ' ', ifNull(toString(sum(Cost)), 'null')) FROM idlewatt.idle_waste
		GROUP BY GpuUuid, ResourceId ORDER BY ResourceId, GpuUuid`
	unmatched = `SELECT concat(Kind, ' ', Name, ' ', toString(GpuHours), ' ', toString(toHour(FirstSeen)), '-', toString(toHour(LastSeen)), ' ', ifNull(toString(Cost), 'null'), ' ',
		arrayStringConcat(Candidates, '+')) FROM idlewatt.unmatched_hosts ORDER BY Kind, Name, FirstSeen`
)

const shared = "ip-10-0-7-11.ec2.internal"

// TestNameThatTwoMachinesHadOneAfterTheOther: clouds use private names again. Each machine has
// its own time, by the inventory or by the bill alone; between them the name is nobody's.
func TestNameThatTwoMachinesHadOneAfterTheOther(t *testing.T) {
	t.Parallel()
	noon := at(7, 12, 0)
	for name, tell := range map[string]func(w *world){
		"inventory": func(w *world) {
			w.machine("i-1", at(7, 8, 0), &noon, shared)
			w.machine("i-2", at(7, 13, 0), nil, shared)
		},
		"scheduler": func(w *world) {
			for resource, from := range map[string]time.Time{"i-1": at(7, 8, 0), "i-2": at(7, 13, 0)} {
				must(w.t, w.db.Exec(w.ctx, "INSERT INTO idlewatt_store.nodes (Source, Cluster, Name, ResourceId, State, At) VALUES ('k', 'c', ?, ?, 'available', ?)", shared, resource, from))
			}
			w.machine("i-1", at(7, 8, 0), &noon, "i-1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.bill("s/cur/2026-10", "1", append(hours("i-1", 8, 12, "3"), hours("i-2", 13, 16, "5")...))
			w.observe(append(seenOn("GPU-a", shared, 8, 13), seenOn("GPU-b", shared, 13, 17)...))
			tell(w)
			w.once()
			if d := cmp.Diff([]string{"GPU-a i-1 8-12 12", "GPU-b i-2 13-16 15"}, w.lines(moneyByGPU)); d != "" {
				t.Errorf("money (-want +got):\n%s", d)
			}
			// Hour 16 is not billed yet: its cost is estimated by the machine's own rate.
			if d := cmp.Diff([]string{"GPU-a  1 null", "GPU-a i-1 4 12", "GPU-b i-2 4 20"}, w.lines(wasteByGPU)); d != "" {
				t.Errorf("waste (-want +got):\n%s", d)
			}
			if d := cmp.Diff([]string{"host without resource " + shared + " 1 12-13 null "}, w.lines(unmatched)); d != "" {
				t.Errorf("unmatched (-want +got):\n%s", d)
			}
			if n := w.once(); n != 0 {
				t.Errorf("nothing changed, and %d days were computed again", n)
			}
		})
	}
}

// TestNameThatTwoMachinesHaveAtOnce leads to neither, while both have it; that is told.
func TestNameThatTwoMachinesHaveAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bill("s/cur/2026-10", "1", append(hours("i-1", 8, 16, "3"), hours("i-2", 12, 16, "5")...))
	w.observe(append(seenOn("GPU-a", shared, 8, 16), seenOn("GPU-b", shared, 12, 16)...))
	w.machine("i-1", at(7, 8, 0), nil, shared)
	w.machine("i-2", at(7, 12, 0), nil, shared)
	w.once()
	want := []string{" i-1 12-16 12", "GPU-a i-1 8-12 12", " i-2 12-16 20"}
	if d := cmp.Diff(want, w.lines(moneyByGPU)); d != "" {
		t.Errorf("money (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{
		"ambiguous host " + shared + " 8 12-16 null i-1+i-2", "resource without telemetry i-2 4 12-16 20 ",
	}, w.lines(unmatched)); d != "" {
		t.Errorf("unmatched (-want +got):\n%s", d)
	}
	// The other turns out to have ended before: one fact settles that day.
	noon := at(7, 12, 0)
	w.machine("i-1", at(7, 8, 0), &noon, shared)
	if n := w.once(); n != 1 {
		t.Errorf("%d days were computed again, want 1", n)
	}
}

// TestNameByTheBillAlone: without an inventory, a machine has its names while it is billed, and
// one that is billed up to the bill's edge goes on.
func TestNameByTheBillAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := hours("i-1", 8, 12, "3"), hours("i-2", 13, 16, "5")
	w.bill("s/cur/2026-10", "1", append(first, second...))
	must(t, w.db.Exec(w.ctx, "ALTER TABLE idlewatt_store.charges UPDATE x_Node = ? WHERE 1 SETTINGS mutations_sync = 1", shared))
	w.observe(append(seenOn("GPU-a", shared, 7, 13), seenOn("GPU-b", shared, 13, 18)...))
	w.once()
	if d := cmp.Diff([]string{"GPU-a i-1 8-12 12", "GPU-b i-2 13-16 15"}, w.lines(moneyByGPU)); d != "" {
		t.Errorf("money (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"GPU-a  1 null", "GPU-a i-1 5 15", "GPU-b i-2 5 25"}, w.lines(wasteByGPU)); d != "" {
		t.Errorf("waste (-want +got):\n%s", d)
	}
}
