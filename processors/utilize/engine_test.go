package utilize

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

const liveByHour = `SELECT concat(toString(toHour(H)), ' ', State, ' ', toString(sum(dateDiff('second', Start, End) / 60)))
	FROM idlewatt_store.live_intervals GROUP BY toStartOfHour(Start) AS H, State ORDER BY H, State`

func TestCase032ClockSkew(t *testing.T) {
	t.Parallel()
	var in struct {
		Host    string
		Samples []struct {
			Device   time.Time `json:"device_ts"`
			Received time.Time `json:"received_ts"`
			Util     float64
		}
	}
	readCase(t, "032.json", &in)
	r := newRig(t)
	for _, s := range in.Samples {
		util := s.Util / 100
		r.publish(event.GPUSamples{
			Target: in.Host + ":9400", Node: in.Host, At: s.Device, ReceivedAt: s.Received, OK: true, Complete: true,
			GPUs: []event.GPUSample{{UUID: "GPU-skew", Utilization: &util}},
		})
	}
	r.drain()
	r.derive()
	if diff := cmp.Diff([]string{"10 busy_unowned 60"}, r.lines(liveByHour)); diff != "" {
		t.Error(diff)
	}
	got := r.lines(`SELECT concat(toString(count()), ' scrapes ', toString(min(SkewMs)), ' ', toString(max(SkewMs))) FROM idlewatt_store.scrapes
		UNION ALL SELECT concat(toString(countIf(has(Findings, 'clock_skew'))), ' samples') FROM idlewatt_store.gpu_samples
		UNION ALL SELECT concat(toString(countIf(has(Findings, 'clock_skew'))), ' intervals') FROM idlewatt_store.live_intervals
		UNION ALL SELECT concat(toString(countIf(State LIKE '%idle')), ' idle') FROM idlewatt_store.live_intervals`)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"0 idle", "1 intervals", "6 samples", "6 scrapes 7200000 7200000"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCase054MissingStaysMissing(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/cases/054.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		payload := strings.NewReplacer(`"gpu"`, `"uuid"`, `"u"`, `"utilization"`, "80", "0.80", "60", "0.60").Replace(line)
		at := t0().Add(time.Duration(i) * time.Minute)
		e, err := event.New(event.TypeGPUSamples, "test", fmt.Sprint(i), "", at, nil)
		if err != nil {
			t.Fatal(err)
		}
		e.Data = []byte(fmt.Sprintf(`{"target":"t","node":"n","at":%q,"received_at":%q,"ok":true,"complete":true,"gpus":[%s]}`,
			at.Format(time.RFC3339), at.Format(time.RFC3339), payload))
		if err := bus.Publish(t.Context(), r.js, e); err != nil {
			t.Fatal(err)
		}
	}
	r.drain()
	got := r.lines(`SELECT concat(toString(round(100 * avg(Utilization), 6)), ' ', toString(count()), ' ', toString(count(Utilization)), ' ',
		toString(100 * min(Utilization))) FROM idlewatt_store.gpu_samples`)
	if diff := cmp.Diff([]string{"70 3 2 60"}, got); diff != "" {
		t.Error(diff)
	}
	r.derive()
	if diff := cmp.Diff([]string{"0 busy_unowned 2", "0 unknown 1"}, r.lines(liveByHour)); diff != "" {
		t.Error(diff)
	}
}

// scrapesOf makes one scrape a minute of a node's GPUs.
func scrapesOf(node string, gpus int, from time.Time, minutes int, fill func(minute, gpu int, g *event.GPUSample)) []event.GPUSamples {
	var out []event.GPUSamples
	energy := make([]float64, gpus)
	for m := range minutes {
		at := from.Add(time.Duration(m) * time.Minute)
		s := event.GPUSamples{Target: node + ":9400", Node: node, At: at, ReceivedAt: at, OK: true, Complete: true}
		for i := range gpus {
			g := event.GPUSample{UUID: fmt.Sprintf("GPU-%s-%d", node, i), Model: "H100"}
			fill(m, i, &g)
			if g.PowerW != nil { // a real counter never stands still
				energy[i] += *g.PowerW * 60
				g.EnergyJ = ptr(energy[i])
			}
			s.GPUs = append(s.GPUs, g)
		}
		out = append(out, s)
	}
	return out
}

func ptr[T any](v T) *T { return &v }

func working(g *event.GPUSample, busy bool) {
	g.Engine, g.PowerW, g.FBUsedMiB = ptr(0.0), ptr(68.5), ptr(4.0)
	if busy {
		g.Engine, g.PowerW, g.FBUsedMiB = ptr(0.9), ptr(650.0), ptr(70000.0)
	}
}

func (r rig) job(id string, nodes []string, start, end time.Time, count int) {
	r.Helper()
	var e any
	if !end.IsZero() {
		e = end
	}
	r.exec(`INSERT INTO idlewatt_store.job_events (Event, Type, At, Scheduler, JobId, Project, Nodes, GpuCount, Start, End, Evidence)
		VALUES (?, 'job.placed', ?, 'slurm', ?, 'llm', ?, ?, ?, ?, 'scheduler')`, id+start.String(), start, id, nodes, count, start, e)
}

const liveStates = `SELECT concat(Uuid, ' ', formatDateTime(min(Start), '%H:%i'), '-', formatDateTime(max(End), '%H:%i'), ' ', State, ' ', Cause, ' ',
	Owner, ' ', JobId, ' ', LastJobId) FROM idlewatt_store.live_intervals GROUP BY Uuid, State, Cause, Owner, JobId, LastJobId ORDER BY Uuid, min(Start)`

func TestOwnersComeFromTheScheduler(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from := t0().Add(8 * time.Hour)
	// One whole-node job works for an hour on GPU 0 and never on GPU 1; then nobody.
	r.job("4711", []string{"N1"}, from, from.Add(90*time.Minute), 2)
	r.publish(scrapesOf("n1", 2, from, 180, func(m, i int, g *event.GPUSample) { working(g, i == 0 && m < 60) })...)
	// A job that holds one of two GPUs, and the record does not say which.
	r.job("4712", []string{"n2"}, from, time.Time{}, 1)
	r.publish(scrapesOf("n2", 2, from, 60, func(_, i int, g *event.GPUSample) { working(g, i == 0) })...)
	r.drain()
	r.derive()
	want := []string{
		"GPU-n1-0 08:00-09:00 busy  4711 4711 ",
		"GPU-n1-0 09:00-09:30 allocated_idle held_no_process 4711 4711 ",
		"GPU-n1-0 09:30-11:00 unallocated_idle after_job_end   4711",
		"GPU-n1-1 08:00-09:30 allocated_idle held_no_process 4711 4711 ",
		"GPU-n1-1 09:30-11:00 unallocated_idle after_job_end   4711",
		"GPU-n2-0 08:00-09:00 busy_unowned    ",
		"GPU-n2-1 08:00-09:00 unallocated_idle partial_hold   ",
	}
	if diff := cmp.Diff(want, r.lines(liveStates)); diff != "" {
		t.Error(diff)
	}
	low := r.lines("SELECT DISTINCT OwnerConfidence FROM idlewatt_store.live_intervals WHERE Node = 'n2'")
	if diff := cmp.Diff([]string{"low"}, low); diff != "" {
		t.Error(diff)
	}
	projects := r.lines("SELECT DISTINCT assumeNotNull(Project) FROM idlewatt_store.live_intervals WHERE JobId != ''")
	if diff := cmp.Diff([]string{"llm"}, projects); diff != "" {
		t.Error(diff)
	}
}

func TestDerivationFollowsItsInputs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from := t0().Add(22 * time.Hour)
	all := scrapesOf("n1", 2, from, 240, func(m, _ int, g *event.GPUSample) { working(g, m < 30) })
	late := all[100:120]
	r.publish(all[:100]...)
	r.publish(all[120:]...)
	r.drain()
	if s := r.derive(); s.Derived != 4 {
		t.Errorf("derived %d card days, want 4: %+v", s.Derived, s)
	}
	if s := r.derive(); s.Derived != 0 || s.Checked != 4 {
		t.Errorf("nothing changed, derived %d of %d", s.Derived, s.Checked)
	}
	before := r.lines(liveByHour)
	r.publish(all[:50]...) // the same facts again, behind the server's duplicate window
	r.exec("INSERT INTO idlewatt_store.gpu_samples SELECT * FROM idlewatt_store.gpu_samples")
	r.drain()
	if s := r.derive(); s.Derived != 0 {
		t.Errorf("the same samples twice: derived %d", s.Derived)
	}
	if diff := cmp.Diff(before, r.lines(liveByHour)); diff != "" {
		t.Error(diff)
	}
	r.publish(late...) // 23:40 to 24:00 of the first day, which the second day's margin sees
	r.drain()
	if s := r.derive(); s.Derived != 4 {
		t.Errorf("late samples: derived %d, want 4", s.Derived)
	}
	want := []string{"22 busy_unowned 60", "22 unallocated_idle 60", "23 unallocated_idle 120", "0 unallocated_idle 120", "1 unallocated_idle 120"}
	if diff := cmp.Diff(want, r.lines(liveByHour)); diff != "" {
		t.Error(diff)
	}
	r.job("7", []string{"n1"}, from, from.Add(time.Hour), 0)
	if s := r.derive(); s.Derived != 4 {
		t.Errorf("a job became known: derived %d, want 4", s.Derived)
	}
	want = []string{"22 allocated_idle 60", "22 busy 60", "23 unallocated_idle 120", "0 unallocated_idle 120", "1 unallocated_idle 120"}
	if diff := cmp.Diff(want, r.lines(liveByHour)); diff != "" {
		t.Error(diff)
	}
	r.exec("TRUNCATE TABLE idlewatt_store.gpu_samples")
	r.derive()
	if got := r.lines(liveByHour); len(got) != 0 {
		t.Errorf("rows without samples: %v", got)
	}
}

func TestFailedScrapesCountAsExpected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// Every second scrape fails: half of the time is known at most, so nothing is idle.
	scrapes := scrapesOf("n1", 1, t0().Add(time.Hour), 120, func(_, _ int, g *event.GPUSample) { working(g, false) })
	for i := range scrapes {
		if i%2 == 1 {
			scrapes[i].OK, scrapes[i].GPUs, scrapes[i].Error = false, nil, "refused"
		}
	}
	r.publish(scrapes...)
	r.drain()
	r.derive()
	if diff := cmp.Diff([]string{"1 unknown 60", "2 unknown 59"}, r.lines(liveByHour)); diff != "" {
		t.Error(diff)
	}
}

func TestRepeatedOldSamplesAreNotIdle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stale := scrapesOf("n1", 1, t0().Add(time.Hour), 60, func(_, _ int, g *event.GPUSample) { working(g, false) })
	for i := range stale {
		stale[i].ReceivedAt = stale[i].At.Add(10 * time.Minute)
	}
	r.publish(stale...)
	r.drain()
	r.derive()
	if diff := cmp.Diff([]string{"1 unknown 50", "2 unknown 10"}, r.lines(liveByHour)); diff != "" {
		t.Error(diff)
	}
}

// TestStalledDeviceOfABusyFleet: no device of the model was ever idle, so its floor is not
// known; one of them says busy at a fifth of its siblings' power.
func TestStalledDeviceOfABusyFleet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(scrapesOf("n1", 2, t0(), 60, func(m, i int, g *event.GPUSample) {
		working(g, true)
		g.SM = ptr(0.8)
		if i == 1 && m >= 20 {
			g.SM, g.PowerW = ptr(0.01), ptr(125.5)
		}
	})...)
	r.drain()
	r.derive()
	got := r.lines("SELECT concat(Uuid, ' ', State, ' ', arrayStringConcat(Findings)) FROM idlewatt_store.live_intervals ORDER BY Uuid")
	if diff := cmp.Diff([]string{"GPU-n1-0 busy_unowned ", "GPU-n1-1 busy_unowned busy_suspect"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSweepKeepsWhatIsLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(scrapesOf("n1", 2, t0().Add(time.Hour), 60, func(_, _ int, g *event.GPUSample) { working(g, false) })...)
	r.drain()
	r.derive()
	r.job("7", []string{"n1"}, t0(), time.Time{}, 0)
	r.derive()
	before := r.lines(liveStates)
	r.exec("INSERT INTO idlewatt_store.gpu_intervals (Load, Uuid, Day) VALUES (1, 'lost', '2026-09-01')")
	r.exec("ALTER TABLE idlewatt_store.interval_commits UPDATE At = At - INTERVAL 2 HOUR WHERE 1 SETTINGS mutations_sync = 1")
	if err := r.p.Sweep(r.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, r.lines(liveStates)); diff != "" {
		t.Error(diff)
	}
	got := r.lines("SELECT concat(toString(count()), ' ', toString(uniqExact(Load))) FROM idlewatt_store.gpu_intervals")
	if diff := cmp.Diff([]string{"2 2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestBadSamplesArePutAside(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := scrapesOf("n1", 1, t0(), 20, func(_, _ int, g *event.GPUSample) { working(g, true) })
	good[3].GPUs[0].Engine = ptr(97.0)
	good[5].GPUs[0].UUID = ""
	good[7].Target = ""
	r.publish(good...)
	r.drain()
	got := r.lines(`SELECT concat(toString((SELECT count() FROM idlewatt_store.gpu_samples)), ' ', toString((SELECT count() FROM idlewatt_store.scrapes)))`)
	if diff := cmp.Diff([]string{"17 17"}, got); diff != "" {
		t.Error(diff)
	}
	dead, err := r.js.Stream(r.Context(), bus.Dead)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := dead.Info(r.Context()); err != nil || info.State.Msgs != 3 {
		t.Errorf("%d dead letters, want 3: %v", info.State.Msgs, err)
	}
}

func TestRunKeepsUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.p.Run(ctx) }()
	wait := func(want ...string) {
		t.Helper()
		var got []string
		for ctx.Err() == nil {
			if got = r.lines(liveByHour); cmp.Equal(want, got) {
				return
			}
		}
		t.Fatalf("waited for %v, have %v", want, got)
	}
	all := scrapesOf("n1", 1, t0().Add(time.Hour), 50, func(_, _ int, g *event.GPUSample) { working(g, false) })
	r.publish(all[:30]...)
	wait("1 unallocated_idle 30")
	r.publish(all[30:]...)
	wait("1 unallocated_idle 50")
	r.job("1", []string{"n1"}, t0().Add(time.Hour), time.Time{}, 0)
	r.publish(all[0]) // any event wakes nothing that matters; the job does
	r.job("2", []string{"elsewhere"}, t0().Add(time.Hour), time.Time{}, 0)
	wait("1 allocated_idle 50")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
