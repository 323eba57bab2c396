package utilize

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sampleOf is a sample with some readings; the others are not known.
func sampleOf(set func(*Sample)) *Sample {
	s := UnknownSample(time.Unix(1e9, 0))
	set(&s)
	return &s
}

func TestVerdictOfOneSample(t *testing.T) {
	t.Parallel()
	h100 := Like{FloorW: 68, CeilingW: 700}
	for _, c := range []struct {
		name    string
		set     func(*Sample)
		want    class
		cause   string
		finding string
	}{
		{"nothing known", func(*Sample) {}, unknown, CauseNoSignal, ""},
		{"low power alone is no utilisation", func(s *Sample) { s.PowerW = 69 }, unknown, CauseNoSignal, ""},
		{"idle", func(s *Sample) { s.Engine, s.Utilization, s.PowerW = 0, 0, 69 }, idle, "", ""},
		{"idle with a context, clocks up", func(s *Sample) { s.Engine, s.PowerW = 0, 115 }, idle, "", ""},
		{"idle, power not known", func(s *Sample) { s.Engine = 0 }, idle, "", ""},
		{"noise near the floor", func(s *Sample) { s.Engine, s.PowerW = 0.004, 70 }, idle, "", ""},
		{"noise, power not known", func(s *Sample) { s.Engine = 0.004 }, work, "", ""},
		{"little traffic", func(s *Sample) { s.Engine, s.Utilization, s.PowerW = 0.03, 0.03, 75 }, work, "", ""},
		{"one per cent", func(s *Sample) { s.Utilization, s.PowerW = 0.01, 70 }, work, "", ""},
		{"profiling stuck, the others work", func(s *Sample) { s.Engine, s.Utilization, s.PowerW, s.XID = 0, 0.9, 600, 31 }, work, "", "xid_31"},
		{"profiling 0, utilisation high, power low", func(s *Sample) { s.Engine, s.Utilization, s.PowerW = 0, 0.9, 70 }, unknown, CauseContradiction, FindingProfiling},
		{"profiling 0 at full power", func(s *Sample) { s.Engine, s.PowerW = 0, 600 }, unknown, CauseContradiction, FindingPower},
		{"both 0 at full power", func(s *Sample) { s.Engine, s.Utilization, s.PowerW = 0, 0, 600 }, unknown, CauseContradiction, FindingPower},
		{"engine 0, memory busy", func(s *Sample) { s.Engine, s.DRAM = 0, 0.4 }, unknown, CauseContradiction, FindingProfiling},
		{"cut scrape", func(s *Sample) { s.Engine, s.Complete = 0, false }, unknown, CauseIncomplete, ""},
		{"cut scrape with work", func(s *Sample) { s.Engine, s.Complete = 0.8, false }, work, "", ""},
		{"frozen", func(s *Sample) { s.Engine, s.stale = 0, true }, unknown, CauseStale, ""},
		{"frozen at work", func(s *Sample) { s.Engine, s.stale = 0.9, true }, unknown, CauseStale, ""},
		{"a neighbour's power", func(s *Sample) { s.Engine, s.PowerW, s.otherBusy = 0, 400, true }, idle, "", ""},
	} {
		v := classify(sampleOf(c.set), h100, DefaultPolicy())
		if v.class != c.want || v.cause != c.cause || c.finding != "" && !slices.Contains(v.findings, c.finding) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	stuck := classify(sampleOf(func(s *Sample) { s.Engine, s.PowerW = 0, 400 }), Like{}, DefaultPolicy())
	if stuck.class != unknown {
		t.Error("the floor of the model is not known: an absolute limit counts")
	}
	stalled := func(s *Sample) { s.Engine, s.SM, s.Tensor, s.DRAM, s.PowerW = 0.99, 0.06, 0, 0, 131 }
	if v := classify(sampleOf(stalled), h100, DefaultPolicy()); v.class != work || !v.suspect {
		t.Errorf("stalled: %+v", v)
	}
}

func TestPowerLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		like   Like
		lo, hi float64
	}{
		{Like{}, 150, 150},
		{Like{FloorW: 68, CeilingW: 700}, 116, 140},  // H100: above a context's clocks, below work
		{Like{FloorW: 10, CeilingW: 70}, 25, 35},     // T4
		{Like{FloorW: 300, CeilingW: 700}, 200, 240}, // a fleet that never idles teaches no floor
		{Like{FloorW: 68, CeilingW: 70}, 116, 140},   // a fleet that never works
	} {
		if got := c.like.limit(); got < c.lo || got > c.hi {
			t.Errorf("%+v: limit %v, want %v to %v", c.like, got, c.lo, c.hi)
		}
	}
}

// TestMoreEvidenceOfWorkNeverMakesIdle: whatever signal goes up, what was not idle does not
// become idle.
func TestMoreEvidenceOfWorkNeverMakesIdle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ratio := rapid.OneOf(rapid.Just(nan()), rapid.Just(0.0), rapid.Float64Range(0, 1))
		draw := func(name string) float64 { return ratio.Draw(t, name) }
		s := UnknownSample(time.Unix(1e9, 0))
		s.Engine, s.Utilization, s.SM, s.DRAM = draw("engine"), draw("util"), draw("sm"), draw("dram")
		s.PowerW = rapid.OneOf(rapid.Just(nan()), rapid.Float64Range(0, 700)).Draw(t, "power")
		like := Like{FloorW: rapid.Float64Range(0, 200).Draw(t, "floor"), CeilingW: 700}
		if classify(&s, like, DefaultPolicy()).class == idle {
			return
		}
		more := s
		for _, v := range []*float64{&more.Engine, &more.Utilization, &more.SM, &more.DRAM} {
			if known(*v) {
				*v += rapid.Float64Range(0, 1-*v).Draw(t, "more")
			}
		}
		if known(more.PowerW) {
			more.PowerW += rapid.Float64Range(0, 300).Draw(t, "more power")
		}
		if classify(&more, like, DefaultPolicy()).class == idle {
			t.Fatalf("%+v became idle as %+v", s, more)
		}
	})
}

func TestOneUnknownSampleBreaksAStreak(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Sample){
		"no signal":  func(s *Sample) { s.Engine = nan() },
		"cut scrape": func(s *Sample) { s.Complete = false },
		"full power": func(s *Sample) { s.PowerW = 500 },
		"work":       func(s *Sample) { s.Engine = 0.5 },
	} {
		s := UnknownSample(t0())
		s.Engine = 0
		samples := everyMinute(t0(), s)[:28] // 28 minutes, spoilt at the 14th
		spoil(&samples[14])
		rows := world().Intervals(Card{"G", map[string][]Sample{"": samples}}, t0(), t0().Add(24*time.Hour))
		if got := minutes(rows, t0(), t0().Add(time.Hour)); got[StateUnallocatedIdle] != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestEnergyRefutesPointSamples(t *testing.T) {
	t.Parallel()
	s := UnknownSample(t0())
	s.Engine, s.PowerW, s.EnergyJ = 0, 70, 0
	samples := everyMinute(t0(), s)
	for i := range samples {
		samples[i].EnergyJ = 1e6 + float64(i)*60*70
		if i >= 20 { // bursts between the samples
			samples[i].EnergyJ += float64(i-20) * 60 * 200
		}
	}
	w := world()
	w.Like = func(string) Like { return Like{FloorW: 68, CeilingW: 700} }
	rows := w.Intervals(Card{"G", map[string][]Sample{"": samples}}, t0(), t0().Add(24*time.Hour))
	got := minutes(rows, t0(), t0().Add(time.Hour))
	if got[StateUnallocatedIdle] > 21 || got[StateUnallocatedIdle] < 15 || got[StateUnknown] < 34 {
		t.Errorf("got %v", got)
	}
	for i := range samples { // frozen: not idle either
		samples[i].EnergyJ = 5e5
	}
	rows = w.Intervals(Card{"G", map[string][]Sample{"": samples}}, t0(), t0().Add(24*time.Hour))
	if got := minutes(rows, t0(), t0().Add(time.Hour)); got[StateUnknown] != 60 || rows[0].Cause != CauseStale {
		t.Errorf("frozen: %v", got)
	}
}

func TestSharedDeviceWithPerPodReadings(t *testing.T) {
	t.Parallel()
	s := UnknownSample(t0())
	s.Engine, s.Utilization = 0.94, 0.94
	s.Owners = &Owners{Kind: "pod", Names: []string{"a", "b", "idler"}, Confidence: "high"}
	s.OwnerEngines = []float64{0.61, 0.33, 0}
	rows := world().Intervals(Card{"G", map[string][]Sample{"": everyMinute(t0(), s)}}, t0(), t0().Add(24*time.Hour))
	got := map[string]string{}
	for _, r := range rows {
		got[r.Owner] = r.State
	}
	if got["a"] != StateBusy || got["b"] != StateBusy || got["idler"] != StateAllocatedIdle {
		t.Errorf("got %v", got)
	}
	s.Owners = &Owners{Kind: "pod", Names: []string{"a", "b", "idler"}, Confidence: confidenceFailed}
	s.OwnerEngines = nil
	rows = world().Intervals(Card{"G", map[string][]Sample{"": everyMinute(t0(), s)}}, t0(), t0().Add(24*time.Hour))
	if len(rows) != 1 || rows[0].State != StateBusyUnowned || rows[0].Cause != CauseAttribution || rows[0].Owner != "" {
		t.Errorf("attribution failed: %+v", rows)
	}
}

func TestLabelsStayBehind(t *testing.T) {
	t.Parallel()
	s := UnknownSample(t0())
	s.Engine, s.Node = 0, "n1"
	s.Owners = &Owners{Kind: "pod", Names: []string{"ns/p-1"}, Confidence: "high"}
	w := world()
	job := Job{Namespace: "ns", Pods: []string{"p-1"}, Start: t0().Add(-time.Hour), End: t0().Add(20 * time.Minute)}
	job.Scheduler, job.ID = "kubernetes", "ns/train"
	w.Jobs = NewJobs([]Job{job}, nil)
	card := Card{"G", map[string][]Sample{"": everyMinute(t0(), s)}}
	rows := w.Intervals(card, t0(), t0().Add(24*time.Hour))
	if rows[0].State != StateAllocatedIdle || rows[0].Job == nil || rows[len(rows)-1].State != StateUnallocatedIdle {
		t.Errorf("got %+v", rows)
	}
	job.Declared = true // a user's word does not end a hold that the scrape shows
	w.Jobs = NewJobs([]Job{job}, nil)
	for _, r := range w.Intervals(card, t0(), t0().Add(24*time.Hour)) {
		if r.State != StateAllocatedIdle {
			t.Errorf("declared: %+v", r)
		}
	}
	other := Job{GPUs: []string{"G"}, Start: t0().Add(-time.Hour)}
	other.Scheduler, other.ID = "slurm", "9"
	w.Jobs = NewJobs([]Job{other}, nil)
	for _, r := range w.Intervals(card, t0(), t0().Add(24*time.Hour)) {
		if r.OwnerConfidence != confidenceLow || !slices.Contains(r.Findings, FindingConflict) {
			t.Errorf("label against scheduler: %+v", r)
		}
	}
}

func TestMissingLabelsForAMomentAreBridged(t *testing.T) {
	t.Parallel()
	s := UnknownSample(t0())
	s.Engine, s.Owners = 0, &Owners{Kind: "pod", Names: []string{"ns/p"}, Confidence: "high"}
	samples := everyMinute(t0(), s)
	for i := 10; i < 60; i += 10 {
		samples[i].Owners = nil
	}
	rows := world().Intervals(Card{"G", map[string][]Sample{"": samples}}, t0(), t0().Add(24*time.Hour))
	if got := minutes(rows, t0(), t0().Add(time.Hour)); got[StateAllocatedIdle] != 60 {
		t.Errorf("got %v", got)
	}
}

func TestPolicyIsChecked(t *testing.T) {
	t.Parallel()
	if err := DefaultPolicy().Validate(); err != nil {
		t.Error(err)
	}
	if _, err := New(Options{Policy: Policy{IdleWindow: 2 * time.Hour}}); err == nil {
		t.Error("an idle window longer than the margin is accepted")
	}
}
