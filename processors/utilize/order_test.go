package utilize

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/schema/event"
)

const everyInterval = `SELECT concat(Uuid, ' ', toString(Start), ' ', toString(End), ' ', State, ' ', Cause, ' ', Owner, ' ', LastJobId, ' ', toString(round(Coverage, 3)), ' ',
	ifNull(toString(round(MeanPowerW, 2)), '-')) FROM idlewatt_store.live_intervals ORDER BY Uuid, Start, Owner, State`

// TestArrivalOrderDoesNotMatter feeds the same scrapes, failed ones, jobs and words of nodes in
// order, and shuffled with repetitions and derivations in between: the intervals are the same.
func TestArrivalOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 7))
		facts := r.facts(random)
		want := r.feed(facts, func(int) bool { return false })
		if len(want) == 0 {
			t.Fatal("no intervals")
		}
		shuffled := append(facts[:len(facts):len(facts)], facts[:len(facts)/4]...)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		got := r.feed(shuffled, func(i int) bool { return i%(len(shuffled)/3) == 0 })
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("seed %d (-in order +shuffled):\n%s", seed, d)
		}
	}
}

// feed stores facts in the given order, derives where asked and at the end, and lists what is live.
func (r rig) feed(facts []func(), derive func(int) bool) []string {
	r.Helper()
	for _, table := range []string{"gpu_samples", "scrapes", "gpu_intervals", "interval_commits", "job_events", "nodes"} {
		r.exec("TRUNCATE TABLE idlewatt_store." + table)
	}
	for i, f := range facts {
		f()
		if derive(i) {
			r.derive()
		}
	}
	r.derive()
	if s := r.derive(); s.Derived != 0 {
		r.Errorf("derived again: %+v", s)
	}
	return r.lines(everyInterval)
}

// facts are a night of two nodes in pieces of some scrapes, with gaps, failures, jobs and a drain.
func (r rig) facts(random *rand.Rand) []func() {
	from := t0().Add(21 * time.Hour)
	var out []func()
	for _, node := range []string{"n1", "n2"} {
		busyFrom, busyTo := random.IntN(200), random.IntN(350)
		scrapes := scrapesOf(node, 1, from, 360, func(m, _ int, g *event.GPUSample) { working(g, busyFrom <= m && m < busyTo) })
		gap, long := random.IntN(300), 3+random.IntN(40)
		var batch []runtime.Delivered
		for m, s := range scrapes {
			switch {
			case gap <= m && m < gap+long/2:
				continue // nobody asked
			case gap <= m && m < gap+long:
				s = event.GPUSamples{Target: s.Target, Node: node, At: s.At, ReceivedAt: s.At, Error: "connection refused"}
			}
			e, err := event.New(event.TypeGPUSamples, "test", s.Target+s.At.Format(time.RFC3339Nano), "", s.At, s)
			if err != nil {
				r.Fatal(err)
			}
			if batch = append(batch, runtime.Delivered{Event: e}); len(batch) == 20 || m == len(scrapes)-1 {
				whole := batch
				out = append(out, func() {
					for _, err := range r.p.handle(r.Context(), whole) {
						if err != nil {
							r.Fatal(err)
						}
					}
				})
				batch = nil
			}
		}
		drained := from.Add(time.Duration(random.IntN(300)) * time.Minute)
		start := from.Add(time.Duration(random.IntN(200)) * time.Minute)
		out = append(out, func() {
			r.exec("INSERT INTO idlewatt_store.nodes (Source, Cluster, Name, State, At, Event) VALUES ('s', 'c', ?, 'drained', ?, ?)", node, drained, node+"d")
		}, func() {
			r.exec("INSERT INTO idlewatt_store.nodes (Source, Cluster, Name, State, At, Event) VALUES ('s', 'c', ?, 'available', ?, ?)", node, drained.Add(time.Hour), node+"a")
		}, func() {
			r.exec(`INSERT INTO idlewatt_store.job_events (Event, Type, At, Scheduler, JobId, Nodes, GpuCount, Start, Evidence) VALUES (?, 'job.started', ?, 'slurm', ?, [?], 1, ?, 'scheduler')`,
				"b"+node, start, "7"+node, node, start)
		}, func() {
			r.exec(`INSERT INTO idlewatt_store.job_events (Event, Type, At, Scheduler, JobId, Nodes, GpuCount, End, Outcome, Evidence) VALUES (?, 'job.finished', ?, 'slurm', ?, [?], 1, ?, 'COMPLETED', 'scheduler')`,
				"e"+node, start.Add(90*time.Minute), "7"+node, node, start.Add(90*time.Minute))
		})
	}
	return out
}

// TestGapNeverJoinsIdleStretches: what nobody saw ends a stretch, however short it is.
func TestGapNeverJoinsIdleStretches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from := t0().Add(8 * time.Hour)
	idle := func(_, _ int, g *event.GPUSample) { working(g, false) }
	for _, gap := range []int{2, 30} {
		node := fmt.Sprint("n", gap)
		all := scrapesOf(node, 1, from, 100, idle)
		r.publish(append(all[:50:50], all[50+gap:]...)...)
	}
	r.drain()
	r.derive()
	want := []string{"n2 0 50 50", "n2 52 100 48", "n30 0 50 50", "n30 80 100 20"}
	got := r.lines(`SELECT concat(Node, ' ', toString(intDiv(dateDiff('second', toDateTime64('2026-09-01 08:00:00', 3, 'UTC'), IntervalStart), 60)), ' ',
		toString(intDiv(dateDiff('second', toDateTime64('2026-09-01 08:00:00', 3, 'UTC'), IntervalEnd), 60)), ' ', toString(round(toFloat64(GpuHours) * 60))) FROM idlewatt.idle_waste ORDER BY Node, IntervalStart`)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
