package gpuseries

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

func testClock() time.Time { return time.Date(2026, 9, 1, 12, 0, 0, 123456789, time.UTC) }

func TestLargeScrapeIsSplit(t *testing.T) {
	t.Parallel()
	s := event.GPUSamples{Target: "t", At: testClock(), OK: true, Rejected: map[string]int{"sentinel": 2}, Lines: 7}
	for i := range 3000 {
		s.GPUs = append(s.GPUs, event.GPUSample{
			UUID: fmt.Sprintf("GPU-%d", i), Owners: []event.Owner{{Kind: "pod", Pod: strings.Repeat("p", i%900)}},
		})
	}
	ids, uuids, lines := map[string]bool{}, []string{}, 0
	for _, p := range split(s) {
		e, err := newEvent("gpus", "", p)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(e.Data); n > bus.MaxMessage-4096 {
			t.Errorf("part has %d bytes", n)
		}
		ids[e.ID] = true
		lines += p.Lines
		for _, g := range p.GPUs {
			uuids = append(uuids, g.UUID)
		}
	}
	if len(ids) < 2 || len(uuids) != 3000 || uuids[2999] != "GPU-2999" || lines != 7 {
		t.Errorf("%d ids, %d GPUs, %d lines", len(ids), len(uuids), lines)
	}
	a, _ := newEvent("gpus", "", s)
	b, _ := newEvent("gpus", "", s)
	if a.ID != b.ID {
		t.Error("a retry has another id")
	}
}
