package utilize

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/schema/event"
)

// TestOutOfUseIsNobodysWaste: what stands still on a node that the scheduler took out, or on a
// GPU that failed, is kept apart; work stays work, and a held cordoned GPU stays its holder's.
func TestOutOfUseIsNobodysWaste(t *testing.T) {
	t.Parallel()
	held := Job{Nodes: []string{"n1"}, Start: t0()}
	held.Scheduler, held.ID = "slurm", "7"
	for name, c := range map[string]struct {
		state  string
		jobs   []Job
		engine float64
		want   string
	}{
		"available":            {event.NodeAvailable, nil, 0, "unallocated_idle no_owner"},
		"cordoned, empty":      {event.NodeCordoned, nil, 0, "unavailable cordoned"},
		"cordoned, at work":    {event.NodeCordoned, []Job{held}, 0.9, "busy "},
		"cordoned, held":       {event.NodeCordoned, []Job{held}, 0, "allocated_idle held_no_process"},
		"drained":              {event.NodeDrained, nil, 0, "unavailable drained"},
		"drained, at work":     {event.NodeDrained, nil, 0.9, "busy_unowned "},
		"maintenance":          {event.NodeMaintenance, nil, 0, "unavailable maintenance"},
		"failed":               {event.NodeFailed, nil, 0, "unavailable failed"},
		"failed, held":         {event.NodeFailed, []Job{held}, 0, "unavailable failed"},
		"failed, but at work":  {event.NodeFailed, []Job{held}, 0.9, "busy "},
		"available, held":      {event.NodeAvailable, []Job{held}, 0, "allocated_idle held_no_process"},
		"nothing is told of n": {"", nil, 0, "unallocated_idle no_owner"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := UnknownSample(t0())
			s.Engine, s.FBUsedMiB, s.Node = c.engine, 4, "n1"
			w := world()
			var machines []Machine
			if c.state != "" {
				machines = []Machine{{kindNode + "n1", []string{"n1"}, t0().UnixMilli(), open, c.state}}
			}
			w.Jobs = NewJobs(c.jobs, machines)
			for _, r := range w.Intervals(Card{"G", map[string][]Sample{"": everyMinute(t0(), s)}}, t0(), t0().Add(time.Hour)) {
				if got := r.State + " " + r.Cause; got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			}
		})
	}
}

// TestFatalXIDIsAFaultUntilWork: the number is the last one and stays; only a new one that ends
// a GPU's work is a fault.
func TestFatalXIDIsAFaultUntilWork(t *testing.T) {
	t.Parallel()
	s := UnknownSample(t0())
	s.Engine = 0
	for name, c := range map[string]struct {
		xid  func(minute int) int64
		work func(minute int) bool
		want map[string]time.Duration
	}{
		"new and fatal":      {func(m int) int64 { return since(m, 20, 79) }, never, map[string]time.Duration{StateUnallocatedIdle: 20 * time.Minute, StateUnavailable: 40 * time.Minute}},
		"new, not fatal":     {func(m int) int64 { return since(m, 20, 31) }, never, map[string]time.Duration{StateUnallocatedIdle: time.Hour}},
		"there all the time": {func(int) int64 { return 79 }, never, map[string]time.Duration{StateUnallocatedIdle: time.Hour}},
		"work comes back": {func(m int) int64 { return since(m, 20, 79) }, func(m int) bool { return m == 40 }, map[string]time.Duration{
			StateUnallocatedIdle: 39 * time.Minute, StateUnavailable: 20 * time.Minute, StateBusyUnowned: time.Minute,
		}},
	} {
		samples := everyMinute(t0(), s)[:60]
		for m := range samples {
			if samples[m].XID = c.xid(m); c.work(m) {
				samples[m].Engine = 0.9
			}
		}
		got := map[string]time.Duration{}
		for _, r := range world().Intervals(Card{"G", map[string][]Sample{"": samples}}, t0(), t0().Add(time.Hour)) {
			got[r.State] += r.End.Sub(r.Start)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func never(int) bool { return false }

func since(minute, from int, xid int64) int64 {
	if minute < from {
		return 0
	}
	return xid
}

// TestLateWordOfANode changes the days that it is about and no others; a fault of the day
// before is remembered; a name belongs to a machine only while it runs.
func TestLateWordOfANode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	idle := func(_, _ int, g *event.GPUSample) { working(g, false) }
	first := t0().Add(8 * time.Hour)
	for _, from := range []time.Time{first, first.Add(24 * time.Hour), first.Add(48 * time.Hour)} {
		r.publish(scrapesOf("n1", 1, from, 60, idle)...)
	}
	r.publish(scrapesOf("n2", 1, first, 60, func(m, _ int, g *event.GPUSample) {
		working(g, false)
		g.XID = ptr(since(m, 30, 79))
	})...)
	r.publish(scrapesOf("n2", 1, first.Add(24*time.Hour), 60, func(_, _ int, g *event.GPUSample) {
		working(g, false)
		g.XID = ptr(int64(79))
	})...)
	r.drain()
	r.derive()
	r.exec("INSERT INTO idlewatt_store.nodes (Source, Cluster, Name, State, At) VALUES ('hpc', 'c', 'n1', 'drained', ?), ('hpc', 'c', 'n1', 'available', ?)",
		first.Add(24*time.Hour), first.Add(30*time.Hour))
	if s := r.derive(); s.Derived == 0 || s.Derived > 3 {
		t.Errorf("derived again: %+v", s)
	}
	want := []string{
		"1 GPU-n1-0 unallocated_idle no_owner 60", "1 GPU-n2-0 unallocated_idle no_owner 30", "1 GPU-n2-0 unavailable xid 30",
		"2 GPU-n1-0 unavailable drained 60", "2 GPU-n2-0 unavailable xid 60", "3 GPU-n1-0 unallocated_idle no_owner 60",
	}
	got := r.lines(`SELECT concat(toString(toDayOfMonth(Day)), ' ', Uuid, ' ', State, ' ', Cause, ' ', toString(sum(dateDiff('second', Start, End)) / 60))
		FROM idlewatt_store.live_intervals GROUP BY Day, Uuid, State, Cause ORDER BY Day, Uuid, State`)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if n := r.lines("SELECT toString(count()) FROM idlewatt.idle_waste WHERE State = 'unavailable'"); n[0] != "0" {
		t.Errorf("%s stretches out of use are waste", n[0])
	}
}
