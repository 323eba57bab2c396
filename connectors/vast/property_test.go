package vast

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/schema/event"
)

// Whatever the order and repetition of pulls, with crashes in the middle of them: covered days
// have the exact money, and runs cover each poll that saw a contract running once, and no
// poll that did not.
func TestPullsInAnyOrderTellTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		rentals, size := drawRentals(r), rapid.IntRange(1, 4).Draw(r, "page")
		var plan []step
		for range rapid.IntRange(2, 12).Draw(r, "pulls") {
			plan = append(plan, step{
				late:    time.Duration(rapid.IntRange(0, 40).Draw(r, "late")) * time.Hour,
				failAt:  rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 5, 8}).Draw(r, "fails at"),
				restart: rapid.Bool().Draw(r, "restart"),
				after:   time.Duration(rapid.SampledFrom([]int{1, 2, 7, 90, 1500}).Draw(r, "minutes")) * time.Minute,
			})
		}
		synctest.Test(t, func(t *testing.T) {
			f, k := world(t, rentals...), &sink{}
			f.pageSize = size
			walk(t, r, f, k, plan)
			checkMoney(t, r, f, k)
			checkRuns(t, r, f, k)
		})
	})
}

// step is one pull and the pause after it.
type step struct {
	late, after time.Duration
	failAt      int
	restart     bool
}

func walk(t *testing.T, r *rapid.T, f *fake, k *sink, plan []step) {
	t.Helper()
	source := func() *connector { return f.source(t, func(c *Config) { c.WindowDays = 3 }) }
	c := source()
	for _, s := range append(plan, step{after: 2 * time.Hour}, step{}) {
		f.late, k.failAt = s.late, s.failAt
		if err := k.pull(t.Context(), c); err != nil && !errors.Is(err, errRefused) {
			r.Errorf("pull: %v", err)
		}
		if s.restart {
			c = source()
		}
		time.Sleep(s.after)
	}
}

func drawRentals(r *rapid.T) []rental {
	var out []rental
	for id := range rapid.IntRange(1, 5).Draw(r, "contracts") {
		from := at("05T10:30").Add(time.Duration(rapid.IntRange(-4000, 4000).Draw(r, "from")) * time.Minute)
		c := small(id+1, from, from.Add(time.Duration(rapid.IntRange(1, 5000).Draw(r, "minutes"))*time.Minute))
		c.ran = nil
		for p := from; p.Before(c.exists.to); {
			on := p.Add(time.Duration(rapid.IntRange(1, 1000).Draw(r, "on")) * time.Minute)
			if on.After(c.exists.to) {
				on = c.exists.to
			}
			c.ran = append(c.ran, span{p, on})
			p = on.Add(time.Duration(rapid.IntRange(1, 1000).Draw(r, "off")) * time.Minute)
		}
		c.gpuRate = decimal.New(int64(rapid.IntRange(1, 5000).Draw(r, "rate")), -3).String()
		out = append(out, c)
	}
	return out
}

// checkMoney wants the last three complete days to be what the provider has now, to the mill.
func checkMoney(t *testing.T, r *rapid.T, f *fake, k *sink) {
	t.Helper()
	live := k.live(t)
	today := f.now().Truncate(24 * time.Hour)
	for d := today.AddDate(0, 0, -3); d.Before(today); d = d.AddDate(0, 0, 1) {
		day := d.Format(time.DateOnly)
		rows, ok := live[day]
		if _, want := f.rows(d); !ok || !sum(rows, nil).Equal(want) {
			r.Errorf("%s: %s, want %s", day, sum(rows, nil), want)
		}
	}
	if _, ok := live[today.Format(time.DateOnly)]; ok {
		r.Error("today was delivered")
	}
}

func checkRuns(t *testing.T, r *rapid.T, f *fake, k *sink) {
	t.Helper()
	runs, polled := k.runs(t), map[time.Time]bool{}
	for _, p := range of[event.Poll](t, k, event.TypeInventoryPoll) {
		polled[p.At] = true
	}
	for at := range polled {
		for _, c := range f.rentals {
			for kind, want := range map[string]bool{event.KindMachine: c.exists.holds(at) && c.running(at), event.KindStorage: c.exists.holds(at)} {
				in := ""
				for key, run := range runs {
					if run.Kind == kind && run.ResourceID == fmt.Sprint("instance-", c.id) && !at.Before(run.SeenFrom) && (run.SeenTo == nil || !at.After(*run.SeenTo)) {
						in += key + "; "
					}
				}
				if want != (in != "") {
					r.Errorf("%s of %d at %v: want %v, in runs %q", kind, c.id, at, want, in)
				}
			}
		}
	}
	for a, x := range runs {
		for b, y := range runs {
			if a != b && x.Kind == y.Kind && x.ResourceID == y.ResourceID && x.SeenFrom.Before(y.SeenFrom) && (x.SeenTo == nil || x.SeenTo.After(y.SeenFrom)) {
				r.Errorf("two runs at a time: %s until %v, and %s", a, x.SeenTo, b)
			}
		}
	}
}
