package runpod

import (
	"bytes"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/lines"
	"github.com/idlewatt/idlewatt/schema/money"
)

var update = flag.Bool("update", false, "write golden files anew")

// Files of the samples.
var (
	bills  = []string{"v2_billing_pods", "v2_billing_serverless", "v2_billing_endpoints", "v2_billing_network-volumes", "v2_billing_clusters"}
	lists  = []string{"v2_pods", "v2_serverless", "v2_network-volumes", "v2_clusters", "v2_catalog_gpus", "v2_catalog_cpus"}
	legacy = []string{"v1_legacy_billing_pods", "v1_legacy_billing_endpoints", "v1_legacy_billing_networkvolumes", "v1_legacy_pods"}
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "runpod_"+name+".json"))
	must(t, err)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func files(t testing.TB, names ...string) []connectors.File {
	t.Helper()
	var out []connectors.File
	for _, n := range names {
		out = append(out, connectors.File{Name: n + ".json", Source: "pods", Account: "acme", Body: bytes.NewReader(sample(t, n))})
	}
	return out
}

// read imports files and returns the text of the lines and the covered days.
func read(ctx context.Context, in []connectors.File) (string, []string, error) {
	var b bytes.Buffer
	w, err := lines.NewWriter(&b)
	if err != nil {
		return "", nil, err
	}
	covers, err := fileLines(ctx, in, w)
	if err == nil {
		err = w.Close()
	}
	return b.String(), covers, err
}

// charge is one line by the names of its columns.
type charge map[string]string

func charges(t testing.TB, text string) []charge {
	t.Helper()
	recs, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	must(t, err)
	var out []charge
	for _, r := range recs[1:] {
		c := charge{}
		for i, name := range recs[0] {
			c[name] = r[i]
		}
		out = append(out, c)
	}
	return out
}

func total(t testing.TB, cs []charge, keep func(c charge) bool) money.Decimal {
	t.Helper()
	var out money.Decimal
	for _, c := range cs {
		if keep(c) {
			d, rounded, err := money.Parse(c["BilledCost"])
			if err != nil || rounded {
				t.Fatalf("BilledCost %q: %v", c["BilledCost"], err)
			}
			out = out.Add(d)
		}
	}
	return out
}

func where(column, value string) func(c charge) bool {
	return func(c charge) bool { return c[column] == value }
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s: got\n%s", name, got)
	}
}

// Three days of all products: the lines add up to what /v2/billing says, to the last digit,
// whatever the order of the files.
func TestSamplesAddUpExactly(t *testing.T) {
	t.Parallel()
	names := slices.Concat(bills, lists, []string{"v2_billing"})
	text, covers, err := read(t.Context(), files(t, names...))
	must(t, err)
	golden(t, "sample.lines.csv", text)
	if want := []string{"2026-09-01", "2026-09-02", "2026-09-03"}; !slices.Equal(covers, want) {
		t.Errorf("covers %v", covers)
	}
	cs := charges(t, text)
	for what, want := range map[string]string{
		"": "361.443056", "Pods": "26.200556", "Serverless": "12.5325", "Public Endpoints": "3.21", "Network Volumes": "6.3", "Instant Clusters": "313.2",
		"2026-09-01": "342.971667", "2026-09-02": "13.334722", "2026-09-03": "5.136667",
	} {
		got := total(t, cs, func(c charge) bool {
			return what == "" || c["ServiceName"] == what || strings.HasPrefix(c["ChargePeriodStart"], what)
		})
		if !got.Equal(decimal.RequireFromString(want)) {
			t.Errorf("%q adds up to %s, want %s", what, got, want)
		}
	}
	if !Factory().Formats[0].Private {
		t.Error("files with a pod's environment would be archived")
	}
	if strings.Contains(text, "PROJECT") || strings.Contains(text, "env") {
		t.Error("a pod's environment is in the lines")
	}
	slices.Reverse(names)
	again, _, err := read(t.Context(), files(t, names...))
	must(t, err)
	a, b := strings.Split(text, "\n"), strings.Split(again, "\n")
	slices.Sort(a)
	slices.Sort(b)
	if !slices.Equal(a, b) {
		t.Error("another order of the files gives other lines")
	}
}

// What a stopped pod and a running one cost, and for how many hours of which GPU.
func TestSampleLinesSayWhatWasBilled(t *testing.T) {
	t.Parallel()
	text, _, err := read(t.Context(), files(t, slices.Concat(bills, lists)...))
	must(t, err)
	find := func(id, day, meter string) charge {
		for _, c := range charges(t, text) {
			if c["ResourceId"] == id && strings.HasPrefix(c["ChargePeriodStart"], day) && c["SkuMeter"] == meter {
				return c
			}
		}
		return charge{}
	}
	for _, x := range []struct {
		id, day, meter string
		want           charge
	}{
		{"q7k2mz9t4vxw1a", "2026-09-01", "GPU", charge{"BilledCost": "16.56", "x_MachineHours": "24", "x_GpuCount": "1", "x_GpuModel": "RTX 4090", "x_PricingModel": "on_demand", "ResourceName": "atlas--dev-box", "RegionId": "US-KS-2"}},
		{"q7k2mz9t4vxw1a", "2026-09-02", "GPU", charge{"BilledCost": "6.9", "x_MachineHours": "10"}},
		{"q7k2mz9t4vxw1a", "2026-09-02", "Disk", charge{"BilledCost": "0.597222", "x_LineItemType": "storage_running", "x_MachineHours": ""}},
		{"q7k2mz9t4vxw1a", "2026-09-03", "Disk", charge{"BilledCost": "0.666667", "x_LineItemType": "storage_stopped", "x_MachineHours": "", "x_GpuModel": ""}},
		{"q7k2mz9t4vxw1a", "2026-09-03", "GPU", charge{"BilledCost": ""}},
		{"c3n8rdl5hs0byu", "2026-09-01", "CPU", charge{"BilledCost": "0.96", "ResourceName": "", "x_GpuModel": "", "x_MachineHours": ""}},
		{"m4x9v2k7qa", "2026-09-01", "GPU", charge{"x_MachineHours": "6.75", "x_GpuModel": "RTX 4090", "x_PricingModel": "serverless"}},
		{"m4x9v2k7qa", "2026-09-01", "Platform fee", charge{"BilledCost": "0.99", "x_LineItemType": "platform_fee"}},
		{"k8w3s6n1ye", "2026-09-01", "GPU", charge{"BilledCost": "307.2", "x_GpuModel": "H100", "x_GpuCount": "16", "x_MachineHours": "", "x_PricingModel": "cluster"}},
		{"hx0d8c2w5j", "2026-09-01", "Standard", charge{"BilledCost": "1.166667", "x_LineItemType": "network_volume", "ServiceCategory": "Storage"}},
	} {
		got := find(x.id, x.day, x.meter)
		for k, v := range x.want {
			if got[k] != v {
				t.Errorf("%s %s %s: %s is %q, want %q", x.id, x.day, x.meter, k, got[k], v)
			}
		}
	}
}

// Bills alone, without any list, claim no GPU hours and say so.
func TestNoInventoryClaimsNoHours(t *testing.T) {
	t.Parallel()
	text, _, err := read(t.Context(), files(t, "v2_billing_pods"))
	must(t, err)
	for _, c := range charges(t, text) {
		if c["x_MachineHours"]+c["x_GpuModel"]+c["x_GpuCount"]+c["x_PricingModel"] != "" {
			t.Errorf("claims %v", c)
		}
		if c["SkuMeter"] == "GPU" && !strings.Contains(c["ChargeDescription"], "not known") {
			t.Errorf("description %q", c["ChargeDescription"])
		}
	}
}

// Exports of v1: money in `amount`, rates in quotes, volumes with both kinds in one amount.
func TestOldExports(t *testing.T) {
	t.Parallel()
	text, covers, err := read(t.Context(), files(t, legacy...))
	must(t, err)
	golden(t, "legacy.lines.csv", text)
	cs := charges(t, text)
	if got := total(t, cs, func(charge) bool { return true }); got.String() != "34.945" {
		t.Errorf("%s in all, want 16.56 + 7.49 + 8.795 + 2.1", got)
	}
	if got := total(t, cs, where("SkuMeter", "High performance")); got.String() != "0.933333" {
		t.Errorf("%s of high performance", got)
	}
	if !slices.Equal(covers, []string{"2026-09-01", "2026-09-02"}) {
		t.Errorf("covers %v", covers)
	}
	if got := cs[1]["x_MachineHours"]; got != "10" {
		t.Errorf("%s hours, want those of timeBilledMs", got)
	}
}

// What contradicts itself or cannot be a whole delivery is refused, with what to do.
func TestRefusedImports(t *testing.T) {
	t.Parallel()
	edit := func(name, old, is string) connectors.File {
		b := string(sample(t, name))
		if !strings.Contains(b, old) {
			t.Fatalf("%s has no %q", name, old)
		}
		return connectors.File{Name: name + ".json", Source: "pods", Body: strings.NewReader(strings.Replace(b, old, is, 1))}
	}
	text := func(s string) connectors.File { return connectors.File{Name: "x.json", Body: strings.NewReader(s)} }
	for name, x := range map[string]struct {
		files []connectors.File
		want  string
	}{
		"a list alone":           {files(t, "v2_pods"), "none of them is a bill"},
		"a page is missing":      {[]connectors.File{edit("v2_billing_pods", `"recordCount": 6`, `"recordCount": 7`)}, "a page is missing"},
		"an amount changed":      {[]connectors.File{edit("v2_billing_pods", `"gpuAmount": 16.56`, `"gpuAmount": 16.57`)}, "gpuAmount"},
		"an amount is missing":   {[]connectors.File{edit("v2_billing_pods", `"cpuAmount": 0,`, ``)}, "cpuAmount: is missing"},
		"an amount is null":      {[]connectors.File{edit("v2_billing_pods", `"cpuAmount": 0,`, `"cpuAmount": null,`)}, "cpuAmount: is missing"},
		"an amount is no number": {[]connectors.File{edit("v2_billing_pods", `"cpuAmount": 0,`, `"cpuAmount": "1,5",`)}, "cpuAmount"},
		"no pod is named":        {[]connectors.File{edit("v2_billing_pods", `"podId"`, `"pod"`)}, "podId"},
		"no time":                {[]connectors.File{edit("v2_billing_pods", `"startTime": "2026-09-01T00:00:00Z",`, ``)}, "startTime"},
		"weeks":                  {[]connectors.File{edit("v2_billing_endpoints", `"endTime": "2026-09-02T00:00:00Z"`, `"endTime": "2026-09-04T00:00:00Z"`)}, "bucketSize=day"},
		"the day is not whole": {[]connectors.File{edit("v2_billing_endpoints", `"query": {
      "startTime": "2026-09-01T00:00:00Z"`, `"query": {
      "startTime": "2026-08-31T05:00:00Z"`)}, "from 00:00 UTC"},
		"other windows": {append(files(t, "v2_billing_pods"), edit("v2_billing_endpoints", `"endTime": "2026-09-04T00:00:00Z",
      "bucketSize"`, `"endTime": "2026-09-06T00:00:00Z",
      "bucketSize"`)), "the same window"},
		"the same file twice":      {files(t, "v2_billing_pods", "v2_billing_pods"), "two records"},
		"a route is missing":       {files(t, "v2_billing", "v2_billing_pods"), "/v2/billing totals.serverlessGpuAmount says 10.5375"},
		"both APIs":                {files(t, "v2_billing_pods", "v1_legacy_billing_pods"), "one after the other"},
		"a stranger":               {[]connectors.File{text(`{"a":1}`)}, "x.json"},
		"an old list of nothing":   {[]connectors.File{text(`[]`)}, "empty list"},
		"an old record of nothing": {[]connectors.File{text(`[{"time":"2026-09-01T00:00:00Z"}]`)}, "record 1"},
		"old months":               {[]connectors.File{text(`[{"time":"2026-09-01T00:00:00Z","podId":"p","amount":1,"timeBilledMs":90000000}]`)}, "an hour or a day"},
		"two documents":            {[]connectors.File{text(string(sample(t, "v2_billing_pods")) + "{}")}, "more follows"},
		"nothing":                  {nil, "none of them is a bill"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := read(t.Context(), x.files)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("error %v, want one with %q", err, x.want)
			}
		})
	}
}

// A total that is not the sum of its parts stays whole: as rounding, or by its name if it is
// more than that.
func TestTotalsHold(t *testing.T) {
	t.Parallel()
	bill := func(total string) string {
		rec := `"totalAmount":` + total + `,"gpuAmount":0.1,"cpuAmount":0,"diskAmount":0.2`
		return fmt.Sprintf(`{"records":[{"podId":"p","startTime":"2026-09-01T00:00:00Z","endTime":"2026-09-01T01:00:00Z",%s}],"metadata":{"query":
			{"startTime":"2026-09-01T00:00:00Z","endTime":"2026-09-02T00:00:00Z","bucketSize":"hour"},"recordCount":1,"totals":{%s}}}`, rec, rec)
	}
	for total, class := range map[string]string{
		"0.30000000000000004": itemRounding, "0.300001": itemRounding, "0.3": "", "0.31": itemUnknown, "0.29": itemUnknown,
	} {
		text, _, err := read(t.Context(), []connectors.File{{Name: "x", Source: "s", Body: strings.NewReader(bill(total))}})
		must(t, err)
		var sum money.Decimal
		got := ""
		for _, c := range charges(t, text) {
			sum = sum.Add(decimal.RequireFromString(c["BilledCost"]))
			if c["SkuMeter"] != "GPU" && c["SkuMeter"] != "Disk" {
				got = c["x_LineItemType"]
			}
		}
		if !sum.Equal(decimal.RequireFromString(total)) || got != class {
			t.Errorf("%s: lines add up to %s, rest is %q, want %q", total, sum, got, class)
		}
	}
}

func FuzzFileLines(f *testing.F) {
	for _, n := range slices.Concat(bills, lists, legacy, []string{"v2_billing", "graphql_myself", "v2_error_429"}) {
		f.Add(sample(f, n))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text, covers, err := read(t.Context(), []connectors.File{{Name: "file", Source: "s", Body: bytes.NewReader(body)}})
		sniff(body)
		if err != nil {
			if !strings.Contains(err.Error(), "file") {
				t.Errorf("%v names no file", err)
			}
			return
		}
		for _, c := range charges(t, text) {
			if day := c["ChargePeriodStart"][:10]; !slices.Contains(covers, day) {
				t.Errorf("a line of %s, which is not covered: %v", day, covers)
			}
		}
	})
}
