package runpod

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/lines"
	"github.com/idlewatt/idlewatt/schema/money"
)

func rewrite(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func num(s string) money.Decimal { return decimal.RequireFromString(s) }

func ptr(s string) *money.Decimal {
	d := num(s)
	return &d
}

func TestConfigNamesItsMistakes(t *testing.T) {
	t.Parallel()
	good := func() *Config {
		c := defaults()
		c.Key = rest.Key{Env: "X"}
		return c
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(c *Config){
		"api_key_env: ":                        func(c *Config) { c.Key = rest.Key{} },
		"base_url: \"x\" is no":                func(c *Config) { c.BaseURL = "x" },
		"base_url: \"https://user":             func(c *Config) { c.BaseURL = "https://user:pw@h/v2" },
		"REST v1, which RunPod has switched":   func(c *Config) { c.BaseURL = "https://rest.runpod.io/v1/" },
		"graphql_url: ":                        func(c *Config) { c.Balance, c.GraphURL = true, "" },
		"window_days: 0":                       func(c *Config) { c.WindowDays = 0 },
		"window_days: 32":                      func(c *Config) { c.WindowDays = 32 },
		"billing_every: ":                      func(c *Config) { c.BillingEvery = 0 },
		"since: \"yesterday\"":                 func(c *Config) { c.Since = "yesterday" },
		"no regular expression":                func(c *Config) { c.ProjectFromName = "(" },
		"has no group":                         func(c *Config) { c.ProjectFromName = "(.*)--" },
		"env_tags[1]: ":                        func(c *Config) { c.EnvTags = []string{"A", " "} },
		"storage_prices.volume_stopped: ":      func(c *Config) { c.StoragePrices.VolumeStopped = "0,2" },
		"storage_prices.hours_per_month: 0 is": func(c *Config) { c.StoragePrices.HoursPerMonth = "0" },
		"storage_prices.container_running: -1": func(c *Config) { c.StoragePrices.ContainerRunning = "-1" },
	} {
		c := good()
		change(c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want one with %q", err, field)
		}
	}
}

// Prices are written with quotes or without.
func TestPricesInYAML(t *testing.T) {
	t.Parallel()
	c := defaults()
	must(t, yaml.UnmarshalWithOptions([]byte("api_key_env: X\nstorage_prices: {volume_stopped: 0.30, high_performance: \"0.14\"}\n"), c, yaml.Strict()))
	must(t, c.Validate())
	gb := c.StoragePrices.perHour()
	if got := gb["volume_stopped"].Mul(num("720")).Round(9); !got.Equal(num("0.3")) {
		t.Errorf("volume_stopped is %s a month", got)
	}
	if got := gb["container_running"].Mul(num("720")).Round(9); !got.Equal(num("0.1")) {
		t.Errorf("the default is gone: %s", got)
	}
}

func TestVolumeRates(t *testing.T) {
	t.Parallel()
	c := &connector{gb: StoragePrices{NetworkFirstTB: "0.72", NetworkBeyond: "0.36", HoursPerMonth: "720"}.perHour()}
	for _, x := range []struct{ typ, size, want string }{
		{"STANDARD", "500", "0.5"}, {"STANDARD", "1000", "1"}, {"STANDARD", "3000", "2"}, {"HIGH_PERFORMANCE", "500", ""}, {"NEW", "500", ""},
	} {
		got := c.volumeRate(volume{Type: x.typ, Size: amount{num(x.size), true}})
		if (got == nil) != (x.want == "") || got != nil && !got.Equal(num(x.want)) {
			t.Errorf("%s GB of %s cost %v an hour, want %q", x.size, x.typ, got, x.want)
		}
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"NVIDIA H100 80GB HBM3": "H100", "NVIDIA H100 PCIe": "H100 PCIe", "NVIDIA H100 NVL": "H100 NVL", "NVIDIA H200": "H200", "NVIDIA B200": "B200",
		"NVIDIA A100-SXM4-80GB": "A100 80GB", "NVIDIA A100 80GB PCIe": "A100 80GB PCIe", "NVIDIA GeForce RTX 4090": "RTX 4090", "NVIDIA L40S": "L40S",
		"NVIDIA RTX 6000 Ada Generation": "RTX 6000 Ada", "NVIDIA RTX A4000": "RTX A4000", "AMD Instinct MI300X OAM": "MI300X", "Tesla V100-SXM2-32GB": "V100 32GB",
	} {
		if got := model(id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
}

// Hours come from the price, else from what was seen, else not at all.
func TestHoursAreClaimedOnlyWhereTheyAreKnown(t *testing.T) {
	t.Parallel()
	from, to := at("2026-11-10 10:00"), at("2026-11-10 11:00")
	span1 := func(a, b, rate string) span {
		s := span{From: at("2026-11-10 " + a), To: at("2026-11-10 " + b)}
		if rate != "" {
			s.Rate = ptr(rate)
		}
		return s
	}
	gpu := func(t thing) *thing {
		t.GPU, t.Count = "NVIDIA GeForce RTX 4090", 2
		return &t
	}
	until := at("2026-11-10 10:33")
	closed := span1("10:00", "10:30", "")
	closed.Until = &until
	vague := at("2026-11-10 10:50")
	open := span1("10:00", "10:30", "")
	open.Until = &vague
	first, next := span1("10:00", "10:30", "1"), at("2026-11-10 10:30")
	first.Until = &next
	gpus := map[string]offer{}
	must(t, json.Unmarshal([]byte(`{"NVIDIA GeForce RTX 4090":{"price":{"secure":0.69,"community":0.34}}}`), &gpus))
	for name, x := range map[string]struct {
		thing  *thing
		amount string
		want   string
	}{
		"whole hour":                    {gpu(thing{Rate: ptr("1.38")}), "1.38", "1"},
		"a part":                        {gpu(thing{Rate: ptr("1.38")}), "0.46", "0.333333333333"},
		"rounded up a little":           {gpu(thing{Rate: ptr("1.38")}), "1.380001", "1"},
		"the span's rate, not the last": {gpu(thing{Rate: ptr("9"), Spans: []span{span1("10:00", "11:00", "1.38")}}), "0.69", "0.5"},
		"dearer than the price":         {gpu(thing{Rate: ptr("1")}), "1.38", ""},
		"dearer, but seen":              {gpu(thing{Rate: ptr("1"), Spans: []span{span1("09:00", "12:00", "1")}}), "1.38", "1"},
		"two rates, seen":               {gpu(thing{Spans: []span{first, span1("10:30", "11:00", "2")}}), "1.5", "1"},
		"no rate, seen to end":          {gpu(thing{Spans: []span{closed}}), "0.7", "0.5"},
		"no rate, end is not known":     {gpu(thing{Spans: []span{open}}), "0.7", ""},
		"by the catalogue, secure":      {gpu(thing{Cloud: "SECURE"}), "1.38", "1"},
		"by the catalogue, community":   {gpu(thing{Cloud: "COMMUNITY"}), "0.34", "0.5"},
		"no price at all":               {gpu(thing{}), "1.38", ""},
		"a refund":                      {gpu(thing{Rate: ptr("1.38")}), "-1.38", ""},
		"a CPU":                         {&thing{GPU: "cpu3c", CPU: true, Rate: ptr("1")}, "1", ""},
		"nothing is known":              {&thing{}, "1", ""},
	} {
		l := lines.Line{}
		ledger{gpus: gpus}.gpu(&l, routes[0], row{from: from, to: to}, x.thing, num(x.amount))
		got := ""
		if l.MachineHours != nil {
			got = l.MachineHours.String()
		}
		if got != x.want || (got == "") != strings.Contains(l.ChargeDescription, "not known") {
			t.Errorf("%s: %q hours, want %q (%s)", name, got, x.want, l.ChargeDescription)
		}
	}
}

// A provider's own sum of doubles is believed within their rounding and no further.
func TestNear(t *testing.T) {
	t.Parallel()
	var s sum
	for range 1000 {
		s.add(num("0.028333"))
	}
	for told, want := range map[string]bool{"28.333": true, "28.333333333333": true, "28.332999999999995": true, "28.34": false, "0": false, "28.332": false} {
		if s.near(num(told)) != want {
			t.Errorf("1000 x 0.028333 near %s is %v", told, !want)
		}
	}
	var none sum
	if !none.near(num("0")) || none.near(num("0.00001")) {
		t.Error("nothing is near something")
	}
}

// The memory forgets what the bill no longer speaks of, and never outgrows the bus.
func TestMemoryStaysSmall(t *testing.T) {
	t.Parallel()
	now := at("2026-11-10 10:00")
	m, err := remember(nil)
	must(t, err)
	m.Runs.Seen = now
	for i := range 9000 {
		last := now.Add(-time.Duration(i) * time.Minute)
		m.Things[whatPod+"/"+strings.Repeat("p", 10)+decimal.NewFromInt(int64(i)).String()] = &thing{Name: strings.Repeat("n", 60), GPU: "NVIDIA H100 80GB HBM3", Last: last}
	}
	cur, err := m.cursor(now, 5*24*time.Hour)
	must(t, err)
	if len(cur) > largest {
		t.Errorf("%d bytes", len(cur))
	}
	back, err := remember(cur)
	must(t, err)
	for _, x := range back.Things {
		if x.Last.Before(now.Add(-5 * 24 * time.Hour)) {
			t.Errorf("it remembers %v", x.Last)
		}
	}
	if back.Things[whatPod+"/pppppppppp0"] == nil {
		t.Error("what is there now is forgotten")
	}
}

// FuzzFold takes any list into an empty memory: no panic, and no secret in what comes out.
func FuzzFold(f *testing.F) {
	for _, n := range lists {
		f.Add(sample(f, n))
	}
	f.Add(sample(f, "v1_legacy_pods"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var s sight
		if decode(body, &s.listing) != nil {
			return
		}
		m, err := remember(nil)
		must(t, err)
		c := &connector{cfg: *defaults(), gb: defaults().StoragePrices.perHour()}
		now := at("2026-09-04 10:00")
		for _, i := range m.Runs.Poll(now, c.fold(m, &s, now), false) {
			if i.SeenFrom.After(now) {
				t.Errorf("%s begins in the future: %v", i.ResourceID, i.SeenFrom)
			}
		}
		if _, err := m.cursor(now, 24*time.Hour); err != nil {
			t.Error(err)
		}
	})
}
