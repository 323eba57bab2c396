package utilize

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
)

// The connector's golden events of the handed scrapes: what processors get from the bus.
const dcgmTestdata = "../../connectors/dcgm/testdata"

func readEvent(t *testing.T, name string) event.GPUSamples {
	t.Helper()
	var e event.GPUSamples
	readJSON(t, filepath.Join(dcgmTestdata, name+".event.json"), &e)
	return e
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func TestReadingsOfTheHandedScrapes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(dcgmTestdata, "*.expected.json"))
	if err != nil || len(files) != 12 {
		t.Fatalf("found %d samples, want 12: %v", len(files), err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".expected.json")
		var want struct {
			Devices []struct {
				UUID  string
				GI    *string
				State string
			}
		}
		readJSON(t, f, &want)
		e := readEvent(t, name)
		got := map[string]string{}
		for i, r := range Readings(e, DefaultPolicy()) {
			got[e.GPUs[i].UUID+"/"+e.GPUs[i].Instance] = r
		}
		for _, d := range want.Devices {
			key := d.UUID + "/"
			if d.GI != nil {
				key += *d.GI
			}
			state, ok := got[key]
			if !ok {
				state = ReadingUnknown // not in the scrape
			}
			if state != d.State {
				t.Errorf("%s: %s is %q, want %q", name, key, state, d.State)
			}
		}
	}
}

func TestEnergyOfThePairOfScrapes(t *testing.T) {
	t.Parallel()
	var want struct {
		DtS    int                 `json:"dt_s"`
		Deltas map[string]*float64 `json:"energy_delta_j"`
	}
	readJSON(t, filepath.Join(dcgmTestdata, "two-scrapes-t60.expected.json"), &want)
	t0, t60 := readEvent(t, "two-scrapes-t0"), readEvent(t, "two-scrapes-t60")
	dt := t60.At.Sub(t0.At)
	if dt != time.Duration(want.DtS)*time.Second {
		t.Fatalf("dt = %v", dt)
	}
	read := func(e event.GPUSamples, uuid string) float64 {
		for _, g := range e.GPUs {
			if g.UUID == uuid {
				return value(g.EnergyJ)
			}
		}
		return nan()
	}
	total := 0.0
	for uuid, w := range want.Deltas {
		got, why := EnergyDelta(read(t0, uuid), read(t60, uuid), dt, 700)
		if w == nil && known(got) || w != nil && got != *w || known(got) != (why == "") {
			t.Errorf("%s: %v (%s), want %v", uuid, got, why, w)
		}
		total += orZero(got)
	}
	if total != 72000 {
		t.Errorf("known energy = %v, want 72000", total)
	}
	if _, why := EnergyDelta(2e9, 12000, dt, 700); why != DeltaReset {
		t.Errorf("a counter that went down: %s", why)
	}
	if _, why := EnergyDelta(0, 1e6, dt, 700); why != DeltaTooLarge {
		t.Errorf("more than the card can draw: %s", why)
	}
	if _, why := EnergyDelta(0, 1, 0, 700); why != DeltaNoTime {
		t.Errorf("no time: %s", why)
	}
}
