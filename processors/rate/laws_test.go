package rate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
)

// fleet is a random inventory of ten days: runs that follow each other, polls, and a bill of
// some hours and days of it.
func fleet(seed uint64) (runs []run, polls []time.Time, bill []line) {
	r := rand.New(rand.NewPCG(seed, 11))
	for m := range 12 {
		id := fmt.Sprintf("i-%d-%02d", seed, m)
		kind := []string{"machine", "machine", "storage", "volume", "serverless"}[r.IntN(5)]
		for from := at(1, r.IntN(40), r.IntN(60)).Add(time.Duration(r.IntN(60000)) * time.Millisecond); from.Before(at(10, 0, 0)); {
			to := from.Add(time.Duration(1+r.IntN(60*60*30)) * time.Second)
			x := run{
				resource: id, kind: kind, account: fmt.Sprint("acct-", m%3), gpus: int64(r.IntN(9)), from: from, to: to, received: to, instance: "p5", region: "r",
				rate: decimal.New(r.Int64N(1_000_000_000), -int32(r.IntN(18))).Truncate(18).String(), step: []uint32{0, 0, 1, 60, 3600}[r.IntN(5)],
				tags: map[string]string{"project": fmt.Sprint("p", m%4), "a": "b", "c": "d"},
			}
			if from = to.Add(time.Duration(r.IntN(5)) * time.Hour); from.After(at(10, 0, 0)) {
				x.to = time.Time{} // still running
			}
			runs = append(runs, x)
		}
	}
	for h := range 240 {
		if r.IntN(3) > 0 {
			polls = append(polls, at(1, h, r.IntN(60)))
		}
	}
	for _, x := range runs {
		for range 3 {
			l := line{resource: x.resource, account: x.account, start: at(1+r.IntN(10), r.IntN(24), 0), cost: "1", storage: x.kind == "storage" || x.kind == "volume"}
			if r.IntN(3) == 0 {
				l.start = l.start.Truncate(24 * time.Hour)
				l.end = l.start.Add(24 * time.Hour)
			}
			bill = append(bill, l)
		}
	}
	return runs, polls, bill
}

// digest is everything that people see of estimates.
const digest = `SELECT toString(tuple(* EXCEPT (x_Load, x_Delivery, x_Row))) AS t FROM idlewatt.charges WHERE x_Dataset = 'estimate'
	UNION ALL SELECT toString(tuple(*)) AS t FROM idlewatt.estimates`

// TestLaws: on random fleets the hours of a run add up to its time at its rate; no hour of a
// resource is both billed and estimated; and neither the order of facts, nor telling them
// twice, nor computing in between changes anything.
func TestLaws(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		runs, polls, bill := fleet(seed)
		w := newWorld(t)
		w.runs(runs...)
		w.poll("inv", polls...)
		w.once()
		w.conserved(runs, polls)
		w.bill("payer/cur/2026-10", "1", bill...)
		w.once()
		if both := w.lines(`SELECT concat(assumeNotNull(e.ResourceId), ' ', toString(e.ChargePeriodStart)) FROM
			(SELECT ResourceId, ServiceCategory, ChargePeriodStart, toDateTime64(toStartOfHour(ChargePeriodStart), 3, 'UTC') AS Hour FROM idlewatt.charges WHERE x_ChargeStatus = 'estimated') AS e
			INNER JOIN (SELECT ResourceId, ServiceCategory, ChargePeriodStart, ChargePeriodEnd FROM idlewatt.charges WHERE x_ChargeStatus != 'estimated') AS b
			ON b.ResourceId = e.ResourceId AND b.ServiceCategory = e.ServiceCategory WHERE b.ChargePeriodStart < e.Hour + INTERVAL 1 HOUR AND b.ChargePeriodEnd > e.Hour`); len(both) > 0 {
			t.Errorf("seed %d: %d hours are billed and estimated, the first: %s", seed, len(both), both[0])
		}
		if n := w.once(); n != 0 {
			t.Errorf("seed %d: nothing changed, and %d were written again", seed, n)
		}
		again := newWorld(t)
		r := rand.New(rand.NewPCG(seed, 5))
		r.Shuffle(len(polls), func(i, j int) { polls[i], polls[j] = polls[j], polls[i] })
		again.bill("payer/cur/2026-10", "1", bill...)
		again.poll("inv", polls[:len(polls)/2]...)
		again.runs(runs[len(runs)/2:]...)
		again.once()
		for _, x := range runs { // first as if it ran on, then as it was
			early := x
			early.to, early.received = time.Time{}, x.from
			again.runs(early)
		}
		again.once()
		again.poll("inv", polls...)
		r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		again.runs(runs...)
		again.runs(runs[:3]...)
		again.fresh()
		again.once()
		first, shuffled := w.lines(digest), again.lines(digest)
		if len(first) != len(shuffled) {
			t.Errorf("seed %d: %d rows in order, %d shuffled", seed, len(first), len(shuffled))
		}
		for what, pair := range map[string][2][]string{"only in order": {first, shuffled}, "only shuffled": {shuffled, first}} {
			for _, l := range pair[0] {
				if !slices.Contains(pair[1], l) {
					t.Errorf("seed %d: %s: %s", seed, what, l)
					break
				}
			}
		}
	}
}

// conserved compares every run's sum with a computation in whole milliseconds.
func (w *world) conserved(runs []run, polls []time.Time) {
	w.t.Helper()
	var last time.Time
	for _, p := range polls {
		if p.After(last) {
			last = p
		}
	}
	got := map[string]string{}
	for _, l := range w.lines("SELECT concat(ResourceId, '|', toString(toUnixTimestamp64Milli(RunStart)), '=', toString(sum(Cost)), ' ', toString(sum(Hours))) FROM idlewatt.estimates GROUP BY ResourceId, RunStart") {
		for i := range l {
			if l[i] == '=' {
				got[l[:i]] = l[i+1:]
				break
			}
		}
	}
	for _, x := range runs {
		end := x.to
		if end.IsZero() {
			end = last
		}
		ms := end.Sub(x.from).Milliseconds()
		if step := int64(x.step) * 1000; step > 0 {
			ms = (ms + step - 1) / step * step
		}
		at := func(rate string) string {
			whole := decimal.RequireFromString(rate).Mul(decimal.NewFromInt(ms))
			return whole.DivRound(decimal.NewFromInt(3_600_000), 60).RoundBank(18).String()
		}
		want := ""
		if end.After(x.from) {
			want = at(x.rate) + " " + at("1")
		}
		if key := fmt.Sprintf("%s|%d", x.resource, x.from.UnixMilli()); got[key] != want {
			w.t.Errorf("%s from %s to %s at %s, step %d: %q, want %q", x.resource, x.from, end, x.rate, x.step, got[key], want)
		}
	}
}

// TestCrashesHeal: whatever step fails, the next pass ends where it should, and until then
// people see what they saw before.
func TestCrashesHeal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(run{resource: "i-1", rate: "1", from: at(7, 0, 0)})
	w.poll("inv", at(7, 4, 0))
	w.once()
	const sum = "SELECT toString(sum(BilledCost)) FROM idlewatt.charges"
	for hour, breaks := range map[int]string{5: "estimate_commits", 6: "commits"} {
		w.poll("inv", at(7, hour, 0))
		before := w.lines(sum)
		if breaks == "commits" {
			w.p.Dimensions = func(context.Context, uint64, uint64) error { return errors.New("killed") }
		} else {
			must(t, w.db.Exec(w.ctx, "ALTER TABLE idlewatt_store.estimate_commits ADD CONSTRAINT broken CHECK 0"))
		}
		if _, err := w.p.Once(w.ctx); err == nil {
			t.Fatalf("%s: no error", breaks)
		}
		if d := cmp.Diff(before, w.lines(sum)); d != "" {
			t.Errorf("%s: half a pass shows (-before +after):\n%s", breaks, d)
		}
		if breaks != "commits" {
			must(t, w.db.Exec(w.ctx, "ALTER TABLE idlewatt_store.estimate_commits DROP CONSTRAINT broken"))
		}
		w.fresh()
		w.once()
		w.want(sum, fmt.Sprint(hour))
	}
}

// TestPatience: a poll alone waits, another fact does not.
func TestPatience(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.now = at(7, 4, 0)
	w.runs(run{resource: "i-1", rate: "1", from: at(7, 0, 0)})
	w.poll("inv", at(7, 4, 0))
	pass := func() int {
		n, err := w.p.pass(w.ctx, at(6, 0, 0), 5*time.Minute)
		must(t, err)
		return n
	}
	if n := pass(); n != 2 {
		t.Errorf("%d were written for a new day, want 2", n)
	}
	w.poll("inv", at(7, 4, 1))
	w.now = at(7, 4, 1)
	if n := pass(); n != 0 {
		t.Errorf("a poll alone did not wait: %d", n)
	}
	w.runs(run{resource: "i-2", rate: "1", from: at(7, 4, 1)})
	w.poll("inv", at(7, 4, 2))
	w.now = at(7, 4, 2)
	if n := pass(); n != 2 {
		t.Errorf("a new run waited: %d", n)
	}
	w.poll("inv", at(7, 4, 3))
	w.now = at(7, 4, 8)
	if n := pass(); n != 2 {
		t.Errorf("a poll waits for ever: %d", n)
	}
	w.want("SELECT toString(max(ChargePeriodEnd)) FROM idlewatt.charges", "2026-10-07 04:03:00.000")
	// A pass over the last days leaves the others as they are, but a bill moves any day.
	w.runs(run{resource: "i-0", rate: "1", from: at(1, 0, 0), to: at(1, 2, 0)})
	w.once()
	w.runs(run{resource: "i-3", rate: "1", from: at(7, 0, 0), to: at(7, 1, 0)})
	if n := pass(); n != 2 {
		t.Errorf("%d were written for a day, want 2", n)
	}
	w.bill("payer/cur/2026-10", "1", line{resource: "i-0", cost: "9", start: at(1, 0, 0)})
	if n := pass(); n != 1 {
		t.Errorf("%d were written for a bill of an earlier day, want 1", n)
	}
	w.want("SELECT concat(ResourceId, ' ', x_ChargeStatus, ' ', toString(sum(BilledCost))) FROM idlewatt.charges GROUP BY ALL ORDER BY 1",
		"i-0 billed_open 9", "i-0 estimated 1", "i-1 estimated 4.05", "i-2 estimated 0.033333333333333333", "i-3 estimated 1")
}

// TestSweep: of superseded estimates nothing stays but what is shown.
func TestSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(run{resource: "i-1", rate: "1", from: at(7, 0, 0)})
	w.poll("inv", at(7, 4, 0))
	w.once()
	w.poll("inv", at(7, 5, 0))
	w.once()
	must(t, w.p.Sweep(w.ctx)) // all is young
	w.want("SELECT toString(uniqExact(Load)) FROM idlewatt_store.estimates", "2")
	// Two hours later: what a load's number says of its age is all that the sweeper asks.
	must(t, w.p.sweep(w.ctx, w.now.AddDate(10, 0, 0)))
	w.want("SELECT toString(uniqExact(Load)) FROM idlewatt_store.estimates", "1")
	w.want("SELECT toString(count()) FROM idlewatt_store.estimate_commits", "1")
	w.want("SELECT toString(sum(Cost)) FROM idlewatt.estimates", "5")
}
