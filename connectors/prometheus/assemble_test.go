package prometheus

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"
	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/connectors/gpuseries"
	"github.com/idlewatt/idlewatt/schema/event"
)

// tb is what a test and a property test have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
}

// written is a series with one sample, as a test writes it: name{label="value",...}.
type written struct {
	text  string
	at    int64
	value float64
}

func (w written) labels() []byte {
	name, rest, _ := strings.Cut(w.text, "{")
	b := appendLabel(nil, "__name__", name)
	for l := range strings.SplitSeq(strings.TrimSuffix(rest, "}"), ",") {
		k, v, _ := strings.Cut(l, "=")
		b = appendLabel(b, k, strings.Trim(v, `"`))
	}
	return b
}

func part(samples ...written) []byte {
	var b []byte
	for _, w := range samples {
		b = appendSeries(b, w.labels(), []point{{w.value, w.at}})
	}
	return snappy.Encode(nil, b)
}

func newAssembler(t tb, checkpoint []byte) *Assembler {
	t.Helper()
	a, err := NewAssembler(DefaultAssembly(), checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// start is a time of samples.
func start() time.Time { return time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC) }

// table is what the samples table would hold: the last word on each card and time.
type table map[string]string

func (x table) take(t tb, events []event.Event) {
	t.Helper()
	for _, e := range events {
		var s event.GPUSamples
		if err := e.Decode(&s); err != nil {
			t.Fatal(err)
		}
		for _, g := range s.GPUs {
			key := fmt.Sprintf("%s %s/%s %d", s.Target, g.UUID, g.Instance, s.At.UnixMilli())
			x[key] = fmt.Sprintf("%t util=%v engine=%v power=%v owners=%v", s.Complete, text(g.Utilization), text(g.Engine), text(g.PowerW), len(g.Owners))
		}
		if !s.OK {
			x[fmt.Sprintf("%s %d", s.Target, s.At.UnixMilli())] = s.Error
		}
	}
}

func text(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

// world is a Prometheus that scrapes one exporter and spreads its series over queues.
type world struct {
	rt     *rapid.T
	queues [][]written
	truth  table
}

// scrape adds one scrape: every card's series with its pod, and the ends of those that went.
func (w *world) scrape(t tb, at int64, now, before map[string]string) {
	var all []written
	add := func(card, pod, name string, v float64) {
		text := fmt.Sprintf(`%s{UUID="%s",instance="n1:9400",job="gpu"`, name, card)
		if pod != "" {
			text += fmt.Sprintf(`,exported_pod="%s",exported_namespace="ml"`, pod)
		}
		all = append(all, written{text + "}", at, v})
	}
	names := []string{"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_POWER_USAGE"}
	for _, card := range slices.Sorted(maps.Keys(now)) {
		pod := now[card]
		work := rapid.SampledFrom([]float64{0, 1}).Draw(w.rt, "work")
		util := work * 90
		if work == 1 && rapid.Bool().Draw(w.rt, "field lies") {
			util = 0
		}
		for i, v := range []float64{util, work, 70 + 500*work} {
			add(card, pod, names[i], v)
		}
	}
	var whole []gpuseries.Sample
	r := gpuseries.NewReader(nil, nil)
	for _, x := range all {
		s, err := seriesOf(r, x.labels())
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, gpuseries.Sample{Series: s, At: at, Value: x.value})
	}
	for _, e := range gpuseries.Fold(whole, gpuseries.Options{}, gpuseries.NewMemory([]string{"gpu"})) {
		ev, err := gpuseries.Events("x", "", e)
		if err != nil {
			t.Fatal(err)
		}
		w.truth.take(t, ev)
	}
	ended := math.Float64frombits(stale)
	for _, card := range slices.Sorted(maps.Keys(before)) {
		pod := before[card]
		if p, still := now[card]; !still || p != pod {
			for _, n := range names {
				add(card, pod, n, ended)
			}
		}
	}
	for _, x := range all {
		q := 0
		for _, c := range x.text {
			q = (q*31 + int(c)) % len(w.queues)
		}
		w.queues[q] = append(w.queues[q], x)
	}
}

// TestNoIdlenessComesOfAScrapeInPieces is the reason for the assembler: whatever the queues
// do, a card that is told as complete is told as it was scraped.
func TestNoIdlenessComesOfAScrapeInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{rt: rt, queues: make([][]written, rapid.IntRange(1, 5).Draw(rt, "queues")), truth: table{}}
		cards := map[string]string{"GPU-a": "", "GPU-b": "train-0", "GPU-c": "train-0"}
		at, now := start().UnixMilli(), start()
		a := newAssembler(rt, nil)
		got, late := table{}, table{}
		number := uint64(0)
		var log [][]byte // messages that are not released
		send := func(q, n int) {
			n = min(n, len(w.queues[q]))
			if n == 0 {
				return
			}
			number++
			p := part(w.queues[q][:n]...)
			w.queues[q] = w.queues[q][n:]
			log = append(log, p)
			if err := a.Add(number, p, now); err != nil {
				rt.Fatal(err)
			}
			if rapid.IntRange(0, 9).Draw(rt, "repeat") == 0 {
				number++
				log = append(log, p)
				if err := a.Add(number, p, now); err != nil {
					rt.Fatal(err)
				}
			}
		}
		released := uint64(0)
		due := func() {
			out, err := a.Due(now)
			if err != nil {
				rt.Fatal(err)
			}
			got.take(rt, out.Events)
			late.take(rt, out.Late)
			for k, v := range got {
				if strings.HasPrefix(v, "true") && v != w.truth[k] {
					rt.Fatalf("%s is told as %s, and was %s", k, v, w.truth[k])
				}
			}
		}
		for i := range rapid.IntRange(8, 24).Draw(rt, "scrapes") {
			before := map[string]string{}
			for k, v := range cards {
				before[k] = v
			}
			if i > 0 {
				switch rapid.IntRange(0, 6).Draw(rt, "event") {
				case 0: // a pod takes or leaves a card
					cards["GPU-a"] = rapid.SampledFrom([]string{"", "p1", "p2"}).Draw(rt, "pod")
				case 1: // a card goes or comes
					if _, ok := cards["GPU-d"]; ok {
						delete(cards, "GPU-d")
					} else {
						cards["GPU-d"] = ""
					}
				}
			}
			w.scrape(rt, at, cards, before)
			at += 30_000
			now = now.Add(30 * time.Second)
			for q := range w.queues {
				switch {
				case i < 4: // at first they all move
					send(q, len(w.queues[q]))
				default:
					send(q, rapid.IntRange(0, 8).Draw(rt, "sent"))
				}
				for len(w.queues[q]) > 0 && at-w.queues[q][0].at > 60_000 { // a queue that stands still stops them all
					send(q, 1)
				}
				if rapid.Bool().Draw(rt, "look") {
					now = now.Add(time.Duration(rapid.IntRange(0, 9).Draw(rt, "wait")) * time.Second)
					due()
				}
			}
			if rapid.IntRange(0, 9).Draw(rt, "crash") == 0 {
				due()
				saved, err := a.Checkpoint(now)
				if err != nil {
					rt.Fatal(err)
				}
				low := a.Lowest()
				log = log[low-1-released:]
				released = low - 1
				a = newAssembler(rt, saved)
				for i, p := range log {
					if err := a.Add(released+uint64(i)+1, p, now); err != nil {
						rt.Fatal(err)
					}
				}
			}
		}
		for q := range w.queues {
			send(q, len(w.queues[q]))
		}
		now = now.Add(time.Minute)
		due()
		now = now.Add(10 * time.Minute)
		due()
		if a.Waiting() != 0 || a.Lowest() != number+1 {
			rt.Errorf("%d samples wait for ever, message %d of %d is held", a.Waiting(), a.Lowest(), number)
		}
		for k := range w.truth {
			if got[k] == "" && late[k] == "" {
				rt.Errorf("%s was scraped, and is neither told nor put aside", k)
			}
		}
	})
}

// TestScrapesInPiecesAreThoseOfADirectScrape writes a handed scrape again and again, each time
// cut otherwise: once the target is known every one is whole at once, and says the same as
// its text.
func TestScrapesInPiecesAreThoseOfADirectScrape(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"k8s-8xh100-pods", "mig-node", "timeslice-perprocess", "slurm-hpc-job", "two-scrapes-t0"} {
		a, now := newAssembler(t, nil), start()
		samples := exposition(t, name)
		for i := range 6 {
			at := start().Add(time.Duration(i) * 30 * time.Second)
			pieces := make([][]written, 3+i)
			for j, s := range samples {
				s.at = at.UnixMilli()
				pieces[(j*7+i)%len(pieces)] = append(pieces[(j*7+i)%len(pieces)], s)
			}
			for j, p := range pieces {
				if err := a.Add(uint64(i*100+j+1), part(p...), now); err != nil {
					t.Fatal(err)
				}
				now = now.Add(100 * time.Millisecond)
			}
			if i < 4 { // it learns
				now = now.Add(30 * time.Second)
			}
			out, err := a.Due(now)
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Events) == 0 || len(out.Events) != 1 && i > 3 || out.Incomplete != 0 && i >= 4 || len(out.Late) != 0 {
				t.Fatalf("%s, scrape %d: %d events, %d incomplete, %d late", name, i, len(out.Events), out.Incomplete, len(out.Late))
			}
			var got event.GPUSamples
			if err := out.Events[len(out.Events)-1].Decode(&got); err != nil {
				t.Fatal(err)
			}
			if i >= 4 {
				want := direct(t, name, at)
				if diff := cmp.Diff(want.GPUs, got.GPUs); diff != "" || !got.Complete || !got.At.Equal(at) || got.Target != "n1:9400" || got.Node != want.Node {
					t.Errorf("%s, scrape %d of %s at %v: complete %t, node %s (-direct +written): %s", name, i, got.Target, got.At, got.Complete, got.Node, diff)
				}
			}
		}
	}
}

// exposition is a handed text as series of one target, its workload labels renamed.
func exposition(t testing.TB, name string) []written {
	t.Helper()
	var out []written
	for line := range strings.SplitSeq(scrapeText(t, name), "\n") {
		i := strings.LastIndex(line, "} ")
		if i < 0 || line[0] == '#' {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(line[i+2:], &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		metric, _, _ := strings.Cut(line, "{")
		if wanted, _ := gpuseries.Wanted(metric); wanted {
			out = append(out, written{text: line[:i+1], value: v})
		}
	}
	return out
}

func scrapeText(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "dcgm", "testdata", name+".prom"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "{", `{instance="n1:9400",job="gpu",`)
}

func direct(t testing.TB, name string, at time.Time) event.GPUSamples {
	t.Helper()
	var lines []string
	for _, s := range exposition(t, name) {
		lines = append(lines, fmt.Sprintf("%s %v %d\n", s.text, s.value, at.UnixMilli()))
	}
	return gpuseries.Read([]byte(strings.Join(lines, "")), gpuseries.Options{})[0]
}
