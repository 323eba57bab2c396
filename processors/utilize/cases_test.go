package utilize

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"
)

// The handed failure cases that concern the verdict. Their figures are those of the cases'
// expected.md.

func world() World {
	return World{
		Policy: DefaultPolicy(), Like: func(string) Like { return Like{} }, Jobs: NewJobs(nil, nil),
		GPUsOnNode: func(string) int { return 8 },
	}
}

func readCase(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/cases/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 5e-7 }

func day(t time.Time) time.Time { return t.Truncate(24 * time.Hour) }

// minutes sums GPU minutes by state within [from, to).
func minutes(rows []Row, from, to time.Time) map[string]float64 {
	out := map[string]float64{}
	for _, r := range rows {
		start, end := r.Start, r.End
		if start.Before(from) {
			start = from
		}
		if end.After(to) {
			end = to
		}
		if start.Before(end) {
			out[r.State] += end.Sub(start).Minutes() * float64(r.ShareNum) / float64(r.ShareDen)
		}
	}
	return out
}

// everyMinute repeats a reading over an hour.
func everyMinute(hour time.Time, s Sample) []Sample {
	var out []Sample
	for m := range 60 {
		x := s
		x.At = hour.Add(time.Duration(m) * time.Minute).UnixMilli()
		out = append(out, x)
	}
	return out
}

func TestCase024TimeSlicedGPUCountsOnce(t *testing.T) {
	t.Parallel()
	var in struct {
		Hour  time.Time
		Price float64 `json:"gpu_price_per_hour,string"`
		Rows  []struct {
			UUID, Pod string
			Engine    float64 `json:"gr_engine_active"`
		} `json:"samples"`
		Fractional []struct {
			UUID, Pod string
			Cores     float64 `json:"cores_percent"`
		} `json:"fractional_requests"`
	}
	readCase(t, "024.json", &in)
	owners, engine := map[string]*Owners{}, map[string]float64{}
	add := func(uuid, pod string, e float64) {
		if owners[uuid] == nil {
			owners[uuid] = &Owners{Kind: "pod", Confidence: "high"}
		}
		owners[uuid].Names = append(owners[uuid].Names, pod)
		engine[uuid] = e
	}
	for _, s := range in.Rows {
		add(s.UUID, s.Pod, s.Engine)
	}
	for _, s := range in.Fractional {
		add(s.UUID, s.Pod, 0.5)
	}
	hours, total, split := map[string]float64{}, 0.0, false
	for uuid, o := range owners {
		s := UnknownSample(in.Hour)
		s.Owners, s.Engine = o, engine[uuid]
		rows := world().Intervals(Card{uuid, map[string][]Sample{"": everyMinute(in.Hour, s)}}, day(in.Hour), day(in.Hour).Add(24*time.Hour))
		for _, r := range rows {
			hours[r.Owner] += r.GPUTime().Hours()
			total += r.GPUTime().Hours()
			if uuid == "GPU-ex-1" && !near(r.EngineMean, 0.714) {
				t.Errorf("utilisation of %s = %v", uuid, r.EngineMean)
			}
			split = split || r.ShareDen > 1 && len(r.Findings) == 1 && r.Findings[0] == FindingEqualSplit
		}
	}
	if !near(total, 3) || !near(total*in.Price, 9) {
		t.Errorf("GPU-hours = %v, want 3", total)
	}
	if !split {
		t.Error("the equal split is not shown as one")
	}
	for pod, want := range map[string]float64{
		"w-1": 1, "w-2": 1, "w-3": 1, "f-1": 0.75, "f-2": 0.75, "f-3": 0.75, "f-4": 0.75, "whole": 3,
	} {
		if got := hours[pod] * in.Price; !near(got, want) {
			t.Errorf("%s costs %v, want %v", pod, got, want)
		}
	}
}

func TestCase027MIGSlicesShareOneGPU(t *testing.T) {
	t.Parallel()
	var in struct {
		UUID      string
		Price     float64 `json:"price_per_hour,string"`
		Total     float64 `json:"total_slices"`
		Hour      time.Time
		Instances []struct {
			GI, Profile string
			Slices      uint32
			Engine      float64 `json:"DCGM_FI_PROF_GR_ENGINE_ACTIVE"`
		}
	}
	readCase(t, "027.json", &in)
	devices := map[string][]Sample{}
	for _, i := range in.Instances {
		s := UnknownSample(in.Hour)
		s.Engine, s.Profile, s.Model = i.Engine, i.Profile, "NVIDIA A100"
		s.Owners = &Owners{Kind: "pod", Names: []string{"pod-" + i.GI}, Confidence: "high"}
		devices[i.GI] = everyMinute(in.Hour, s)
		if slicesOf(i.Profile) != i.Slices {
			t.Errorf("%s has %d slices", i.Profile, slicesOf(i.Profile))
		}
	}
	rows := world().Intervals(Card{in.UUID, devices}, day(in.Hour), day(in.Hour).Add(24*time.Hour))
	cost, state, hours, used, utilised := map[string]float64{}, map[string]string{}, 0.0, 0.0, 0.0
	for _, r := range rows {
		h := r.GPUTime().Hours()
		hours += h
		cost[r.Instance] += h * in.Price
		state[r.Instance] = r.State
		utilised += h * orZero(r.EngineMean)
		used += h * in.Price * orZero(r.EngineMean)
	}
	if !near(hours, 1) || !near(in.Price/in.Total, 0.5) {
		t.Errorf("GPU-hours = %v", hours)
	}
	for gi, want := range map[string]float64{"3": 0.5, "4": 1, "5": 1.5, "": 0.5} {
		if !near(cost[gi], want) {
			t.Errorf("instance %q costs %v, want %v", gi, cost[gi], want)
		}
	}
	if !near(utilised, 2.0/7) || !near(used, 1) || !near(3-used, 2) {
		t.Errorf("utilisation = %v, used = %v", utilised, used)
	}
	want := map[string]string{"3": StateBusy, "4": StateBusy, "5": StateAllocatedIdle, "": StateUnallocatedIdle}
	for gi, w := range want {
		if state[gi] != w {
			t.Errorf("instance %q is %s, want %s", gi, state[gi], w)
		}
	}
	if last := rows[len(rows)-1]; rows[0].Instance != "" || rows[0].Cause != CauseNotCarved || last.Cause == CauseNotCarved {
		t.Errorf("the slices that are not carved: %+v", rows[0])
	}
}

func TestCase029TelemetryGapIsNotIdle(t *testing.T) {
	t.Parallel()
	var in struct {
		GPU        string
		Below      float64 `json:"idle_below_percent"`
		AlertAfter int     `json:"alert_after_idle_minutes"`
		Samples    []struct {
			From, To, Every string
			Util            *float64
		}
	}
	readCase(t, "029.json", &in)
	midnight := time.Date(2025, 5, 10, 0, 0, 0, 0, time.UTC)
	clock := func(s string) time.Time {
		c, err := time.Parse("15:04", s)
		if err != nil {
			t.Fatal(err)
		}
		return midnight.Add(time.Duration(c.Hour())*time.Hour + time.Duration(c.Minute())*time.Minute)
	}
	var samples []Sample
	for _, run := range in.Samples {
		if run.Util == nil {
			continue
		}
		for at := clock(run.From); !at.After(clock(run.To)); at = at.Add(time.Minute) {
			s := UnknownSample(at)
			s.Utilization = *run.Util / 100
			samples = append(samples, s)
		}
	}
	w := world()
	w.Policy.IdleThreshold = in.Below / 100
	derive := func(s []Sample) []Row {
		return w.Intervals(Card{in.GPU, map[string][]Sample{"": s}}, midnight, midnight.Add(24*time.Hour))
	}
	got := minutes(derive(samples), clock("10:00"), clock("11:00"))
	active, unknown, idle := got[StateBusyUnowned], got[StateUnknown], got[StateUnallocatedIdle]
	if active != 10 || unknown != 30 || idle != 20 {
		t.Errorf("active / unknown / idle = %v / %v / %v", active, unknown, idle)
	}
	if share := idle / (active + idle); !near(share, 2.0/3) {
		t.Errorf("idle share of known time = %v", share)
	}
	var fired []string
	above := false
	for at := clock("10:00"); !at.After(clock("11:20")); at = at.Add(time.Minute) {
		var seen []Sample
		for _, s := range samples {
			if s.At < at.UnixMilli() {
				seen = append(seen, s)
			}
		}
		_, length := TrailingIdle(derive(seen))
		now := length >= time.Duration(in.AlertAfter)*time.Minute
		if now && !above {
			fired = append(fired, at.Format("15:04"))
		}
		above = above || now
	}
	if len(fired) != 1 || fired[0] != "11:10" {
		t.Errorf("the alert fires at %v, want once at 11:10", fired)
	}
}
