package utilize

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/schema/event"
)

func (r rig) node(cluster, name, resource string, at time.Time, hosts ...string) {
	r.Helper()
	r.exec("INSERT INTO idlewatt_store.nodes (Source, Cluster, Name, Hosts, ResourceId, State, At) VALUES ('hpc', ?, ?, ?, ?, 'available', ?)",
		cluster, name, append([]string{}, hosts...), resource, at)
}

// TestHeldAndUnusedIsSeenUnderEveryName: schedulers, inventories and telemetry may call one host
// differently. What a scheduler holds there, and nothing runs on, has its owner; a name that
// two nodes have leads to neither.
func TestHeldAndUnusedIsSeenUnderEveryName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from := t0().Add(8 * time.Hour)
	idle := func(_, _ int, g *event.GPUSample) { working(g, false) }
	for _, host := range []string{"ip-10-0-1-1", "ip-10-0-1-2", "ip-10-0-1-3", "x9", "10.0.0.9"} {
		r.publish(scrapesOf(host, 2, from, 60, idle)...)
	}
	// By the scheduler's own names for its node.
	r.node("hpc1", "trn-01", "", from, "IP-10-0-1-1", "10.0.1.1")
	r.job("1", []string{"trn-01"}, from, time.Time{}, 2)
	// By the resource id that scheduler and inventory share.
	r.node("hpc1", "trn-02", "i-2", from)
	r.exec("INSERT INTO idlewatt_store.instances (ResourceId, Kind, Provider, Hosts, SeenFrom) VALUES ('i-2', 'machine', 'aws', ['ip-10-0-1-2'], ?)", from)
	r.job("2", []string{"trn-02"}, from, time.Time{}, 2)
	// A pod that holds both GPUs; the exporter says no pod.
	r.exec(`INSERT INTO idlewatt_store.job_events (Event, Type, At, Scheduler, Cluster, JobId, ArrayTask, Namespace, Pods, Nodes, GpuCount, Start, Evidence)
		VALUES ('e', 'job.placed', ?, 'kubernetes', 'prod', 'ml/train', 'worker-0.aaaa0001', 'ml', ['train-worker-0'], ['ip-10-0-1-3'], 2, ?, 'scheduler')`, from, from)
	// One host name, or one private address, of two clusters' nodes.
	r.node("a", "n9", "", from, "x9", "10.0.0.9")
	r.node("b", "m9", "", from, "x9", "10.0.0.9")
	r.job("9", []string{"n9"}, from, time.Time{}, 2)
	r.drain()
	r.derive()
	want := []string{
		"GPU-10.0.0.9-0 08:00-09:00 unallocated_idle no_owner   ",
		"GPU-10.0.0.9-1 08:00-09:00 unallocated_idle no_owner   ",
		"GPU-ip-10-0-1-1-0 08:00-09:00 allocated_idle held_no_process 1 1 ",
		"GPU-ip-10-0-1-1-1 08:00-09:00 allocated_idle held_no_process 1 1 ",
		"GPU-ip-10-0-1-2-0 08:00-09:00 allocated_idle held_no_process 2 2 ",
		"GPU-ip-10-0-1-2-1 08:00-09:00 allocated_idle held_no_process 2 2 ",
		"GPU-ip-10-0-1-3-0 08:00-09:00 allocated_idle held_no_process ml/train ml/train ",
		"GPU-ip-10-0-1-3-1 08:00-09:00 allocated_idle held_no_process ml/train ml/train ",
		"GPU-x9-0 08:00-09:00 unallocated_idle no_owner   ",
		"GPU-x9-1 08:00-09:00 unallocated_idle no_owner   ",
	}
	if diff := cmp.Diff(want, r.lines(liveStates)); diff != "" {
		t.Error(diff)
	}
	// What a scheduler says later of its nodes derives no earlier day again.
	r.node("hpc1", "trn-77", "", from.Add(48*time.Hour), "ip-10-0-7-7")
	r.p.markDirty(map[time.Time]bool{startOfDay(from): true})
	if s := r.derive(); s.Checked == 0 || s.Derived != 0 {
		t.Errorf("derived again: %+v", s)
	}
}

// TestLabelsNameArrayTasksByTheirOwnID: a GPU's label has Slurm's id of the task, people say
// array_task.
func TestLabelsNameArrayTasksByTheirOwnID(t *testing.T) {
	t.Parallel()
	at := t0().UnixMilli()
	task := func(raw, n string) Job {
		j := Job{Raw: raw, Start: t0().Add(-time.Hour)}
		j.Scheduler, j.ID, j.ArrayTask = "slurm", "4900", n
		return j
	}
	x := NewJobs([]Job{task("4901", "1"), task("4902", "2"), task("4900", "3")}, nil)
	for label, want := range map[string]string{"4901": "1", "4902": "2", "4900": "3", "4900_1": "1", "4900_2": "2"} {
		if j, ended := x.named("slurm", label, at, 0); j == nil || ended || j.ArrayTask != want {
			t.Errorf("%s: %+v, want task %s", label, j, want)
		}
	}
	if j, _ := x.named("slurm", "4903", at, 0); j != nil {
		t.Errorf("4903: %+v", j)
	}
}

// TestNamesChangeHands: a name leads to a machine while that has it, and to none while two have it.
func TestNamesChangeHands(t *testing.T) {
	t.Parallel()
	x := NewJobs(nil, []Machine{
		{kindRun + "i-1", []string{"shared", "i-1"}, 0, 100, ""},
		{kindRun + "i-2", []string{"shared", "i-2"}, 80, 200, ""},
		{kindNode + "c\x00n", []string{"n", "i-2"}, 120, 150, event.NodeDrained},
		{kindNode + "c\x00n", []string{"n", "i-2"}, 150, 300, event.NodeAvailable},
	})
	type answer struct {
		names []string
		state string
	}
	for _, at := range []int64{170, 10, 90, 110, 130, 199, 250, 10, 130} { // in no order: answers are remembered
		h := x.hostAt("Shared", at)
		want := map[int64][]string{
			10: {"i-1", "shared"}, 90: {"shared"}, 110: {"i-2", "shared"}, 130: {"i-2", "shared"}, 170: {"i-2", "shared"}, 199: {"i-2", "shared"}, 250: {"shared"},
		}[at]
		if d := cmp.Diff(want, h.names); d != "" {
			t.Errorf("at %d (-want +got):\n%s", at, d)
		}
		if n := x.hostAt("i-2", at); (n.state == event.NodeDrained) != (at >= 120 && at < 150) {
			t.Errorf("at %d: %+v", at, answer{n.names, n.state})
		}
	}
}
