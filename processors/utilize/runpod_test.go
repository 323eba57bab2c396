package utilize

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/schema/event"
)

// RunPod shows one weak number per GPU every five minutes. That is enough for idleness, held
// by the pod's renter with low confidence, and for nothing more.
func TestRunPodSamplesBecomeIdleIntervals(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../connectors/runpod/testdata/samples.events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	cards := map[string][]Sample{}
	for line := range bytes.Lines(text) {
		e, err := event.ParseJSON(line)
		if err != nil {
			t.Fatal(err)
		}
		s, err := read(runtime.Delivered{Event: e}, DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range s.GPUs {
			cards[g.UUID] = append(cards[g.UUID], fromEvent(s.GPUSamples, g))
		}
	}
	from := time.Date(2026, 11, 10, 10, 0, 0, 0, time.UTC)
	want := map[string]time.Duration{StateBusy: 20 * time.Minute, StateAllocatedIdle: 40 * time.Minute}
	for _, uuid := range []string{"runpod:z1f6y8b3m0qtga:0", "runpod:z1f6y8b3m0qtga:1"} {
		got := map[string]time.Duration{}
		for _, r := range world().Intervals(Card{uuid, map[string][]Sample{"": cards[uuid]}}, from, from.Add(time.Hour)) {
			got[r.State] += r.End.Sub(r.Start)
			if r.Owner != "runpod/atlas--finetune" || r.OwnerConfidence != confidenceLow || r.Node != "z1f6y8b3m0qtga" {
				t.Errorf("%s: %+v", uuid, r)
			}
		}
		for state, d := range want {
			if got[state] != d || len(got) != len(want) {
				t.Errorf("%s: %v, want %v", uuid, got, want)
			}
		}
	}
}
