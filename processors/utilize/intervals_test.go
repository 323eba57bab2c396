package utilize

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/schema/event"
)

func t0() time.Time { return time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC) }

// drawSamples draws a device's life: work, rest, drop-outs, cut scrapes, changing owners.
func drawSamples(t *rapid.T, instances bool) map[string][]Sample {
	names := []string{""}
	if instances {
		names = rapid.SampledFrom([][]string{{"1"}, {"1", "2"}, {"1", "2", "3"}, {"", "1", "2"}}).Draw(t, "instances")
	}
	out := map[string][]Sample{}
	for _, n := range names {
		at := t0().Add(22 * time.Hour).Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "start")) * time.Minute)
		energy := 1e9
		for range rapid.IntRange(1, 12).Draw(t, "stretches") {
			kind := rapid.SampledFrom([]string{"work", "idle", "idle", "idle", "nothing", "gap", "cut", "hot"}).Draw(t, "kind")
			owner := rapid.SampledFrom([]string{"", "a", "b", "a,b"}).Draw(t, "owner")
			for range rapid.IntRange(1, 40).Draw(t, "length") {
				s := UnknownSample(at)
				s.Event, s.Node, s.Model = fmt.Sprint(n, at.Unix()), "n1", "H100"
				if n != "" {
					s.Profile = rapid.SampledFrom([]string{"1g.10gb", "2g.20gb", "3g.40gb"}).Filter(func(p string) bool {
						return slicesOf(p) <= 3
					}).Draw(t, "profile"+n)
				}
				if owner != "" {
					s.Owners = &Owners{Kind: "pod", Names: strings.Split(owner, ","), Confidence: "high"}
				}
				watts := 70.0
				switch kind {
				case "work":
					s.Engine, watts = 0.9, 600
				case "idle":
					s.Engine = 0
				case "cut":
					s.Engine, s.Complete = 0, false
				case "hot":
					s.Engine, watts = 0, 600
				}
				s.PowerW, s.EnergyJ = watts, energy
				energy += watts * 60
				if kind != "gap" {
					out[n] = append(out[n], s)
				}
				at = at.Add(time.Duration(rapid.SampledFrom([]int{60, 60, 60, 60, 59, 61, 75}).Draw(t, "step")) * time.Second)
			}
		}
		if len(out[n]) == 0 {
			delete(out, n)
		}
	}
	return out
}

func drawWorld(t *rapid.T) World {
	var jobs []Job
	for i := range rapid.IntRange(0, 4).Draw(t, "jobs") {
		start := t0().Add(time.Duration(rapid.IntRange(21*60, 30*60).Draw(t, "start")) * time.Minute)
		j := Job{JobID: event.JobID{Scheduler: "slurm", ID: fmt.Sprint("j", i)}, Nodes: []string{"n1"}, Start: start}
		if rapid.Bool().Draw(t, "ends") {
			j.End = start.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "runs")) * time.Minute)
		}
		if rapid.Bool().Draw(t, "partial") {
			j.GPUCount = 2
		}
		jobs = append(jobs, j)
	}
	w := world()
	w.Jobs = NewJobs(jobs, nil)
	w.Like = func(string) Like { return Like{FloorW: 65, CeilingW: 700} }
	return w
}

func twoDays(w World, c Card) []Row { return w.Intervals(c, t0(), t0().Add(48*time.Hour)) }

func TestIntervalsDoNotDependOnArrivalOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, devices := drawWorld(t), drawSamples(t, rapid.Bool().Draw(t, "mig"))
		want := twoDays(w, Card{"G", devices})
		mixed := map[string][]Sample{}
		for n, s := range devices {
			s = append(slices.Clone(s), s[:len(s)/2]...) // some come twice
			rand.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
			mixed[n] = s
		}
		if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(twoDays(w, Card{"G", mixed}))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// covers sums the shares of all rows at every instant and returns the stretches by total.
func covers(rows []Row) map[string]time.Duration {
	var edges []time.Time
	for _, r := range rows {
		edges = append(edges, r.Start, r.End)
	}
	slices.SortFunc(edges, time.Time.Compare)
	edges = slices.CompactFunc(edges, time.Time.Equal)
	out := map[string]time.Duration{}
	for i := 1; i < len(edges); i++ {
		total := 0.0
		for _, r := range rows {
			if !r.Start.After(edges[i-1]) && !r.End.Before(edges[i]) {
				total += float64(r.ShareNum) / float64(r.ShareDen)
			}
		}
		out[fmt.Sprintf("%.6f", total)] += edges[i].Sub(edges[i-1])
	}
	return out
}

func TestIntervalsCoverTheDeviceExactlyOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, devices := drawWorld(t), drawSamples(t, false)
		if len(devices) == 0 {
			return
		}
		rows := twoDays(w, Card{"G", devices})
		s := prepare(devices[""], w.Policy)
		first, last := time.UnixMilli(s[0].At), time.UnixMilli(s[len(s)-1].At+s[len(s)-1].Interval)
		want := map[string]time.Duration{"1.000000": last.Sub(first)}
		if diff := cmp.Diff(want, covers(rows)); diff != "" {
			t.Fatal(diff)
		}
		for _, r := range rows {
			if !r.End.After(r.Start) || r.Start.Truncate(time.Hour) != r.End.Add(-1).Truncate(time.Hour) {
				t.Fatalf("row is not within an hour: %v", r)
			}
			if r.Coverage < 0 || r.Coverage > 1.0000001 {
				t.Fatalf("coverage %v", r.Coverage)
			}
		}
	})
}

func TestSharesOfACarvedCardNeverExceedIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, devices := drawWorld(t), drawSamples(t, true)
		for total, d := range covers(twoDays(w, Card{"G", devices})) {
			if total > "1.000000" {
				t.Fatalf("%v at a total share of %s", d, total)
			}
		}
	})
}

// TestIdleRowsHaveEvidence: every instant of an idle row follows a sample that shows no work,
// closely; and the stretch it belongs to is as long as the window.
func TestIdleRowsHaveEvidence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, devices := drawWorld(t), drawSamples(t, false)
		rows := twoDays(w, Card{"G", devices})
		s := prepare(devices[""], w.Policy)
		for _, r := range rows {
			if !idleState(r.State) {
				continue
			}
			for at := r.Start; at.Before(r.End); at = at.Add(10 * time.Second) {
				i, _ := slices.BinarySearchFunc(s, at.UnixMilli()+1, func(a Sample, b int64) int { return int(a.At - b) })
				if i == 0 {
					t.Fatalf("idle at %v before any sample", at)
				}
				x := s[i-1]
				if x.Engine != 0 || !x.Complete || x.PowerW > 200 || float64(at.UnixMilli()-x.At) > standing*float64(x.Interval) {
					t.Fatalf("idle at %v after sample %+v", at, x)
				}
			}
			if length := stretch(rows, r); length < w.Policy.IdleWindow {
				t.Fatalf("idle for %v only: %v", length, r)
			}
		}
	})
}

// stretch is how long an owner's idle rows last without a break around one of them.
func stretch(rows []Row, r Row) time.Duration {
	start, end := r.Start, r.End
	for range rows {
		for _, x := range rows {
			if x.State == r.State && x.Owner == r.Owner {
				if x.End.Equal(start) {
					start = x.Start
				}
				if x.Start.Equal(end) {
					end = x.End
				}
			}
		}
	}
	return end.Sub(start)
}

// TestDaysAreDerivedAlone: a day with its margins gives the same rows as the whole.
func TestDaysAreDerivedAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, devices := drawWorld(t), drawSamples(t, false)
		for i := range devices[""] {
			devices[""][i].Interval = 60_000
		}
		midnight := t0().Add(24 * time.Hour)
		var days []Row
		for _, from := range []time.Time{t0(), midnight} {
			near := slices.DeleteFunc(slices.Clone(devices[""]), func(s Sample) bool {
				return s.At < from.Add(-margin).UnixMilli() || s.At >= from.Add(24*time.Hour+margin).UnixMilli()
			})
			if len(near) > 0 {
				days = append(days, w.Intervals(Card{"G", map[string][]Sample{"": near}}, from, from.Add(24*time.Hour))...)
			}
		}
		strip := func(rows []Row) []string {
			var out []string
			for _, r := range rows {
				if r.Cause != CauseGap { // a gap over midnight may be longer than the margin
					out = append(out, fmt.Sprint(r.Start, r.End, r.State, r.Cause, r.Owner, r.ShareDen))
				}
			}
			return out
		}
		if len(devices) == 0 {
			return
		}
		if diff := cmp.Diff(strip(twoDays(w, Card{"G", devices})), strip(days)); diff != "" {
			t.Fatal(diff)
		}
	})
}
