package gpuseries

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The handed failure cases that concern reading. Their figures are those of the cases'
// expected.md.

func TestCase023BlankAndCorruptValuesAreMissing(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../dcgm/testdata/cases/023.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read only
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var valid []float64
	missing, idleMinutes := 0, []string{}
	for _, row := range rows[1:] {
		line := fmt.Sprintf("%s{UUID=\"GPU-ex-1\"} %s\n", rows[0][1], row[1])
		e := Read([]byte(line), Options{At: time.Unix(1, 0)})[0]
		if len(e.GPUs) == 0 || e.GPUs[0].Utilization == nil {
			missing++
			continue
		}
		v := *e.GPUs[0].Utilization * 100
		valid = append(valid, v)
		if v < 5 {
			idleMinutes = append(idleMinutes, row[0])
		}
	}
	if diff := cmp.Diff([]float64{40, 60, 0, 100}, valid); diff != "" || missing != 11 {
		t.Errorf("missing %d, want 11; valid: %s", missing, diff)
	}
	total := 0.0
	for _, v := range valid {
		total += v
	}
	if mean := total / float64(len(valid)); mean != 50 {
		t.Errorf("mean = %v, want 50", mean)
	}
	if diff := cmp.Diff([]string{"10:12"}, idleMinutes); diff != "" {
		t.Error(diff)
	}
}

func TestCase026ExporterPodIsNotTheWorkload(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../dcgm/testdata/cases/026.prom")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	e := Read([]byte(strings.TrimSpace(string(text))+"\n"), Options{At: time.Unix(1, 0)})[0]
	for _, g := range e.GPUs {
		names := []string{}
		for _, o := range g.Owners {
			names = append(names, o.Name())
		}
		got[g.UUID] = strings.Join(names, ",")
	}
	want := map[string]string{"GPU-ex-5": "team-a/infer-0", "GPU-ex-6": "team-b/infer-1", "GPU-ex-7": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCase027EnergyOfACardCountsOnce is the reader's part of the case: one card, one energy
// reading, no GPU_UTIL. The rest is processors/utilize's.
func TestCase027EnergyOfACardCountsOnce(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../dcgm/testdata/cases/027.json")
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		UUID      string `json:"uuid"`
		Instances []struct {
			GI, Profile string
			Util        float64 `json:"DCGM_FI_DEV_GPU_UTIL"`
			Engine      float64 `json:"DCGM_FI_PROF_GR_ENGINE_ACTIVE"`
			Joules      float64 `json:"energy_joules"`
		}
	}
	if err := json.Unmarshal(text, &in); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, i := range in.Instances {
		labels := fmt.Sprintf(`{UUID=%q,GPU_I_ID=%q,GPU_I_PROFILE=%q}`, in.UUID, i.GI, i.Profile)
		fmt.Fprintf(&b, "DCGM_FI_DEV_GPU_UTIL%s %v\n", labels, i.Util)
		fmt.Fprintf(&b, "DCGM_FI_PROF_GR_ENGINE_ACTIVE%s %f\n", labels, i.Engine)
		fmt.Fprintf(&b, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION%s %.0f\n", labels, i.Joules*1000)
	}
	e := Read([]byte(b.String()), Options{At: time.Unix(1, 0)})[0]
	energy := map[string]float64{}
	for _, g := range e.GPUs {
		if g.Utilization != nil {
			t.Errorf("instance %s has a GPU_UTIL", g.Instance)
		}
		energy[g.UUID] = *g.EnergyJ
	}
	if len(e.GPUs) != 3 || len(energy) != 1 || energy["GPU-ex-8"] != 120000 {
		t.Errorf("got %d instances, energy %v", len(e.GPUs), energy)
	}
}
