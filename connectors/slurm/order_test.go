package slurm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// run is one attempt of a made-up cluster, in minutes.
type run struct {
	id, attempt, start, end int
	node, outcome           string
}

// row is what the store makes of an attempt's facts: per field the newest one, nodes together.
func rows(events []event.Event) []string {
	jobs := map[event.JobID]*event.Job{}
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b event.Event) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
	for _, e := range sorted {
		var f event.Job
		if e.Decode(&f) != nil || !strings.HasPrefix(e.Type, "job.") {
			continue
		}
		j := jobs[f.JobID]
		if j == nil {
			j = &event.Job{JobID: f.JobID}
			jobs[f.JobID] = j
		}
		if f.Start != nil {
			j.Start = f.Start
		}
		if f.End != nil {
			j.End = f.End
		}
		if f.Outcome != "" {
			j.Outcome = f.Outcome
		}
		j.Nodes = slices.Compact(slices.Sorted(slices.Values(append(j.Nodes, f.Nodes...))))
	}
	var out []string
	for id, j := range jobs {
		end := "runs"
		if j.End != nil {
			end = fmt.Sprint(int(j.End.Sub(night).Minutes()))
		}
		out = append(out, fmt.Sprint(id.ID, "/", id.Attempt, " ", int(j.Start.Sub(night).Minutes()), " ", end, " ", j.Nodes, " ", j.Outcome))
	}
	slices.Sort(out)
	return out
}

// TestPollsGiveTheSameRows: however often, however late and with whatever crashes a cluster is
// polled, the same jobs stand in the end.
func TestPollsGiveTheSameRows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counted := rapid.Bool().Draw(t, "restarts are counted")
		var runs []run
		for id := 1; id <= rapid.IntRange(1, 4).Draw(t, "jobs"); id++ {
			at := rapid.IntRange(0, 300).Draw(t, "first")
			for n := range rapid.IntRange(1, 3).Draw(t, "attempts") {
				end := at + rapid.IntRange(1, 200).Draw(t, "length")
				runs = append(runs, run{id, n, at, end, fmt.Sprint("n", id, n), rapid.SampledFrom([]string{"FAILED", "NODE_FAIL", "PREEMPTED"}).Draw(t, "outcome")})
				at = end + rapid.IntRange(1, 60).Draw(t, "wait")
			}
		}
		s := &scripted{}
		now := 0
		show := func() {
			s.records = nil
			for _, r := range runs {
				if r.start > now {
					continue
				}
				state, end := "RUNNING", time.Time{}
				if r.end <= now {
					state, end = r.outcome, night.Add(time.Duration(r.end)*time.Minute)
				}
				e := entry(int64(r.id), r.node, state, night.Add(time.Duration(r.start)*time.Minute), end)
				if counted {
					e["restart_cnt"] = r.attempt
				}
				s.records = append(s.records, e)
			}
		}
		c := newConnector("hpc", *defaults())
		c.slurm, c.now = s, func() time.Time { return night.Add(time.Duration(now) * time.Minute) }
		var cur connectors.Cursor
		var all []event.Event
		polls := rapid.SliceOfN(rapid.IntRange(1, 240), 1, 8).Draw(t, "pauses")
		for i, pause := range append(polls, 1000) {
			now += pause
			show()
			k := taker{}
			if i < len(polls) && rapid.Bool().Draw(t, "crash") {
				k.refuse = rapid.IntRange(1, 6).Draw(t, "after")
			}
			next, err := c.Pull(context.Background(), cur, &k)
			all = append(all, k.events...)
			switch {
			case err == nil:
				cur = next
			case len(k.kept) > 0:
				cur = k.kept[len(k.kept)-1]
			}
		}
		var want []string
		for _, r := range runs {
			want = append(want, fmt.Sprint(r.id, "/", r.attempt, " ", r.start, " ", r.end, " [", r.node, "] ", r.outcome))
		}
		slices.Sort(want)
		if diff := gocmp.Diff(want, rows(all)); diff != "" {
			t.Fatal(diff)
		}
	})
}
