package utilize

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/schema/event"
)

// TestEfficiencyView: per GPU, holder and day; absent readings stay absent, and a device that
// was small work's for a working day is said to be too large.
func TestEfficiencyView(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from := t0().Add(8 * time.Hour)
	r.publish(scrapesOf("n1", 3, from, 9*60, func(_, i int, g *event.GPUSample) {
		working(g, true)
		g.FBUsedMiB, g.FBTotalMiB, g.SM, g.Tensor = ptr(8000.0), ptr(80000.0), ptr(0.2), ptr(0.1)
		switch i {
		case 1:
			g.FBUsedMiB, g.SM = ptr(60000.0), ptr(0.8)
		case 2:
			g.FBUsedMiB, g.FBTotalMiB, g.SM, g.Tensor, g.PowerW = nil, nil, nil, nil, nil
		}
	})...)
	r.job("7", []string{"n1"}, from, time.Time{}, 3)
	r.drain()
	r.derive()
	want := []string{
		"GPU-n1-0 7 9 9 sm 0.2 tensor 0.1 650 W 5.85 kWh memory 8000/80000 0.1 cost - smaller GPU or MIG slice",
		"GPU-n1-1 7 9 9 sm 0.8 tensor 0.1 650 W 5.85 kWh memory 60000/80000 0.75 cost - ",
		"GPU-n1-2 7 9 9 sm - tensor - - W - kWh memory -/- - cost - ",
	}
	got := r.lines(`WITH x -> ifNull(toString(round(x, 4)), '-') AS f
		SELECT concat(GpuUuid, ' ', JobId, ' ', toString(GpuHours), ' ', toString(BusyGpuHours), ' sm ', f(MeanSm), ' tensor ', f(MeanTensor), ' ', f(MeanPowerW), ' W ',
			f(EnergyKWh), ' kWh memory ', f(PeakMemoryMiB), '/', f(MemoryMiB), ' ', f(PeakMemoryRatio), ' cost ', ifNull(toString(EffectiveCost), '-'), ' ', Hint)
		FROM idlewatt.gpu_efficiency ORDER BY GpuUuid`)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestTelemetryView: what a target says of itself, and how much of it was refused.
func TestTelemetryView(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from := t0().Add(8 * time.Hour)
	good := scrapesOf("n1", 2, from, 10, func(_, _ int, g *event.GPUSample) { working(g, true) })
	for i := range good {
		good[i].Rejected = map[string]int{"blank": 2, "bounds": 1}
	}
	r.publish(good...)
	r.publish(good[3]) // again: counts once
	bad := event.GPUSamples{Target: "n1:9400", At: from.Add(10 * time.Minute), ReceivedAt: from.Add(10 * time.Minute), Error: "connection refused"}
	dead := event.GPUSamples{Target: "n2:9400", At: from.Add(-30 * time.Hour), ReceivedAt: from.Add(-30 * time.Hour), Error: "no such host"}
	r.publish(bad, dead)
	r.drain()
	want := []string{"n1:9400 gpus 2 last 08:10 ok 08:09 11/1 connection refused {'blank':20,'bounds':10}", "n2:9400 gpus 0 last 02:00 ok never 0/0 no such host {}"}
	got := r.lines(`SELECT concat(Target, ' gpus ', toString(GpuCount), ' last ', formatDateTime(LastScrape, '%H:%i'), ' ok ', ifNull(formatDateTime(LastOk, '%H:%i'), 'never'), ' ',
		toString(Scrapes), '/', toString(FailedScrapes), ' ', LastError, ' ', toString(Rejected)) FROM idlewatt.telemetry ORDER BY Target`)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestIntervalsOutliveTheirSamples: raw telemetry goes after a while, what was derived from it
// stays; no shorter time than a bill can be restated in is taken.
func TestIntervalsOutliveTheirSamples(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := startOfDay(r.p.Now()).AddDate(0, 0, -130).Add(8 * time.Hour)
	r.publish(scrapesOf("n1", 1, old, 60, func(_, _ int, g *event.GPUSample) { working(g, true) })...)
	r.drain()
	r.derive()
	if err := r.p.Retain(t.Context(), MinKeepDays-1); err == nil {
		t.Error("less than a bill's restatement is taken")
	}
	if err := r.p.Retain(t.Context(), MinKeepDays); err != nil {
		t.Fatal(err)
	}
	if days, err := r.p.kept(t.Context(), "scrapes"); err != nil || days != MinKeepDays {
		t.Errorf("scrapes are kept for %d days: %v", days, err)
	}
	before := r.lines(liveByHour)
	r.exec("TRUNCATE TABLE idlewatt_store.gpu_samples")
	r.publish(scrapesOf("n2", 1, r.p.Now().UTC().Add(-time.Hour).Truncate(time.Minute), 10, func(_, _ int, g *event.GPUSample) { working(g, true) })...)
	r.drain()
	r.derive()
	if d := cmp.Diff(before, r.lines(`SELECT concat(toString(toHour(H)), ' ', State, ' ', toString(sum(dateDiff('second', Start, End) / 60)))
		FROM idlewatt_store.live_intervals WHERE Node = 'n1' GROUP BY toStartOfHour(Start) AS H, State ORDER BY H, State`)); d != "" || len(before) == 0 {
		t.Errorf("(-want +got):\n%s", d)
	}
}
