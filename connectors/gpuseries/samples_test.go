package gpuseries

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/schema/event"
)

var update = flag.Bool("update", false, "write the golden files") //nolint:gochecknoglobals // a flag of the test binary

// expected is the JSON block of a sample: what a correct reader concludes.
type expected struct {
	Devices []struct {
		UUID        string          `json:"uuid"`
		GI          *string         `json:"gi"`
		Profile     *string         `json:"profile"`
		Util        json.RawMessage `json:"util"`
		GR          json.RawMessage `json:"gr"`
		GRRaw       json.RawMessage `json:"gr_raw"`
		PowerW      json.RawMessage `json:"power_w"`
		EnergyJ     json.RawMessage `json:"energy_j"`
		FBUsedMiB   json.RawMessage `json:"fb_used_mib"`
		Owner       json.RawMessage `json:"owner"`
		Team        json.RawMessage `json:"team"`
		Jobs        *[]string       `json:"jobs"`
		Shared      *bool           `json:"shared"`
		Split       json.RawMessage `json:"split"`
		Attribution string          `json:"attribution"`
		Pods        []struct {
			Owner     string          `json:"owner"`
			Util      json.RawMessage `json:"util"`
			FBUsedMiB json.RawMessage `json:"fb_used_mib"`
		} `json:"pods"`
	} `json:"devices"`
	Samples      *int     `json:"samples"`
	Families     *int     `json:"families"`
	PhysicalGPUs *int     `json:"physical_gpus"`
	NodePowerW   *float64 `json:"node_power_w"`
	Rejected     *int     `json:"rejected"`
	Clamped      *int     `json:"clamped"`
	Duplicates   *int     `json:"duplicates"`
	Quarantined  *int     `json:"quarantined"`
	Complete     *bool    `json:"complete"`
	TimestampMS  *int64   `json:"timestamp_ms"`
}

func sampleNames(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("../dcgm/testdata/*.prom")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(filepath.Base(f), ".prom")
	}
	return names
}

func sampleTime(name string) time.Time {
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	if strings.HasSuffix(name, "-t60") {
		at = at.Add(time.Minute)
	}
	return at
}

func readSample(t testing.TB, name string) event.GPUSamples {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../dcgm/testdata", name+".prom"))
	if err != nil {
		t.Fatal(err)
	}
	events := Read(text, Options{Target: "test:9400", At: sampleTime(name)})
	if len(events) != 1 {
		t.Fatalf("got %d events, want 1", len(events))
	}
	return events[0]
}

func TestSamplesAgreeWithTheirExpectedReadings(t *testing.T) {
	t.Parallel()
	for _, name := range sampleNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want expected
			text, err := os.ReadFile(filepath.Join("../dcgm/testdata", name+".expected.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			got := readSample(t, name)
			checkBody(t, want, got)
			checkDevices(t, want, got)
		})
	}
}

func checkBody(t *testing.T, want expected, got event.GPUSamples) {
	t.Helper()
	rejected := 0
	for why, n := range got.Rejected {
		if why != reasonBadLine && why != reasonUnknownName && why != reasonNoUUID {
			rejected += n
		}
	}
	for _, c := range []struct {
		name string
		want *int
		got  int
	}{
		{"samples", want.Samples, got.Lines},
		{"families", want.Families, got.Families},
		{"rejected", want.Rejected, rejected},
		{"clamped", want.Clamped, got.Clamped},
		{"duplicates", want.Duplicates, got.Duplicates},
		{"quarantined", want.Quarantined, got.Rejected[reasonBadLine]},
		{"physical_gpus", want.PhysicalGPUs, len(cards(got))},
	} {
		if c.want != nil && *c.want != c.got {
			t.Errorf("%s = %d, want %d", c.name, c.got, *c.want)
		}
	}
	wantComplete := want.Complete == nil || *want.Complete
	if got.Complete != wantComplete || !got.OK {
		t.Errorf("complete = %t, ok = %t, want %t, true", got.Complete, got.OK, wantComplete)
	}
	if want.TimestampMS != nil && got.At.UnixMilli() != *want.TimestampMS {
		t.Errorf("time = %v, want %d ms", got.At, *want.TimestampMS)
	}
	total := 0.0
	for _, w := range cards(got) {
		total += w
	}
	if want.NodePowerW != nil && math.Abs(total-*want.NodePowerW) > 1e-9 {
		t.Errorf("node power = %v, want %v", total, *want.NodePowerW)
	}
}

// cards is the power of each physical card.
func cards(e event.GPUSamples) map[string]float64 {
	out := map[string]float64{}
	for _, g := range e.GPUs {
		out[g.UUID] = maxOf(g.PowerW)
	}
	return out
}

func checkDevices(t *testing.T, want expected, got event.GPUSamples) {
	t.Helper()
	byKey := map[string]event.GPUSample{}
	for _, g := range got.GPUs {
		byKey[g.UUID+"/"+g.Instance] = g
	}
	for _, w := range want.Devices {
		gi := ""
		if w.GI != nil {
			gi = *w.GI
		}
		// A device whose lines are all lost is not in the event: unknown in this scrape.
		g := byKey[w.UUID+"/"+gi]
		delete(byKey, w.UUID+"/"+gi)
		same(t, w.UUID+" util", w.Util, g.Utilization)
		same(t, w.UUID+" gr", w.GR, g.Engine)
		same(t, w.UUID+" gr_raw", w.GRRaw, g.EngineRaw)
		same(t, w.UUID+" power", w.PowerW, g.PowerW)
		same(t, w.UUID+" energy", w.EnergyJ, g.EnergyJ)
		same(t, w.UUID+" memory", w.FBUsedMiB, g.FBUsedMiB)
		if w.Profile != nil && g.Profile != *w.Profile {
			t.Errorf("%s profile = %q, want %q", w.UUID, g.Profile, *w.Profile)
		}
		same(t, w.UUID+" owner", w.Owner, singleOwner(g))
		same(t, w.UUID+" team", w.Team, label(g, "team"))
		if w.Jobs != nil {
			jobs := []string{}
			for _, o := range g.Owners {
				jobs = append(jobs, o.Job)
			}
			if diff := cmp.Diff(*w.Jobs, jobs); diff != "" {
				t.Errorf("%s jobs: %s", w.UUID, diff)
			}
		}
		if w.Shared != nil && *w.Shared != (len(g.Owners) > 1) {
			t.Errorf("%s has %d owners, shared = %t", w.UUID, len(g.Owners), *w.Shared)
		}
		for i, p := range w.Pods {
			if i >= len(g.Owners) {
				t.Fatalf("%s has %d owners, want %d", w.UUID, len(g.Owners), len(w.Pods))
			}
			o := ownerNamed(t, g, p.Owner)
			same(t, p.Owner+" util", p.Util, o.Engine)
			same(t, p.Owner+" memory", p.FBUsedMiB, o.FBUsedMiB)
			if failed := w.Attribution == "failed"; failed != (o.Confidence == confidenceFailed) {
				t.Errorf("%s confidence = %q, failed = %t", p.Owner, o.Confidence, failed)
			}
		}
		if string(w.Split) == "null" {
			for _, o := range g.Owners {
				if o.Engine != nil {
					t.Errorf("%s: the split is not in the data, got %v", w.UUID, *o.Engine)
				}
			}
		}
	}
	for k := range byKey {
		t.Errorf("device %s is not expected", k)
	}
}

// same compares a field of the JSON block: absent is not asked, null is unknown.
func same[T comparable](t *testing.T, what string, want json.RawMessage, got *T) {
	t.Helper()
	if want == nil {
		return
	}
	var w *T
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w, got); diff != "" {
		t.Errorf("%s (-want +got): %s", what, diff)
	}
}

func singleOwner(g event.GPUSample) *string {
	if len(g.Owners) != 1 {
		return nil
	}
	return ptr(g.Owners[0].Name())
}

func label(g event.GPUSample, name string) *string {
	for _, o := range g.Owners {
		if v, ok := o.Labels[name]; ok {
			return &v
		}
	}
	return nil
}

func ownerNamed(t *testing.T, g event.GPUSample, name string) event.Owner {
	t.Helper()
	for _, o := range g.Owners {
		if o.Name() == name {
			return o
		}
	}
	t.Fatalf("%s has no owner %s: %+v", g.UUID, name, g.Owners)
	return event.Owner{}
}

// TestGoldenEvents pins the whole event of each sample; processors/utilize reads the same
// files.
func TestGoldenEvents(t *testing.T) {
	t.Parallel()
	for _, name := range sampleNames(t) {
		got, err := json.MarshalIndent(readSample(t, name), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("../dcgm/testdata", name+".event.json")
		if *update {
			if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
			t.Errorf("%s (-want +got), run with -update if it is right: %s", name, diff)
		}
	}
}
