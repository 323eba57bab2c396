package attribute

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
)

// parts lists live allocation rows as text: kind, owner or job, GPU-hours, effective cost.
const parts = `SELECT concat(x_AllocationKind, ' ', if(JobId = '', Owner, JobId), ' ', toString(x_GpuHours), ' h ', ifNull(toString(EffectiveCost), 'null'))
	FROM idlewatt.allocations WHERE ResourceId = ? ORDER BY ChargePeriodStart, x_AllocationKind, JobId, Owner, GpuUuid, GpuInstance`

func TestSharesOfOneGPU(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Handed cases 024 (time-slicing, 3.00 an hour) and 027 (MIG, 3.50 an hour).
	w.bill("s/cur/2026-10", "1", []charge{
		hourly("ex-1", 7, 10, 1, "3.00"), hourly("ex-2", 7, 10, 1, "3.00"), hourly("ex-3", 7, 10, 1, "3.00"), hourly("ex-8", 9, 10, 1, "3.50"),
	})
	var seen []interval
	for _, pod := range []string{"w-1", "w-2", "w-3"} {
		seen = append(seen, interval{uuid: "GPU-ex-1", node: "ex-1", start: at(7, 10, 0), end: at(7, 11, 0), num: 1, den: 3, state: "busy", owner: pod})
	}
	for _, pod := range []string{"f-1", "f-2", "f-3", "f-4"} {
		seen = append(seen, interval{uuid: "GPU-ex-2", node: "ex-2", start: at(7, 10, 0), end: at(7, 11, 0), num: 1, den: 4, state: "busy", owner: pod})
	}
	seen = append(seen, interval{uuid: "GPU-ex-3", node: "ex-3", start: at(7, 10, 0), end: at(7, 11, 0), state: "busy", owner: "whole"})
	for i, slices := range []uint32{1, 2, 3} {
		state := []string{"busy", "busy", "allocated_idle"}[i]
		seen = append(seen, interval{uuid: "GPU-ex-8", instance: fmt.Sprint(i + 3), node: "ex-8", start: at(9, 10, 0), end: at(9, 11, 0), num: slices, den: 7, state: state, owner: fmt.Sprint(slices, "g")})
	}
	seen = append(seen, interval{uuid: "GPU-ex-8", node: "ex-8", start: at(9, 10, 0), end: at(9, 11, 0), num: 1, den: 7, state: "unallocated_idle"})
	w.observe(seen)
	w.once()
	want := map[string][]string{
		"ex-1": {"job_used w-1 0.333333333333333334 h 1", "job_used w-2 0.333333333333333333 h 1", "job_used w-3 0.333333333333333333 h 1"},
		"ex-2": {"job_used f-1 0.25 h 0.75", "job_used f-2 0.25 h 0.75", "job_used f-3 0.25 h 0.75", "job_used f-4 0.25 h 0.75"},
		"ex-3": {"job_used whole 1 h 3"},
		"ex-8": {"job_idle 3g 0.428571428571428572 h 1.5", "job_used 1g 0.142857142857142857 h 0.5", "job_used 2g 0.285714285714285714 h 1", "unallocated_idle  0.142857142857142857 h 0.5"},
	}
	for resource, rows := range want {
		if d := cmp.Diff(rows, w.lines(parts, resource)); d != "" {
			t.Errorf("%s (-want +got):\n%s", resource, d)
		}
	}
}

func TestUnobservedScaledAndScheduled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bill("s/cur/2026-10", "1", []charge{
		hourly("quiet", 7, 10, 2, "10"),   // no telemetry at all
		hourly("half", 7, 10, 2, "10"),    // one of two GPUs seen for half an hour
		hourly("more", 7, 10, 1, "10"),    // two GPUs seen where one was billed
		hourly("planned", 7, 10, 8, "16"), // no telemetry, but a scheduler's record
	})
	w.observe([]interval{
		{uuid: "h-0", node: "half", start: at(7, 10, 0), end: at(7, 10, 30), state: "busy", job: "1"},
		{uuid: "m-0", node: "more", start: at(7, 10, 0), end: at(7, 11, 0), state: "busy", job: "1"},
		{uuid: "m-1", node: "more", start: at(7, 10, 0), end: at(7, 11, 0), state: "unallocated_idle"},
	})
	must(t, w.db.Exec(w.ctx, `INSERT INTO idlewatt_store.job_events (Event, Type, At, Scheduler, JobId, Nodes, GpuCount, Start, End, Evidence)
		VALUES ('e', 'job.started', '2026-10-07 10:00:00', 'slurm', '77', ['planned'], 4, '2026-10-07 10:15:00', '2026-10-07 10:45:00', 'scheduler')`))
	w.once()
	for resource, want := range map[string][]string{
		"quiet":   {"unobserved  2 h 10"},
		"half":    {"job_used 1 0.5 h 2.5", "unobserved  1.5 h 7.5"},
		"more":    {"job_used 1 0.5 h 5", "unallocated_idle  0.5 h 5"},
		"planned": {"job_used 77 2 h 4", "unobserved  6 h 12"},
	} {
		if d := cmp.Diff(want, w.lines(parts, resource)); d != "" {
			t.Errorf("%s (-want +got):\n%s", resource, d)
		}
	}
	if got := w.text("SELECT x_AllocationQuality FROM idlewatt.allocations WHERE ResourceId = 'more' LIMIT 1"); got != "scaled" {
		t.Errorf("more was seen than billed: quality is %q, want scaled", got)
	}
	if got := w.text("SELECT x_AllocationQuality FROM idlewatt.allocations WHERE JobId = '77'"); got != "scheduled" {
		t.Errorf("a scheduler's record alone: quality is %q, want scheduled", got)
	}
}

func TestLateFactsMoveOnlyTheirDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bill("s/cur/2026-10", "1", []charge{hourly("n", 7, 10, 1, "4"), hourly("n", 8, 10, 1, "4")})
	if n := w.once(); n != 2 {
		t.Fatalf("%d days were computed, want 2", n)
	}
	if n := w.once(); n != 0 {
		t.Fatalf("nothing changed, and %d days were computed again", n)
	}
	w.observe([]interval{{uuid: "u", node: "n", start: at(8, 10, 0), end: at(8, 11, 0), state: "busy", job: "9"}})
	w.once()
	if d := cmp.Diff([]string{"unobserved  1 h 4", "job_used 9 1 h 4"}, w.lines(parts, "n")); d != "" {
		t.Errorf("after a late interval (-want +got):\n%s", d)
	}
	// A restated bill replaces the parts of the old one, at once and whole.
	w.bill("s/cur/2026-10", "2", []charge{hourly("n", 8, 10, 1, "6")})
	if got := w.text("SELECT sum(EffectiveCost) FROM idlewatt.allocations"); got != "6" {
		t.Errorf("right after the restatement the parts add up to %s, want 6", got)
	}
	w.once()
	if d := cmp.Diff([]string{"job_used 9 1 h 6"}, w.lines(parts, "n")); d != "" {
		t.Errorf("after the restatement (-want +got):\n%s", d)
	}
	if got := w.text("SELECT max(abs(Difference)) FROM idlewatt.reconciliation"); got != "0" {
		t.Errorf("books are open by %s", got)
	}
}

func TestLedgerTellsEveryChangeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bill("s/cur/2026-10", "1", []charge{hourly("n", 7, 10, 1, "4")})
	w.observe([]interval{{uuid: "u", node: "n", start: at(7, 10, 0), end: at(7, 11, 0), state: "busy", job: "9"}})
	w.once()
	w.once()
	s, err := w.js.Stream(w.ctx, "LEDGER")
	must(t, err)
	if n := s.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("the ledger holds %d events, want 1 job_cost", n)
	}
}

// book is a random month: machines, their charges and what their GPUs did.
func book(seed uint64) ([]charge, []interval) {
	r := rand.New(rand.NewPCG(seed, 7))
	amount := func() decimal.Decimal {
		d := decimal.New(r.Int64N(1_000_000_000_000), -int32(r.IntN(18)))
		if r.IntN(6) == 0 {
			d = d.Neg()
		}
		return d.Truncate(18)
	}
	states := []string{"busy", "busy_unowned", "allocated_idle", "unallocated_idle", "unavailable", "unknown"}
	var charges []charge
	var seen []interval
	for m := range 5 {
		node := fmt.Sprintf("node-%d-%d", seed, m)
		gpus := []int64{1, 2, 8}[r.IntN(3)]
		for range 8 {
			start := at(1+r.IntN(20), r.IntN(23), []int{0, 0, 20}[r.IntN(3)])
			end := start.Add([]time.Duration{time.Hour, time.Hour, 25 * time.Minute, 24 * time.Hour, 9 * 24 * time.Hour}[r.IntN(5)])
			hours := decimal.NewFromInt(int64(end.Sub(start)/time.Minute)).DivRound(decimal.NewFromInt(60), 18).Mul(decimal.NewFromInt(int64(1+r.IntN(100)))).DivRound(decimal.NewFromInt(100), 18)
			c := charge{
				resource: node, start: start, end: end, gpus: decimal.NewFromInt(gpus), gpuHours: hours.Mul(decimal.NewFromInt(gpus)), billed: amount(),
			}
			if r.IntN(5) > 0 {
				c.effective, c.list, c.quantity = ptr(amount()), ptr(amount()), ptr(hours)
			}
			charges = append(charges, c)
		}
		for g := range gpus {
			for day := 1; day < 22; day += 1 + r.IntN(3) {
				for t := at(day, r.IntN(20), 0); t.Day() == day; {
					next := t.Truncate(time.Hour).Add(time.Hour)
					if cut := t.Add(time.Duration(1+r.IntN(90)) * time.Minute); cut.Before(next) {
						next = cut
					}
					i := interval{uuid: gpu(node, int(g)), node: node, start: t, end: next, state: states[r.IntN(len(states))]}
					if i.state == "busy" || i.state == "allocated_idle" {
						i.job = fmt.Sprint(r.IntN(9))
					}
					seen = append(seen, i)
					if t = next; r.IntN(5) == 0 {
						t = t.Add(2 * time.Hour)
					}
				}
			}
		}
	}
	return charges, seen
}

// TestConservation: on random books, every charge's costs and quantities each sum over its
// parts exactly, no GPU time is negative, and the order of the input changes nothing.
func TestConservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const conserved = `
SELECT concat('row ', toString(c.x_Row), ': ', toString((c.BilledCost, a.b, c.EffectiveCost, a.e, c.ListCost, a.l, c.ConsumedQuantity, a.q, c.x_GpuHours, a.h)))
FROM idlewatt_store.gpu_charges AS c
LEFT JOIN (SELECT ChargeLoad, ChargeRow, sum(BilledCost) AS b, sum(EffectiveCost) AS e, sum(ListCost) AS l, sum(ConsumedQuantity) AS q, sum(GpuHours) AS h
    FROM idlewatt_store.live_allocations GROUP BY ChargeLoad, ChargeRow) AS a ON a.ChargeLoad = c.x_Load AND a.ChargeRow = c.x_Row
WHERE toString((c.BilledCost, c.EffectiveCost, c.ListCost, c.ConsumedQuantity, c.x_GpuHours)) != toString((a.b, a.e, a.l, a.q, a.h))`
	for seed := range uint64(2) {
		charges, seen := book(seed)
		scope := fmt.Sprintf("s%d/cur/2026-10", seed)
		w.observe(seen)
		w.bill(scope, "1", charges)
		w.once()
		if bad := w.lines(conserved); len(bad) > 0 {
			t.Errorf("seed %d: %d charges are not the sum of their parts, the first: %s", seed, len(bad), bad[0])
		}
		if n := w.text("SELECT count() FROM idlewatt_store.live_allocations WHERE GpuHours < 0"); n != "0" {
			t.Errorf("seed %d: %s parts have negative GPU time", seed, n)
		}
		if n := w.text("SELECT count() FROM idlewatt.allocations WHERE x_AllocationQuality = 'pending'"); n != "0" {
			t.Errorf("seed %d: %s charges have no parts", seed, n)
		}
		digest := fmt.Sprintf(`SELECT concat(toString(groupBitXor(sipHash64(toString((Resource, s, Hour, x_AllocationKind, JobId, Uuid, IntervalStart, BilledCost, EffectiveCost, GpuHours))))), ' ', toString(count()))
			FROM idlewatt_store.live_allocations AS a INNER JOIN (SELECT x_Load, x_Row, ResourceId AS Resource, (ChargePeriodStart, ChargePeriodEnd, BilledCost) AS s
				FROM idlewatt_store.gpu_charges WHERE x_Scope = '%s') AS c ON c.x_Load = a.ChargeLoad AND c.x_Row = a.ChargeRow`, scope)
		before := w.lines(digest)
		rand.New(rand.NewPCG(seed, 9)).Shuffle(len(charges), func(i, j int) { charges[i], charges[j] = charges[j], charges[i] })
		slices.Reverse(seen)
		w.observe(seen)
		w.bill(scope, "2", charges)
		w.once()
		if d := cmp.Diff(before, w.lines(digest)); d != "" {
			t.Errorf("seed %d: another order of the input gives other parts (-first +shuffled):\n%s", seed, d)
		}
	}
}

// TestOracle compares the SQL with a slow and obvious computation for hourly charges.
func TestOracle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := rand.New(rand.NewPCG(3, 3))
	var charges []charge
	var seen []interval
	for m := range 12 {
		node := fmt.Sprintf("o-%02d", m)
		charges = append(charges, hourly(node, 5, 10, 4, decimal.New(r.Int64N(1e12), -9).String()))
		for g := range 4 {
			for minute := 0; minute < 60; {
				length := 1 + r.IntN(40)
				end := min(60, minute+length)
				if r.IntN(4) > 0 {
					state := []string{"busy", "allocated_idle", "unallocated_idle"}[r.IntN(3)]
					seen = append(seen, interval{uuid: gpu(node, g), node: node, start: at(5, 10, minute), end: at(5, 10, 0).Add(time.Duration(end) * time.Minute), state: state})
				}
				minute = end
			}
		}
	}
	w.observe(seen)
	w.bill("o/cur/2026-10", "1", charges)
	w.once()
	for _, c := range charges {
		want := oracle(c, seen)
		got := w.lines(`SELECT toString(EffectiveCost) FROM idlewatt.allocations WHERE ResourceId = ? ORDER BY isNull(IntervalStart), GpuUuid, IntervalStart`, c.resource)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s of %s (-oracle +sql):\n%s", c.resource, c.billed, d)
		}
	}
}

// oracle divides an hourly charge over its intervals, in order of GPU and start, and what
// was not seen, in whole units of 10^-18: largest remainders first, ties by order.
func oracle(c charge, seen []interval) []string {
	type part struct {
		key    string
		weight int64
	}
	var ps []part
	owed := c.gpuHours.IntPart() * 3600
	for _, i := range seen {
		if i.node == c.resource {
			ps = append(ps, part{i.uuid + i.start.Format(time.RFC3339), int64(i.end.Sub(i.start).Seconds())})
			owed -= ps[len(ps)-1].weight
		}
	}
	sort.Slice(ps, func(a, b int) bool { return ps[a].key < ps[b].key })
	if owed > 0 {
		ps = append(ps, part{"~", owed})
	}
	total := big.NewInt(c.gpuHours.IntPart() * 3600)
	units := c.effective.Shift(18).BigInt()
	left := new(big.Int).Set(units)
	type share struct {
		at        int
		low, rest *big.Int
	}
	var shares []share
	for i, p := range ps {
		low, rest := new(big.Int).DivMod(new(big.Int).Mul(units, big.NewInt(p.weight)), total, new(big.Int))
		shares = append(shares, share{i, low, rest})
		left.Sub(left, low)
	}
	sort.SliceStable(shares, func(a, b int) bool { return shares[a].rest.Cmp(shares[b].rest) > 0 })
	out := make([]string, len(ps))
	for i, s := range shares {
		if big.NewInt(int64(i)).Cmp(left) < 0 {
			s.low.Add(s.low, big.NewInt(1))
		}
		out[s.at] = decimal.NewFromBigInt(s.low, -18).String()
	}
	return out
}
