package lambda

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// world is a fake whose clock stands at a time, inside a bubble of synctest.
func world(t testing.TB, start time.Time) *fake {
	t.Helper()
	began := time.Now()
	return &fake{
		t: t, now: func() time.Time { return start.Add(time.Since(began)) }, pageSize: 2, answer: map[string]func(http.ResponseWriter){},
	}
}

// at is a time on 5 November 2026.
func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05", "2026-11-05T"+clock)
	if err != nil {
		panic(err)
	}
	return t
}

func node(id, launched, healthy, terminated string) machine {
	m := machine{id: id, kind: "gpu_8x_h100_sxm5", cents: 2392, launched: at(launched)}
	if healthy != "" {
		m.healthy = at(healthy)
	}
	if terminated != "" {
		m.terminated = at(terminated)
	}
	return m
}

func clock(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format("15:04:05")
}

func lines(runs map[string]event.Instance) []string {
	var out []string
	for _, r := range runs {
		rate := "-"
		if r.Rate != nil {
			rate = r.Rate.String()
		}
		out = append(out, strings.Join([]string{r.ResourceID, clock(&r.SeenFrom), clock(r.SeenTo), clock(r.StartedAfter), clock(r.EndedBefore), rate, r.PricingModel}, " "))
	}
	slices.Sort(out)
	return out
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Case 021: billed from healthy to terminated, in minutes; the file system until it is deleted.
// What processors/rate makes of these runs is 53.82 for 135 minutes, and 4.80 for 48 hours.
func TestCase021(t *testing.T) {
	t.Parallel()
	var in struct {
		Instance struct {
			ID                  string
			GPUs                int
			Price               string    `json:"price_per_gpu_hour"`
			Launch              time.Time `json:"launch_requested"`
			Healthy, Terminated time.Time
			_                   struct{}
		}
		Filesystem struct {
			GiB      int64
			Price    string `json:"price_per_gib_month"`
			Hours    int    `json:"hours_per_month"`
			Existing int    `json:"hours_existing"`
		}
	}
	must(t, json.Unmarshal(read(t, "case021.json"), &in))
	synctest.Test(t, func(t *testing.T) {
		f := world(t, in.Instance.Launch.Add(-5*time.Minute))
		f.machines = []machine{{
			id: in.Instance.ID, kind: "gpu_8x_h100_sxm5", cents: 2392, launched: in.Instance.Launch, healthy: in.Instance.Healthy, terminated: in.Instance.Terminated,
		}}
		f.volumes = []volume{{id: "fs", created: in.Instance.Launch.Add(-24 * time.Hour), bytes: in.Filesystem.GiB << 30}}
		c, k := f.source(t, func(c *Config) { c.FilesystemPrice, c.HoursPerMonth = in.Filesystem.Price, in.Filesystem.Hours }), &sink{}
		for range 150 {
			must(t, k.pull(t.Context(), c))
			time.Sleep(time.Minute - f.now().Sub(f.now().Truncate(time.Minute)))
		}
		var run, fs event.Instance
		for _, r := range k.runs(t) {
			if r.Kind == event.KindVolume {
				fs = r
			} else {
				run = r
			}
		}
		if len(k.runs(t)) != 2 || !run.SeenFrom.Equal(in.Instance.Healthy) || !run.SeenTo.Equal(in.Instance.Terminated) || run.EndedBefore != nil ||
			!run.StartedAfter.Equal(in.Instance.Healthy.Add(-time.Minute)) || run.Step != 60 || run.GPUCount.String() != "8" || run.GPUModel != "H100" {
			t.Fatalf("runs %+v", k.runs(t))
		}
		minutes := decimal.NewFromInt(int64(run.SeenTo.Sub(run.SeenFrom) / time.Minute))
		if cost := run.Rate.Mul(minutes).Div(decimal.NewFromInt(60)); minutes.String() != "135" || !cost.Equal(decimal.RequireFromString("53.82")) {
			t.Errorf("%s minutes cost %s", minutes, cost)
		}
		if cost := fs.Rate.Mul(decimal.NewFromInt(int64(in.Filesystem.Existing))); !cost.Equal(decimal.RequireFromString("4.80")) || fs.Step != 0 {
			t.Errorf("file system costs %s", cost)
		}
	})
}

func TestRunsFollowPollsAndAuditLog(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		late time.Duration
		dumb bool
		want []string
	}{
		"with the log": {0, false, []string{
			"back 10:04:00 10:06:00 10:03:00 10:07:00 23.92 on_demand", // left active: the log says nothing of it
			"back 10:09:00 10:12:20 10:08:00 - 23.92 on_demand",
			"brief 10:05:40 10:05:40 10:05:10 - 23.92 on_demand", // between two polls: 0 to 30 s
			"gone 10:03:00 10:05:30 10:02:10 - 23.92 on_demand",
			"old 10:00:00 - - - 23.92 on_demand",
			"stuck 10:11:30 10:11:30 10:04:30 - 23.92 on_demand", // never healthy
		}},
		"the log is late": {3 * time.Minute, false, []string{
			"back 10:04:00 10:06:00 10:03:00 10:07:00 23.92 on_demand",
			"back 10:09:00 10:12:20 10:08:00 - 23.92 on_demand",
			"brief 10:05:40 10:05:40 10:05:10 - 23.92 on_demand",
			"gone 10:03:00 10:05:30 10:02:10 - 23.92 on_demand",
			"old 10:00:00 - - - 23.92 on_demand",
			"stuck 10:11:30 10:11:30 10:04:30 - 23.92 on_demand",
		}},
		"no log": {0, true, []string{
			"back 10:04:00 10:06:00 10:03:00 10:07:00 23.92 on_demand",
			"back 10:09:00 10:12:00 10:08:00 10:13:00 23.92 on_demand",
			"gone 10:03:00 10:05:00 10:02:00 10:06:00 23.92 on_demand",
			"old 10:00:00 - - - 23.92 on_demand",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := world(t, at("10:00:00"))
				f.late, f.dumb = x.late, x.dumb
				back := node("back", "10:01:00", "10:03:30", "10:12:20")
				back.breaks = [][2]time.Time{{at("10:06:30"), at("10:08:10")}}
				f.machines = []machine{
					node("old", "00:00:00", "00:10:00", ""), node("gone", "10:02:10", "10:02:50", "10:05:30"), node("brief", "10:05:10", "10:05:20", "10:05:40"),
					node("stuck", "10:04:30", "", "10:11:30"), back,
				}
				f.machines[0].launched = at("00:00:00").AddDate(0, 0, -9)
				c, k := f.source(t, nil), &sink{}
				for range 20 {
					must(t, k.pull(t.Context(), c))
					time.Sleep(time.Minute - f.now().Sub(f.now().Truncate(time.Minute)))
				}
				same(t, lines(k.runs(t)), x.want)
			})
		})
	}
}

// While nobody asks, machines come and go: the log tells them, with what booting may take left open.
func TestOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := world(t, at("10:00:00"))
		f.machines = []machine{
			node("before", "02:00:00", "02:05:00", "06:00:00"), node("through", "09:00:00", "09:05:00", ""), node("ended", "09:00:00", "09:05:00", "11:30:10"),
			node("inside", "10:30:00", "10:36:00", "12:00:20"), node("begun", "11:00:00", "11:06:00", ""),
		}
		c, k := f.source(t, nil), &sink{}
		must(t, k.pull(t.Context(), c))
		time.Sleep(at("13:00:00").Sub(f.now()))
		must(t, k.pull(t.Context(), c))
		same(t, lines(k.runs(t)), []string{
			"before 02:15:00 06:00:00 02:00:00 - 23.92 on_demand",
			"begun 13:00:00 - 11:00:00 - 23.92 on_demand",
			"ended 10:00:00 11:30:10 09:00:00 - 23.92 on_demand",
			"inside 10:45:00 12:00:20 10:30:00 - 23.92 on_demand",
			"through 10:00:00 - 09:00:00 - 23.92 on_demand",
		})
		if tags := k.runs(t)["machine begun 2026-11-05T13:00:00Z"].Tags; fmt.Sprint(tags) != "map[launched_with_key:key-of-atlas project:atlas]" {
			t.Errorf("tags %v", tags)
		}
	})
}

func TestClustersAreCommitments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := world(t, at("10:00:00"))
		f.machines = []machine{node("single", "09:00:00", "09:05:00", ""), node("member", "09:00:00", "09:05:00", "")}
		f.machines[1].cluster = "c-1"
		c, k := f.source(t, func(c *Config) { c.Clusters = []string{"c-1"} }), &sink{}
		must(t, k.pull(t.Context(), c))
		same(t, lines(k.runs(t)), []string{"member 10:00:00 - 09:00:00 - - cluster", "single 10:00:00 - 09:00:00 - 23.92 on_demand"})
	})
}

func TestFileSystemsCostWhatIsInThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := world(t, at("10:00:00"))
		f.volumes = []volume{
			{id: "grows", created: at("09:00:00"), bytes: 360 << 30, changes: at("11:30:00"), then: 720 << 30},
			{id: "new", created: at("11:10:00"), bytes: 1},
		}
		c, k := f.source(t, nil), &sink{}
		for range 4 {
			must(t, k.pull(t.Context(), c))
			time.Sleep(time.Hour - f.now().Sub(f.now().Truncate(time.Hour)))
		}
		same(t, lines(k.runs(t)), []string{
			"grows 10:00:00 12:00:00 09:00:00 - 0.1 on_demand",
			"grows 12:00:00 - - - 0.2 on_demand",
			"new 12:00:00 - 11:10:00 - 0.000000000000258701 on_demand", // 0.20 / 720 / 2^30
		})
	})
}

// One request a second is allowed; polls and prices are told; a refused part stops no poll.
func TestLimitsPricesAndRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := world(t, at("10:00:00"))
		f.machines = []machine{node("a", "09:00:00", "09:05:00", "")}
		f.answer["/audit-events"] = func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write(read(t, "lambda_error.json"))
		}
		c, k := f.source(t, nil), &sink{}
		err := k.pull(t.Context(), c)
		if err == nil || connectors.IsPermanent(err) || !strings.Contains(err.Error(), "/audit-events") || !strings.Contains(err.Error(), "asked again in 1h0m0s") {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Minute)
		must(t, k.pull(t.Context(), c))
		if p := of[event.Poll](t, k, event.TypeInventoryPoll); len(p) != 2 || p[1].Running != 1 || p[1].Source != "src" {
			t.Errorf("polls %+v", p)
		}
		var prices []string
		for _, p := range of[event.Price](t, k, event.TypeInventoryPrice)[:3] {
			prices = append(prices, p.InstanceType+" "+p.Rate.String()+" "+p.Per+" "+p.PricingModel+" "+p.Region)
		}
		same(t, prices, []string{"cpu_4x_general 0.08 machine on_demand ", "gpu_1x_a10 0.75 machine on_demand ", "gpu_8x_h100_sxm5 23.92 machine on_demand "})
		for i := 1; i < len(f.asked); i++ {
			a, _ := time.Parse(time.RFC3339Nano, f.asked[i-1])
			b, _ := time.Parse(time.RFC3339Nano, f.asked[i])
			if b.Sub(a) < time.Second {
				t.Errorf("two requests within %v", b.Sub(a))
			}
		}
		n := len(k.events)
		time.Sleep(time.Minute)
		f.answer["/instances"] = func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{}`)) }
		if err := k.pull(t.Context(), c); err == nil || !strings.Contains(err.Error(), "answered no data") || len(k.events) != n {
			t.Errorf("an empty answer gave %v", err)
		}
		f.answer["/instances"] = func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }
		if after, ok := connectors.RetryAfter(k.pull(t.Context(), c)); !ok || after <= 0 {
			t.Error("429 does not say when to ask again")
		}
		f.answer["/instances"] = func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write(read(t, "lambda_error.json"))
		}
		if err := k.pull(t.Context(), c); !connectors.IsPermanent(err) || !strings.Contains(err.Error(), "API key was invalid") {
			t.Errorf("a refused key gave %v", err)
		}
	})
}

func TestSecretsStayOutside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := world(t, at("10:00:00"))
		f.machines, f.volumes = []machine{node("a", "09:00:00", "09:05:00", "10:30:00")}, []volume{{id: "fs", created: at("01:00:00"), bytes: 9}}
		c, k := f.source(t, nil), &sink{}
		must(t, k.pull(t.Context(), c))
		time.Sleep(time.Hour)
		must(t, k.pull(t.Context(), c))
		all := string(k.kept)
		for _, e := range k.events {
			line, err := e.JSON()
			must(t, err)
			all += string(line)
		}
		for _, s := range []string{"SECRET", secret, "198.51.100.21", "@example.com", "jupyter"} {
			if strings.Contains(all, s) {
				t.Errorf("%q is stored", s)
			}
		}
	})
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := world(t, at("10:00:00"))
		c := f.source(t, nil)
		levels := func() string {
			s := ""
			for _, x := range c.Doctor(t.Context()) {
				s += x.What + " " + x.Level + ", "
				if strings.Contains(x.Said+x.Fix, secret) || (x.Fix == "") != (x.Level == connectors.OK) {
					t.Errorf("finding %+v", x)
				}
			}
			return s
		}
		if got := levels(); got != "instances ok, file systems ok, prices ok, audit log ok, rights of the key warn, clock ok, " {
			t.Error(got)
		}
		f.answer["/instances"] = func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }
		f.answer["/audit-events"] = func(w http.ResponseWriter) {
			w.Header().Set("Date", f.now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusNotFound)
		}
		if got := levels(); got != "instances fail, file systems ok, prices ok, audit log warn, rights of the key warn, clock warn, " {
			t.Error(got)
		}
		c.cfg.Key.File = "gone"
		if got := levels(); got != "API key fail, " {
			t.Error(got)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	err := (&Config{BaseURL: "x", FilesystemPrice: "free", Clusters: []string{"a b"}}).Validate()
	if err == nil {
		t.Fatal("taken")
	}
	for _, field := range []string{"api_key_env", "base_url", "filesystem_price_per_gib_month", "hours_per_month", "clusters[0]"} {
		if !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
}

func TestModelsAreCatalogueWords(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"H100 (80 GB SXM5)": "H100", "A100 (40 GB SXM4)": "A100 40GB", "A100 (80 GB SXM4)": "A100 80GB", "A10 (24 GB PCIe)": "A10",
		"Tesla V100 (16 GB)": "V100 16GB", "GH200 (96 GB)": "GH200", "RTX 6000 (24 GB)": "RTX 6000", "something new": "something new",
	} {
		if got := model(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
