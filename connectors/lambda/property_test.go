package lambda

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/schema/event"
)

// step is one pull and the pause after it.
type step struct {
	late, after time.Duration
	failAt      int
	restart     bool
}

// Whatever the order and repetition of pulls, with crashes in the middle of them: no two runs
// of a machine at a time, what is sure of a run was billed, and what was billed lies within
// the bounds of the runs.
func TestPullsInAnyOrderTellTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		machines := drawMachines(r)
		size := rapid.IntRange(1, 4).Draw(r, "page")
		var plan []step
		for range rapid.IntRange(2, 14).Draw(r, "pulls") {
			plan = append(plan, step{
				late:    time.Duration(rapid.IntRange(0, 20).Draw(r, "late")) * time.Minute,
				failAt:  rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 4, 5, 7}).Draw(r, "fails at"),
				restart: rapid.Bool().Draw(r, "restart"),
				after:   time.Duration(rapid.SampledFrom([]int{1, 1, 2, 7, 60, 200}).Draw(r, "minutes")) * time.Minute,
			})
		}
		synctest.Test(t, func(t *testing.T) {
			f, k := world(t, at("10:00:30")), &sink{}
			f.machines, f.pageSize = machines, size
			c := f.source(t, nil)
			for _, s := range append(plan, step{after: time.Minute}, step{}) {
				f.late, k.failAt = s.late, s.failAt
				if err := k.pull(t.Context(), c); err != nil && !errors.Is(err, errRefused) {
					r.Errorf("pull: %v", err)
				}
				if s.restart {
					c = f.source(t, nil)
				}
				time.Sleep(s.after)
			}
			check(t, r, f, k)
		})
	})
}

func drawMachines(r *rapid.T) []machine {
	var out []machine
	for id := range rapid.IntRange(1, 5).Draw(r, "machines") {
		minutes := func(what string, from, to int) time.Duration {
			return time.Duration(rapid.IntRange(from, to).Draw(r, what)) * time.Minute
		}
		m := machine{id: fmt.Sprint("m", id), kind: "gpu_1x_a10", cents: 75, launched: at("10:00:00").Add(minutes("launched", -300, 300))}
		m.healthy = m.launched.Add(minutes("boots", 1, 12))
		if rapid.Bool().Draw(r, "ends") {
			m.terminated = m.launched.Add(minutes("lives", 1, 600))
		}
		if rapid.Bool().Draw(r, "breaks") {
			from := m.healthy.Add(minutes("runs", 1, 200))
			m.breaks = [][2]time.Time{{from, from.Add(minutes("off", 1, 60))}}
		}
		out = append(out, m)
	}
	return out
}

func check(t *testing.T, r *rapid.T, f *fake, k *sink) {
	t.Helper()
	polls := of[event.Poll](t, k, event.TypeInventoryPoll)
	if len(polls) == 0 {
		return
	}
	first, last := polls[0].At, polls[len(polls)-1].At
	runs := k.runs(t)
	for a, x := range runs {
		for b, y := range runs {
			if a != b && x.ResourceID == y.ResourceID && x.SeenFrom.Before(y.SeenFrom) && (x.SeenTo == nil || x.SeenTo.After(y.SeenFrom)) {
				r.Errorf("two runs at a time: %s until %v, and %s", a, x.SeenTo, b)
			}
		}
		if x.StartedAfter != nil && !x.StartedAfter.Before(x.SeenFrom) || x.EndedBefore != nil && x.EndedBefore.Before(*x.SeenTo) {
			r.Errorf("bounds of %s: %+v", a, x)
		}
	}
	for _, m := range f.machines {
		for _, p := range polls {
			if in := holding(runs, m.id, p.At, false); m.billed(p.At) != (in == 1) {
				r.Errorf("%s at the poll of %v: billed %v, in %d runs", m.id, p.At, m.billed(p.At), in)
			}
		}
		for at := first; at.Before(last); at = at.Add(time.Minute) {
			if m.billed(at) && holding(runs, m.id, at, true) == 0 && (len(m.breaks) == 0 || seen(polls, m, at)) {
				r.Errorf("%s was billed at %v, which is in no run, not even at its widest", m.id, at)
			}
		}
	}
}

// seen reports whether a poll saw the stretch between breaks that a moment lies in: one that
// none saw, of a machine that is there before and after, leaves no trace anywhere.
func seen(polls []event.Poll, m machine, at time.Time) bool {
	second := !at.Before(m.breaks[0][1])
	for _, p := range polls {
		if m.billed(p.At) && !p.At.Before(m.breaks[0][1]) == second {
			return true
		}
	}
	return false
}

// holding counts the runs that a moment lies in: in what is sure, or in the widest bounds.
func holding(runs map[string]event.Instance, id string, at time.Time, widest bool) int {
	n := 0
	for _, x := range runs {
		from, to := x.SeenFrom, x.SeenTo
		if widest && x.StartedAfter != nil {
			from = *x.StartedAfter
		}
		if widest && x.EndedBefore != nil {
			to = x.EndedBefore
		}
		if x.ResourceID == id && !at.Before(from) && (to == nil || !at.After(*to)) {
			n++
		}
	}
	return n
}
