package runpod

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

func withSamples(c *Config) { c.Utilisation = true }

// A pod works for 20 minutes and then idles: the samples that processors/utilize judges are
// golden, and it has a test that reads them.
func TestSamplesOfAnIdlePod(t *testing.T) {
	t.Parallel()
	f := newFake(t, at("2026-11-10 10:00"))
	p := gpuPod("z1f6y8b3m0qtga", "atlas--finetune", "1.38", since("2026-11-10 09:00", "RUNNING"))
	p.count, p.util = 2, []int{95, 88}
	f.pods = []*fakePod{p}
	c, s := source(t, f, withSamples), newStore(t)
	for n := range 13 {
		if n == 4 {
			p.util = []int{0, 0}
		}
		must(t, pull(t, c, s))
		f.pass(5 * time.Minute)
	}
	var b strings.Builder
	for _, e := range s.events {
		if e.Type == event.TypeGPUSamples {
			line, err := e.JSON()
			must(t, err)
			fmt.Fprintln(&b, string(line))
		}
	}
	golden(t, "samples.events.jsonl", b.String())
}

// What RunPod does not show is a gap: a failed scrape, or a reading that is counted as refused.
func TestSamplesThatAreNone(t *testing.T) {
	t.Parallel()
	f := newFake(t, at("2026-11-10 10:00"))
	p := gpuPod("a", "a", "0.69", since("2026-11-10 09:00", "RUNNING"))
	stopped := gpuPod("b", "b", "0.69", since("2026-11-10 09:00", "EXITED"))
	f.pods = []*fakePod{p, stopped}
	for what, x := range map[string]struct {
		util  []int
		graph string
		want  string
	}{
		"shown":               {[]int{7}, "", "true [runpod:a:0=0.07] map[] "},
		"out of bounds":       {[]int{101}, "", "true [] map[out_of_bounds:1] "},
		"by GraphQL":          {nil, `{"data":{"myself":{"pods":[{"id":"a","runtime":{"gpus":[{"id":"GPU-2","gpuUtilPercent":50},{"id":"GPU-1","gpuUtilPercent":0}]}}]}}}`, "true [runpod:a:0=0 runpod:a:1=0.5] map[] "},
		"null in GraphQL":     {nil, `{"data":{"myself":{"pods":[{"id":"a","runtime":{"gpus":[{"id":"GPU-2","gpuUtilPercent":null}]}}]}}}`, "true [] map[no_signal:1] "},
		"nowhere":             {nil, `{"data":{"myself":{"pods":[{"id":"a","runtime":null}]}}}`, "false [] map[] RunPod shows no GPU"},
		"GraphQL is gone":     {nil, "", "false [] map[] RunPod shows no GPU of this pod (runtime.gpus is empty), and: asking RunPod GraphQL: POST : 404"},
		"GraphQL disagrees":   {nil, `{"errors":[{"message":"no"}],"data":null}`, "answers with an error: no"},
		"GraphQL says nobody": {nil, `{"data":{"myself":null}}`, "no data.myself"},
	} {
		p.util, f.graph = x.util, x.graph
		s := newStore(t)
		must(t, pull(t, source(t, f, withSamples), s))
		all := told[event.GPUSamples](s, event.TypeGPUSamples)
		if len(all) != 1 || all[0].Node != "a" {
			t.Fatalf("%s: %d scrapes", what, len(all))
		}
		var gpus []string
		for _, g := range all[0].GPUs {
			gpus = append(gpus, fmt.Sprintf("%s=%v", g.UUID, *g.Utilization))
		}
		if got := fmt.Sprint(all[0].OK, " ", gpus, " ", all[0].Rejected, " ", all[0].Error); !strings.Contains(got, x.want) {
			t.Errorf("%s: got %q, want %q", what, got, x.want)
		}
	}
}

// The balance is a fact if it comes, and no failure if it does not.
func TestBalance(t *testing.T) {
	t.Parallel()
	for graph, want := range map[string]string{
		string(sample(t, "graphql_myself")): "312.47 USD 5.54 80",
		"":                                  "",
		`{"data":{"myself":{"currentSpendPerHr":1}}}`:          "",
		`{"data":{"myself":{"clientBalance":-1.25}}}`:          "-1.25 USD <nil> <nil>",
		`{"errors":[{"message":"gone"}],"data":{"myself":{}}}`: "",
	} {
		f := newFake(t, at("2026-11-10 10:00"))
		f.graph = graph
		s := newStore(t)
		must(t, pull(t, source(t, f, func(c *Config) { c.Balance = true }), s))
		got := ""
		for _, w := range told[event.Wallet](s, event.TypeInventoryWallet) {
			got += fmt.Sprint(w.Balance, " ", w.Currency, " ", w.SpendPerHour, " ", w.SpendLimit)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", graph, got, want)
		}
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	ok := func(string) (int, http.Header, string) { return 0, nil, "" }
	refuse := func(prefix string, status int) func(string) (int, http.Header, string) {
		return func(path string) (int, http.Header, string) {
			if strings.HasPrefix(path, prefix) {
				return status, nil, fmt.Sprintf(`{"title":"no","status":%d,"detail":"key %s"}`, status, testKey)
			}
			return 0, nil, ""
		}
	}
	for name, x := range map[string]struct {
		fault func(string) (int, http.Header, string)
		skew  time.Duration
		key   string
		empty bool
		want  []string
	}{
		"well":            {ok, 0, testKey, false, []string{"ok GET /billing", "ok clock", "ok GET /pods"}},
		"wrong key":       {ok, 0, "another-key-entirely", false, []string{"fail GET /pods"}},
		"no billing":      {refuse("/billing", 403), 0, testKey, false, []string{"fail GET /billing/pods", "fail GET /billing", "ok GET /pods"}},
		"no catalogue":    {refuse("/catalog", 403), 0, testKey, false, []string{"fail GET /catalog/gpus", "ok GET /billing"}},
		"old API":         {refuse("/", 410), 0, testKey, false, []string{"fail GET /pods"}},
		"throttled":       {refuse("/pods", 429), 0, testKey, false, []string{"warn GET /pods"}},
		"clock off":       {ok, time.Hour, testKey, false, []string{"warn clock"}},
		"nothing billed":  {ok, 0, testKey, true, []string{"warn GET /billing"}},
		"no balance":      {refuse("/graphql", 404), 0, testKey, false, []string{"warn GraphQL myself (balance)"}},
		"no key anywhere": {ok, 0, "", false, []string{"fail API key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, at("2026-11-10 10:00"))
			f.graph = string(sample(t, "graphql_myself"))
			if !x.empty {
				f.pods = []*fakePod{gpuPod("a", "a", "0.69", since("2026-11-10 08:00", "RUNNING"))}
			}
			f.fault = x.fault
			c := source(t, f, func(c *Config) {
				c.Balance = true
				c.Now = func() time.Time { return f.now.Add(x.skew) }
			})
			rewrite(t, c.cfg.File, x.key)
			found := c.Doctor(t.Context())
			var got []string
			for _, d := range found {
				got = append(got, d.Level+" "+d.What)
				if strings.Contains(fmt.Sprint(d), testKey) {
					t.Errorf("the key is printed: %v", d)
				}
				if (d.Fix == "") != (d.Level == connectors.OK) || d.Said == "" {
					t.Errorf("%+v: wants words, and a fix unless it is well", d)
				}
			}
			for _, w := range x.want {
				if !slices.Contains(got, w) {
					t.Errorf("got %q, want %q", got, w)
				}
			}
			if x.want[0][:2] == "ok" && slices.ContainsFunc(got, func(l string) bool { return l[:2] != "ok" }) {
				t.Errorf("got %q", got)
			}
		})
	}
}
