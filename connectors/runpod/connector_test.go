package runpod

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

func everything(charge) bool { return true }

// A pod that lived for two polls and is long gone keeps its name, GPU and hours on the bill.
func TestDeletedPodsKeepTheirNames(t *testing.T) {
	t.Parallel()
	f := newFake(t, at("2026-11-10 10:00"))
	f.pods = []*fakePod{gpuPod("gone1", "atlas--sweep", "0.69", since("2026-11-10 10:02", "RUNNING", "2026-11-10 10:32", "TERMINATED"))}
	c, s := source(t, f, nil), newStore(t)
	for range 8 {
		must(t, pull(t, c, s))
		f.pass(5 * time.Minute)
	}
	f.pass(50 * time.Hour)
	must(t, pull(t, c, s))
	cs := s.live["2026-11-10"].lines
	if len(cs) != 2 {
		t.Fatalf("%d lines", len(cs))
	}
	for k, v := range map[string]string{
		"ResourceName": "atlas--sweep", "RegionId": "US-KS-2", "x_GpuModel": "RTX 4090", "x_GpuCount": "1", "x_MachineHours": "0.5",
		"BilledCost": "0.345", "x_PricingModel": "on_demand", "Tags": `{"PROJECT":"atlas","name":"atlas--sweep","project":"atlas"}`,
	} {
		if cs[0][k] != v {
			t.Errorf("%s is %q, want %q", k, cs[0][k], v)
		}
	}
	runs := told[event.Instance](s, event.TypeInventoryInstance)
	last := runs[len(runs)-1]
	if last.ResourceID != "gone1" || last.SeenTo == nil || last.EndedBefore == nil || !last.SeenFrom.Equal(at("2026-11-10 10:02")) {
		t.Errorf("the run is told as %+v", last)
	}
	for _, e := range s.events {
		if strings.Contains(string(e.Data), "hf_sEcReT") {
			t.Errorf("%s holds a secret", e.Type)
		}
	}
	for _, b := range s.archive {
		if strings.Contains(string(b), "hf_sEcReT") {
			t.Error("the archive holds a secret")
		}
	}
}

// A stopped pod costs no GPU and goes on costing its volume, at another rate: case 019.
func TestStoppedPodStillCosts(t *testing.T) {
	t.Parallel()
	f := newFake(t, at("2026-11-01 00:00"))
	p := gpuPod("pod-ex1", "box", "2.00", since("2026-11-01 00:00", "RUNNING", "2026-11-04 00:00", "EXITED"))
	f.pods = []*fakePod{p}
	c, s := source(t, f, func(c *Config) { c.WindowDays = 12 }), newStore(t)
	for range 2 {
		must(t, pull(t, c, s))
		f.pass(5 * time.Minute)
	}
	f.pass(9*24*time.Hour - 10*time.Minute)
	must(t, pull(t, c, s))
	cs := s.lines()
	for what, x := range map[string]struct {
		want string
		keep func(c charge) bool
	}{
		"GPU":                   {"144", where("SkuMeter", "GPU")},
		"storage while stopped": {"4", where("x_LineItemType", "storage_stopped")},
		"storage, running":      {"1.5", where("x_LineItemType", "storage_running")},
		"all":                   {"149.5", everything},
	} {
		// The fake's bill is rounded to micro-dollars in every hour.
		if got := total(t, cs, x.keep).Round(3); !got.Equal(decimal.RequireFromString(x.want)) {
			t.Errorf("%s: %s, want %s", what, got, x.want)
		}
	}
	var stopped money.Decimal
	for _, c := range cs {
		if c["ChargePeriodStart"] >= "2026-11-04" && c["x_MachineHours"] != "" {
			t.Errorf("GPU hours while stopped: %v", c)
		}
	}
	for _, i := range told[event.Instance](s, event.TypeInventoryInstance) {
		if i.InstanceType == "disk, stopped" {
			stopped = *i.Rate
		}
	}
	if want := "0.027777777778"; stopped.String() != want {
		t.Errorf("the stopped disk is rated %s, want %s USD an hour", stopped, want)
	}
}

// The inventory: runs with their rates, cluster members as the cluster, volumes, prices, and a
// poll after all of it.
func TestInventory(t *testing.T) {
	t.Parallel()
	f := newFake(t, at("2026-11-10 10:00"))
	f.volume = 1500
	f.pods = []*fakePod{
		gpuPod("a", "atlas--a", "0.69", since("2026-11-09 08:00", "RUNNING")),
		gpuPod("b", "b", "0.34", since("2026-11-01 08:00", "RUNNING", "2026-11-02 08:00", "EXITED")),
		{id: "m0", name: "atlas--pretrain-0", gpu: "NVIDIA H100 80GB HBM3", cloud: "SECURE", count: 8, rate: "23.92", cluster: "clu1", states: since("2026-11-10 09:00", "RUNNING")},
		{id: "m1", name: "atlas--pretrain-1", gpu: "NVIDIA H100 80GB HBM3", cloud: "SECURE", count: 8, rate: "23.92", cluster: "clu1", states: since("2026-11-10 09:01", "RUNNING")},
	}
	f.pods[1].cloud = "COMMUNITY"
	c, s := source(t, f, nil), newStore(t)
	must(t, pull(t, c, s))
	var got []string
	for _, i := range told[event.Instance](s, event.TypeInventoryInstance) {
		gpus := "-"
		if i.GPUCount != nil {
			gpus = i.GPUCount.String() + " x " + i.GPUModel
		}
		got = append(got, fmt.Sprint(i.ResourceID, " ", i.Kind, " ", gpus, " ", i.Rate, " ", i.PricingModel, " ", i.SeenFrom.Format("02 15:04"), " ", strings.Join(i.Hosts, ",")))
	}
	slices.Sort(got)
	want := []string{
		"a machine 1 x RTX 4090 0.69 on_demand 09 08:00 a,atlas--a",
		"a storage - 0.020833333333  09 08:00 ",
		"b storage - 0.027777777778  10 10:00 ",
		"clu1 machine 16 x H100 47.84 cluster 10 09:01 clu1,atlas--pretrain,m0,atlas--pretrain-0,m1,atlas--pretrain-1",
		"vol1 volume - 0.131944444444  10 10:00 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	prices := told[event.Price](s, event.TypeInventoryPrice)
	if len(prices) != 4 {
		t.Errorf("%d prices, want secure, community, serverless and one more secure", len(prices))
	}
	polls := told[event.Poll](s, event.TypeInventoryPoll)
	if len(polls) != 1 || polls[0].Running != 5 || polls[0].Account != "acme" {
		t.Errorf("polls %+v", polls)
	}
	f.pass(25 * time.Hour)
	must(t, pull(t, c, s))
	if again := told[event.Price](s, event.TypeInventoryPrice); len(again) != 4 {
		t.Errorf("prices that did not change are told again: %d", len(again))
	}
}

// Polls see nothing of what a failed answer holds: no run ends, no poll is told.
func TestBrokenPollsEndNoRun(t *testing.T) {
	t.Parallel()
	f := newFake(t, at("2026-11-10 10:00"))
	f.pods = []*fakePod{
		gpuPod("a", "a", "0.69", since("2026-11-09 08:00", "RUNNING")), gpuPod("b", "b", "0.69", since("2026-11-09 08:00", "RUNNING")),
		gpuPod("c", "c", "0.69", since("2026-11-09 08:00", "RUNNING")),
	}
	c, s := source(t, f, nil), newStore(t)
	must(t, pull(t, c, s))
	n := len(s.events)
	for _, x := range []struct {
		status int
		header http.Header
		body   string
		want   string
	}{
		{500, nil, "oops", "500"},
		{403, nil, `{"title":"Forbidden","status":403,"detail":"access denied"}`, "read access"},
		{410, nil, `{"title":"Gone","status":410,"detail":"deprecated_endpoint"}`, "410"},
		{429, http.Header{"Retry-After": {"17"}}, `{"title":"Too Many Requests","status":429}`, "429"},
		{200, nil, `{}`, "the list is missing"},
		{200, nil, `{"pods":[{"id":"a"`, "unexpected EOF"},
		{200, nil, `{"pods":[{"id":"","status":"RUNNING"}]}`, "no id"},
		{200, nil, `{"pods":[],"pagination":{"nextCursor":"x","hasNextPage":true}}`, "came twice"},
		{200, nil, `{"pods":[],"pagination":{"nextCursor":null,"hasNextPage":true}}`, "nextCursor is empty"},
	} {
		f.fault = func(path string) (int, http.Header, string) {
			if path == "/pods" {
				return x.status, x.header, x.body
			}
			return 0, nil, ""
		}
		f.pass(5 * time.Minute)
		err := pull(t, c, s)
		if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), testKey) {
			t.Errorf("%d %s: error %v, want one with %q", x.status, x.body, err, x.want)
		}
		if after, _ := connectors.RetryAfter(err); x.status == 429 && after != 17*time.Second {
			t.Errorf("wait %v", after)
		}
		if connectors.IsPermanent(err) != (x.status == 403 || x.status == 410) {
			t.Errorf("%d: permanent is %v", x.status, connectors.IsPermanent(err))
		}
	}
	if len(s.events) != n {
		t.Errorf("failed polls told %v", s.events[n].Type)
	}
}

// A bill that contradicts itself is refused, names route and amounts, and holds up no inventory.
func TestContradictingBillsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t, at("2026-11-10 10:00"))
	f.pods = []*fakePod{gpuPod("a", "a", "0.69", since("2026-11-10 08:00", "RUNNING"))}
	f.drop = "podGpuAmount"
	c, s := source(t, f, nil), newStore(t)
	err := pull(t, c, s)
	if err == nil || connectors.IsPermanent(err) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"/billing: records add up to 1.38 podGpuAmount", "says 1.88", "difference 0.5 USD"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	if len(s.live) != 0 || len(told[event.Instance](s, event.TypeInventoryInstance)) != 2 {
		t.Errorf("delivered %v, told %d runs", s.live, len(told[event.Instance](s, event.TypeInventoryInstance)))
	}
	f.pass(5 * time.Minute)
	if err := pull(t, c, s); err == nil || len(told[event.Instance](s, event.TypeInventoryInstance)) != 2 {
		t.Errorf("error %v, runs %d", err, len(told[event.Instance](s, event.TypeInventoryInstance)))
	}
	f.drop = ""
	f.pass(5 * time.Minute)
	must(t, pull(t, c, s))
	if got := total(t, s.lines(), everything); !got.Equal(f.truth(at("2026-11-07 00:00"), at("2026-11-10 10:00"))) {
		t.Errorf("%s was delivered", got)
	}
}

// The window, the back-fill and what is not asked for.
func TestWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	f := newFake(t, at("2026-11-20 10:40"))
	f.pods = []*fakePod{gpuPod("a", "a", "0.69", since("2026-10-30 08:00", "RUNNING"))}
	f.dense, f.pageBy = true, 7
	c, s := source(t, f, func(c *Config) { c.Since = "2026-11-01" }), newStore(t)
	must(t, pull(t, c, s))
	var windows []string
	for _, q := range f.asked {
		if strings.HasPrefix(q, "/billing/endpoints?") && !strings.Contains(q, "cursor") {
			windows = append(windows, q)
		}
	}
	want := []string{
		"/billing/endpoints?bucketSize=hour&endTime=2026-11-08T00%3A00%3A00Z&startTime=2026-11-01T00%3A00%3A00Z",
		"/billing/endpoints?bucketSize=hour&endTime=2026-11-15T00%3A00%3A00Z&startTime=2026-11-08T00%3A00%3A00Z",
		"/billing/endpoints?bucketSize=hour&endTime=2026-11-17T00%3A00%3A00Z&startTime=2026-11-15T00%3A00%3A00Z",
		"/billing/endpoints?bucketSize=hour&endTime=2026-11-20T10%3A00%3A00Z&startTime=2026-11-17T00%3A00%3A00Z",
	}
	if !slices.Equal(windows, want) {
		t.Errorf("asked\n%s", strings.Join(windows, "\n"))
	}
	if len(s.live) != 20 {
		t.Errorf("%d days are covered, want 20", len(s.live))
	}
	if got := total(t, s.lines(), everything); !got.Equal(f.truth(at("2026-11-01 00:00"), at("2026-11-20 10:00"))) {
		t.Errorf("%s was delivered", got)
	}
	n, deliveries := len(f.asked), len(told[event.BillingDelivery](s, event.TypeBillingDelivery))
	f.pass(10 * time.Minute)
	must(t, pull(t, c, s))
	if slices.ContainsFunc(f.asked[n:], func(q string) bool { return strings.HasPrefix(q, "/billing") }) {
		t.Error("the bill was asked for before billing_every had passed")
	}
	f.pass(7 * time.Minute)
	must(t, pull(t, c, s))
	if got := len(told[event.BillingDelivery](s, event.TypeBillingDelivery)); got != deliveries {
		t.Errorf("a bill without news was delivered again: %d, %d before", got, deliveries)
	}
	if objects := told[event.BillingObject](s, event.TypeBillingObject); len(objects) < 6 || objects[0].Format != "runpod" {
		t.Errorf("%d pages as evidence", len(objects))
	}
}

// An earlier first day is heeded later, too; and a pause longer than the window is made up for.
func TestEarlierDaysAreFetchedLater(t *testing.T) {
	t.Parallel()
	f := newFake(t, at("2026-11-20 10:40"))
	f.pods = []*fakePod{gpuPod("a", "a", "0.69", since("2026-10-30 08:00", "RUNNING"))}
	s := newStore(t)
	must(t, pull(t, source(t, f, nil), s))
	if len(s.live) != 4 {
		t.Errorf("%d days are covered, want three and today", len(s.live))
	}
	f.pass(9 * 24 * time.Hour)
	must(t, pull(t, source(t, f, nil), s))
	if len(s.live) != 13 {
		t.Errorf("%d days are covered after the pause, want 13", len(s.live))
	}
	must(t, pull(t, source(t, f, func(c *Config) { c.Since = "2026-11-10" }), s))
	if len(s.live) != 20 {
		t.Errorf("%d days are covered, want 20", len(s.live))
	}
	if got := total(t, s.lines(), everything); !got.Equal(f.truth(at("2026-11-10 00:00"), at("2026-11-29 10:00"))) {
		t.Errorf("%s was delivered", got)
	}
}

// Whatever the order and repetition of pulls, failures between them and corrections of the
// bill: every covered day has exactly the money of its complete hours.
func TestCoveredDaysHaveTheExactMoney(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := newFake(t, at("2026-11-10 00:00").Add(time.Duration(rapid.IntRange(0, 1439).Draw(rt, "minute"))*time.Minute))
		f.dense, f.volume = rapid.Bool().Draw(rt, "dense"), rapid.Int64Range(0, 900).Draw(rt, "volume")
		f.pageBy = rapid.SampledFrom([]int{0, 60, 0}).Draw(rt, "page")
		// With a first day, so that a first pull that is lost is made up for after a long pause.
		setUp := func(c *Config) { c.Since = "2026-11-07" }
		for n := range rapid.IntRange(0, 3).Draw(rt, "pods") {
			p := gpuPod(fmt.Sprint("p", n), "x--y", []string{"0.69", "0.34", "1.1", "0.123457"}[n%4], nil)
			t0 := at("2026-11-07 00:00")
			for k := range rapid.IntRange(1, 4).Draw(rt, "states") {
				t0 = t0.Add(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "minutes")) * time.Minute)
				p.states = append(p.states, fakeState{t0, []string{"RUNNING", "EXITED", "RUNNING", "TERMINATED"}[k]})
			}
			f.pods = append(f.pods, p)
		}
		c, s := source(t, f, setUp), newStore(t)
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			f.pass(time.Duration(rapid.IntRange(1, 2500).Draw(rt, "pass")) * time.Minute)
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0: // a crash: what was emitted stands, the cursor does not
				was := s.kept
				_ = pull(t, c, s)
				s.kept = was
			case 1: // the bus refuses somewhere
				s.failAt = rapid.IntRange(1, 20).Draw(rt, "fail")
				_ = pull(t, c, s)
				s.failAt = 0
			case 2: // another process
				c = source(t, f, setUp)
				must(t, pull(t, c, s))
			case 3: // RunPod corrects an hour of yesterday
				if len(f.pods) > 0 {
					h := f.now.Truncate(time.Hour).Add(-24 * time.Hour)
					f.extra[f.pods[0].id+h.Format(time.RFC3339)] = decimal.New(rapid.Int64Range(-9, 99).Draw(rt, "correction"), -2)
				}
			default:
				must(t, pull(t, c, s))
			}
		}
		f.pass(16 * time.Minute)
		must(t, pull(t, c, s))
		for day, x := range s.live {
			from, err := time.Parse(time.DateOnly, day)
			must(t, err)
			to := from.Add(24 * time.Hour)
			if now := f.now.Truncate(time.Hour); to.After(now) {
				to = now
			}
			if got, want := total(t, x.lines, everything), f.truth(from, to); !got.Equal(want) {
				rt.Fatalf("%s has %s, want %s", day, got, want)
			}
		}
		if len(s.live) < 3 {
			rt.Fatalf("%d days are covered", len(s.live))
		}
	})
}
