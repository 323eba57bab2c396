package attribute

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
)

// pod is a row of the bill that gives a part of a machine's hour to a pod.
func pod(name, parent string, day, hour int, split, unused string) charge {
	return charge{
		resource: name, parent: parent, start: at(day, hour, 0), end: at(day, hour+1, 0), effective: ptr(decimal.Zero),
		split: ptr(dec(split)), unused: ptr(dec(unused)),
	}
}

// plain is an hour of a machine without GPUs.
func plain(resource string, day, hour int, cost string) charge {
	c := hourly(resource, day, hour, 0, cost)
	c.list = ptr(dec(cost).Mul(decimal.NewFromInt(3)))
	return c
}

const podParts = `SELECT concat(x_AllocationKind, ' ', x_AllocationQuality, ' ', ifNull(AllocatedMethodId, '-'), ' ', ifNull(AllocatedResourceId, '-'), ' ', toString(x_GpuHours), ' h ',
	toString(BilledCost), ' ', ifNull(toString(EffectiveCost), '-')) FROM idlewatt.allocations WHERE ResourceId = ? ORDER BY ChargePeriodStart, ifNull(AllocatedResourceId, '~'), EffectiveCost`

func TestPodsOfTheBillReplaceTheirMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	discounted := hourly("p5", 7, 10, 8, "49.536")
	covered := plain("m6", 7, 11, "0.4") // one hour in two rows: a plan covered a part of it
	covered.billed, covered.quantity = decimal.Zero, ptr(dec("0.25"))
	w.bill("s/cur/2026-10", "1", []charge{
		// The shape of the AWS sample: half of the machine has no split row and stays with it.
		discounted, pod("run-17", "p5", 7, 10, "24.768", "0"),
		// vCPU and memory are rows of their own; what no pod took is theirs by AWS's rule.
		plain("m5", 7, 10, "0.4"), pod("a", "m5", 7, 10, "0.06", "0.03"), pod("a", "m5", 7, 10, "0.04", "0.02"), pod("b", "m5", 7, 10, "0.1", "0"),
		covered, plain("m6", 7, 11, "1.2"), pod("a", "m6", 7, 11, "0.4", "0"),
		plain("m7", 7, 10, "0.3"), pod("a", "m7", 7, 10, "0.2", "0"), pod("b", "m7", 7, 10, "0.4", "0"), // more than there is
		plain("m8", 7, 10, "0.3"), pod("a", "m8", 7, 10, "0", "0"), // nothing to go by
		plain("m9", 7, 10, "0.3"), pod("a", "m9", 7, 11, "0.3", "0"), // another hour
		pod("lost", "nowhere", 7, 10, "5", "0"),
	})
	before := w.text("SELECT sum(EffectiveCost) FROM idlewatt.allocations")
	w.once()
	for resource, want := range map[string][]string{
		"p5":   {"job_used provider aws-split-cost run-17 4 h 24.768 24.768", "unobserved provider aws-split-cost - 4 h 24.768 24.768"},
		"m5":   {"other provider aws-split-cost a 0 h 0.15 0.15", "other provider aws-split-cost b 0 h 0.1 0.1", "other provider aws-split-cost - 0 h 0.15 0.15"},
		"m6":   {"other provider aws-split-cost a 0 h 0 0.1", "other provider aws-split-cost a 0 h 0.3 0.3", "other provider aws-split-cost - 0 h 0 0.3", "other provider aws-split-cost - 0 h 0.9 0.9"},
		"m7":   {"other provider aws-split-cost a 0 h 0.1 0.1", "other provider aws-split-cost b 0 h 0.2 0.2"},
		"m8":   {"other whole - - 0 h 0.3 0.3"},
		"m9":   {"other whole - - 0 h 0.3 0.3"},
		"a":    nil,
		"lost": nil,
	} {
		if d := cmp.Diff(want, w.lines(podParts, resource)); d != "" {
			t.Errorf("%s (-want +got):\n%s", resource, d)
		}
	}
	// 49.536 + 0.4 + 0.4 + 1.2 + 3 x 0.3: nothing is added, before and after.
	for _, got := range []string{before, w.text("SELECT sum(EffectiveCost) FROM idlewatt.allocations"), w.text("SELECT sum(EffectiveCost) FROM idlewatt.charges")} {
		if got != "52.436" {
			t.Errorf("the bill adds up to %s, want 52.436", got)
		}
	}
	if n := w.once(); n != 0 {
		t.Errorf("nothing changed, and %d days were computed again", n)
	}
}

// Telemetry knows best, then a scheduler, then the bill; what telemetry calls unknown the bill
// may know. Late telemetry takes over, a new bill starts anew.
func TestWhoKnowsBestOfAMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bill("s/cur/2026-10", "1", []charge{
		hourly("seen", 7, 10, 1, "4"), pod("x", "seen", 7, 10, "3", "0"),
		hourly("blind", 7, 10, 1, "4"), pod("x", "blind", 7, 10, "3", "0"),
		hourly("planned", 7, 10, 8, "16"), pod("x", "planned", 7, 10, "3", "0"),
		hourly("late", 8, 10, 1, "4"), pod("x", "late", 8, 10, "3", "0"),
	})
	w.observe([]interval{
		{uuid: "s-0", node: "seen", start: at(7, 10, 0), end: at(7, 10, 30), state: "busy", job: "1"},
		{uuid: "s-1", node: "blind", start: at(7, 10, 0), end: at(7, 10, 30), state: "unknown"},
	})
	must(t, w.db.Exec(w.ctx, `INSERT INTO idlewatt_store.job_events (Event, Type, At, Scheduler, JobId, Nodes, GpuCount, Start, End, Evidence)
		VALUES ('e', 'job.started', '2026-10-07 10:00:00', 'slurm', '77', ['planned'], 8, '2026-10-07 10:00:00', '2026-10-07 11:00:00', 'scheduler')`))
	w.once()
	want := func(resource string, rows ...string) {
		t.Helper()
		if d := cmp.Diff(rows, w.lines(parts, resource)); d != "" {
			t.Errorf("%s (-want +got):\n%s", resource, d)
		}
	}
	want("seen", "job_used 1 0.5 h 2", "unobserved  0.5 h 2")
	want("blind", "job_used x 0.75 h 3", "unobserved  0.25 h 1")
	want("planned", "job_used 77 8 h 16")
	want("late", "job_used x 0.75 h 3", "unobserved  0.25 h 1")
	w.observe([]interval{{uuid: "l-0", node: "late", start: at(8, 10, 0), end: at(8, 11, 0), state: "allocated_idle", job: "9"}})
	w.once()
	want("late", "job_idle 9 1 h 4")
	w.bill("s/cur/2026-10", "2", []charge{plain("cpu", 8, 10, "6")})
	if got := w.text("SELECT sum(EffectiveCost) FROM idlewatt.allocations"); got != "6" {
		t.Errorf("after the restatement the parts add up to %s, want 6", got)
	}
	if n := w.once(); n != 0 {
		t.Errorf("a bill without GPUs and pods had %d days computed", n)
	}
}

// A pod's own tags say whose its part is; a pod without any goes with its machine.
func TestPodsHaveTheirOwnTags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := plain("m5", 7, 10, "1")
	node.tagSet = 1
	tagged, bare := pod("a", "m5", 7, 10, "0.5", "0"), pod("b", "m5", 7, 10, "0.25", "0")
	tagged.tagSet, tagged.tags, bare.tagSet = 2, map[string]string{"team": "research", "aws_eks_namespace": "x"}, 3
	w.bill("s/cur/2026-10", "1", []charge{node, tagged, bare})
	must(t, w.db.Exec(w.ctx, `INSERT INTO idlewatt_store.tag_dims (TagSet, RuleVersion, Project, Team) VALUES (1, 1, 'platform', 'core'), (2, 1, NULL, 'research'), (3, 1, NULL, NULL)`))
	w.once()
	got := w.lines(`SELECT concat(ifNull(AllocatedResourceId, '-'), ' ', ifNull(x_Project, '-'), ' ', ifNull(x_Team, '-'), ' ', ifNull(AllocatedTags, '-'), ' ', toString(EffectiveCost))
		FROM idlewatt.allocations ORDER BY 1`)
	if d := cmp.Diff([]string{"- platform core - 0.25", `a - research {"aws_eks_namespace":"x","team":"research"} 0.5`, "b platform core - 0.25"}, got); d != "" {
		t.Errorf("whose the parts are (-want +got):\n%s", d)
	}
}

// podBook is a random bill of machines with and without GPUs, whose pods take nothing, a part or
// more than there is.
func podBook(seed uint64) []charge {
	r := rand.New(rand.NewPCG(seed, 11))
	amount := func(limit int64) decimal.Decimal { return decimal.New(1+r.Int64N(limit), -int32(6+r.IntN(12))) }
	var out []charge
	for m := range 30 {
		name := fmt.Sprintf("pn-%d-%d", seed, m)
		start := at(1+r.IntN(20), r.IntN(23), 0)
		c := charge{resource: name, start: start, end: start.Add([]time.Duration{time.Hour, time.Hour, 24 * time.Hour}[r.IntN(3)]), billed: amount(1e12)}
		if gpus := []int64{0, 1, 8}[r.IntN(3)]; gpus > 0 {
			c.gpus, c.gpuHours = decimal.NewFromInt(gpus), amount(1e8)
		}
		if r.IntN(6) > 0 {
			c.effective, c.list, c.quantity = ptr(amount(1e12)), ptr(amount(1e12)), ptr(amount(1e9))
		}
		for range 1 + r.IntN(2) { // a machine's time may be more than one row
			out = append(out, c)
			c.billed = amount(1e12)
		}
		for p := range r.IntN(5) {
			q := c
			q.resource, q.parent, q.billed, q.effective, q.list, q.gpus, q.gpuHours, q.quantity = fmt.Sprint("pod-", p), name, decimal.Zero, ptr(decimal.Zero), nil, decimal.Zero, decimal.Zero, nil
			q.split, q.unused, q.tagSet = ptr(amount(1e11)), ptr(amount(1e10)), uint64(p+1)
			out = append(out, q)
		}
	}
	return out
}

// On random bills every charge's costs and quantities each sum over its parts exactly, and the
// order of the rows changes nothing.
func TestPodsConserve(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const sums = `toString((sum(BilledCost), sum(EffectiveCost), sum(ListCost), sum(ContractedCost), sum(ConsumedQuantity), sum(PricingQuantity), sum(ifNull(x_GpuHours, 0))))`
	const broken = `SELECT toString((c.x_Row, c.s, a.s)) FROM (SELECT x_Load, x_Row, ` + sums + ` AS s FROM idlewatt.charges WHERE isNull(x_SplitParentId) GROUP BY x_Load, x_Row) AS c
		LEFT JOIN (SELECT x_Load, x_Row, ` + sums + ` AS s FROM idlewatt.allocations GROUP BY x_Load, x_Row) AS a ON a.x_Load = c.x_Load AND a.x_Row = c.x_Row WHERE a.s != c.s`
	const digest = `SELECT concat(toString(groupBitXor(sipHash64(toString((ResourceId, ChargePeriodStart, AllocatedResourceId, AllocatedTags, x_AllocationKind, BilledCost, EffectiveCost, ListCost, ConsumedQuantity, x_GpuHours))))), ' ', toString(count()))
		FROM idlewatt.allocations WHERE x_Scope = ?`
	for seed := range uint64(2) {
		charges := podBook(seed)
		scope := fmt.Sprintf("p%d/cur/2026-10", seed)
		w.bill(scope, "1", charges)
		w.once()
		if bad := w.lines(broken); len(bad) > 0 {
			t.Errorf("seed %d: %d charges are not the sum of their parts, the first: %s", seed, len(bad), bad[0])
		}
		if n := w.text("SELECT countIf(x_AllocationQuality = 'provider') > 50 AND countIf(x_AllocationQuality = 'whole') > 0 FROM idlewatt.allocations"); n != "1" {
			t.Errorf("seed %d: the book has too few machines that are split, or that are not", seed)
		}
		before := w.lines(digest, scope)
		rand.New(rand.NewPCG(seed, 9)).Shuffle(len(charges), func(i, j int) { charges[i], charges[j] = charges[j], charges[i] })
		w.bill(scope, "2", charges)
		w.once()
		if d := cmp.Diff(before, w.lines(digest, scope)); d != "" {
			t.Errorf("seed %d: another order of the rows gives other parts (-first +shuffled):\n%s", seed, d)
		}
		oraclePods(t, w, charges, scope)
	}
}

// oraclePods adds up in Go what each pod should have: its own cost, unless the pods claim more
// than their machine cost.
func oraclePods(t *testing.T, w *world, charges []charge, scope string) {
	t.Helper()
	whole, taken, own, unknown := map[string]decimal.Decimal{}, map[string]decimal.Decimal{}, map[string]decimal.Decimal{}, map[string]bool{}
	for _, c := range charges {
		switch {
		case c.parent != "":
			cost := c.split.Add(*c.unused)
			taken[c.parent], own[c.parent+" "+c.resource] = taken[c.parent].Add(cost), own[c.parent+" "+c.resource].Add(cost)
		case c.effective == nil:
			unknown[c.resource] = true
		default:
			whole[c.resource] = whole[c.resource].Add(*c.effective)
		}
	}
	got := map[string]string{}
	for _, l := range w.lines(`SELECT concat(ResourceId, ' ', AllocatedResourceId, ' ', toString(sum(EffectiveCost))) FROM idlewatt.allocations
		WHERE x_Scope = ? AND AllocatedResourceId LIKE 'pod-%' GROUP BY ResourceId, AllocatedResourceId`, scope) {
		var machine, pod, cost string
		_, err := fmt.Sscan(l, &machine, &pod, &cost)
		must(t, err)
		got[machine+" "+pod] = cost
	}
	checked := 0
	for key, cost := range own {
		var machine, name string
		_, err := fmt.Sscan(key, &machine, &name)
		must(t, err)
		if unknown[machine] || taken[machine].GreaterThan(whole[machine]) {
			continue
		}
		checked++
		// Two rows of a machine are each rounded to 10^-18.
		if g, err := decimal.NewFromString(got[key]); err != nil || g.Sub(cost).Abs().GreaterThan(decimal.New(30, -18)) {
			t.Errorf("%s has %s of its machine, want %s", key, got[key], cost)
		}
	}
	if checked < 5 {
		t.Errorf("only %d pods could be checked", checked)
	}
}
