package vast

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/lines"
)

// imported reads files as `import --format vast` does.
func imported(t testing.TB, names ...string) (rows []map[string]string, covers []string, leftOut []string, err error) {
	t.Helper()
	var files []connectors.File
	for _, n := range names {
		files = append(files, connectors.File{
			Name: n, Source: "src", Account: "acc", Now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Body: bytes.NewReader(read(t, n)),
			LeftOut: func(line string) { leftOut = append(leftOut, line) },
		})
	}
	var b bytes.Buffer
	w, err := lines.NewWriter(&b)
	must(t, err)
	covers, err = decodeLines(t.Context(), files, w)
	must(t, w.Close())
	return records(t, b.Bytes()), covers, leftOut, err
}

func of020(file string) string { return "case020/input." + file + ".json" }

func TestChargesAddUpExactly(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		files []string
		sums  map[string]string // by charge class, and all
		days  string
	}{
		"three days as a table": {
			[]string{"vast_v0_charges_table.json"},
			map[string]string{
				"": "108.826", "compute": "99.281", "storage_running": "4.272", "storage_stopped": "2.952", "network_volume": "1.008",
				"network_ingress": "1.237", "network_egress": "0.076", "rounding": "0", "other": "0",
			},
			"[2026-09-01 2026-09-02 2026-09-03]",
		},
		"the same as a tree": {
			[]string{"vast_v0_charges_tree.json"},
			map[string]string{"": "107.818", "compute": "99.281", "storage_running": "4.272", "storage_stopped": "2.952", "rounding": "0"},
			"[2026-09-01 2026-09-02 2026-09-03]",
		},
		"one day in two pages": {
			[]string{"vast_v0_charges_one_day_page1.json", "vast_v0_charges_one_day_page2.json"},
			map[string]string{"": "47.472", "compute": "44.808", "storage_running": "1.344", "storage_stopped": "0.984", "network_volume": "0.336"},
			"[2026-09-01]",
		},
		"case 020": {
			[]string{of020("charges.page1"), of020("charges.page2"), of020("invoices")},
			map[string]string{"": "4.89", "compute": "3.5", "storage_running": "0.42", "storage_stopped": "0.91", "network": "0.06"},
			"[2025-05-02 2025-05-03]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, covers, _, err := imported(t, x.files...)
			must(t, err)
			if fmt.Sprint(covers) != x.days {
				t.Errorf("covers %v, want %s", covers, x.days)
			}
			for class, want := range x.sums {
				got := sum(rows, func(r map[string]string) bool { return class == "" || r["x_LineItemType"] == class })
				if !got.Equal(dec(want)) {
					t.Errorf("%q sums to %s, want %s", class, got, want)
				}
			}
			for _, r := range rows {
				if r["EffectiveCost"] != r["BilledCost"] || r["BillingAccountId"] != "acc" || r["BillingCurrency"] != "USD" || r["ListCost"] != "" {
					t.Errorf("line %v", r)
				}
			}
		})
	}
}

func TestCase020ByDayAndWithoutPayments(t *testing.T) {
	t.Parallel()
	rows, _, bad, err := imported(t, of020("charges.page1"), of020("charges.page2"), of020("invoices"))
	must(t, err)
	for day, want := range map[string]string{"2025-05-02": "3.92", "2025-05-03": "0.97"} {
		if got := sum(rows, func(r map[string]string) bool { return strings.HasPrefix(r["ChargePeriodStart"], day) }); !got.Equal(dec(want)) {
			t.Errorf("%s: %s, want %s", day, got, want)
		}
	}
	if rows[0]["x_MachineHours"] != "10" && rows[1]["x_MachineHours"] != "10" {
		t.Errorf("no ten machine-hours: %v", rows)
	}
	if len(bad) != 1 || !strings.Contains(bad[0], "input.invoices.json: 1 payments, which are no costs: stripe 50.00 USD") {
		t.Errorf("left out: %q", bad)
	}
}

func TestPaymentsAreNeverCharges(t *testing.T) {
	t.Parallel()
	rows, _, bad, err := imported(t, "vast_v0_charges_table.json", "vast_v1_invoices.json")
	must(t, err)
	if got := sum(rows, nil); !got.Equal(dec("108.826")) {
		t.Errorf("sum %s", got)
	}
	if len(bad) != 1 || !strings.Contains(bad[0], "credit 250.00 USD, refund -10.00 USD, reserved -100.00 USD, transfer 50.00 USD") || strings.Contains(bad[0], "team-ops@example.com") {
		t.Errorf("left out: %q", bad)
	}
	if _, _, _, err := imported(t, "vast_v1_invoices.json"); err == nil || !strings.Contains(err.Error(), "no charges") {
		t.Errorf("payments alone: %v", err)
	}
}

// What the list of contracts says of a contract is on its compute lines; elsewhere it is absent.
func TestContractsNameGPUs(t *testing.T) {
	t.Parallel()
	rows, _, _, err := imported(t, "vast_v0_charges_table.json", "vast_v1_instances.json")
	must(t, err)
	seen := map[string]int{}
	for _, r := range rows {
		if r["x_LineItemType"] == "compute" {
			seen[strings.Join([]string{r["ResourceId"], r["x_GpuModel"], r["x_GpuCount"], r["x_MachineHours"], r["x_PricingModel"], r["RegionId"]}, "|")]++
		} else if r["x_GpuCount"] != "" || r["x_MachineHours"] != "" || r["x_InstanceType"] != "" {
			t.Errorf("GPU hours on %v", r)
		}
	}
	want := map[string]int{"instance-31415001|H100|1|52.5|reserved|NO": 1, "instance-31415003|||3.25|serverless|": 1}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("compute lines %v, want %v", seen, want)
	}
}

func TestHalfAnswersAreRefused(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		files []string
		want  string
	}{
		"first page only":      {[]string{"vast_v0_charges_one_day_page1.json"}, "page1.json is not the last page"},
		"first page, old":      {[]string{of020("charges.page1")}, "page1.json is not the last page"},
		"last page only":       {[]string{"vast_v0_charges_one_day_page2.json"}, "a page is missing"},
		"a page twice":         {[]string{"vast_v0_charges_one_day_page1.json", "vast_v0_charges_one_day_page2.json", "vast_v0_charges_one_day_page2.json"}, "is there twice"},
		"an answer twice":      {[]string{"vast_v0_charges_table.json", "vast_v0_charges_table.json"}, "both bill instance-31415001"},
		"table and tree":       {[]string{"vast_v0_charges_table.json", "vast_v0_charges_tree.json"}, "both bill instance-31415001"},
		"a day of the window":  {[]string{"vast_v0_charges_table.json", "vast_v0_charges_one_day_page1.json", "vast_v0_charges_one_day_page2.json"}, "both bill"},
		"refused with 200":     {[]string{"vast_v1_invoices_bad_range_http200.json"}, "success false: Invalid date range"},
		"refused":              {[]string{"vast_v0_charges_error_400.json"}, "Must provide both"},
		"another answer":       {[]string{"vast_v0_bundles_offers.json"}, "neither results nor instances"},
		"contracts, no charge": {[]string{"vast_v1_instances.json"}, "no charges"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, _, err := imported(t, x.files...); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
}

// Rows in words that were never seen are booked whole, or refused with their place.
func TestOddRows(t *testing.T) {
	t.Parallel()
	const row = `{"start":1788220800,"end":1788220800,"type":"instance","source":"instance-1","metadata":{},`
	for name, x := range map[string]struct{ row, want string }{
		"no items":         {row + `"amount":2.5,"items":[]}`, "other 2.5"},
		"another item":     {row + `"amount":2.5,"items":[{"type":"tpu","amount":2.5,"description":"x"}]}`, "other 2.5"},
		"other wording":    {row + `"amount":"2.5","items":[{"type":"gpu","amount":"2.5","description":"a day"}]}`, "compute 2.5"},
		"rounding":         {row + `"amount":2.501,"items":[{"type":"gpu","amount":2.5,"description":"24.000 hours at $0.104/hour"}]}`, "compute 2.5 rounding 0.001"},
		"an item missing":  {row + `"amount":3,"items":[{"type":"gpu","amount":2.5,"description":""}]}`, "compute 2.5 other 0.5"},
		"a credit":         {row + `"amount":-1,"items":[{"type":"gpu","amount":-1,"description":""}]}`, "compute -1"},
		"nothing":          {row + `"amount":0.0,"items":[{"type":"bwd","amount":0.0,"description":"0.0 GB Downloaded at $0.003/GB"}]}`, ""},
		"seventeen digits": {row + `"amount":0.12345678901234567,"items":[]}`, "other 0.12345678901234567"},
		"no amount":        {row + `"items":[]}`, "results[0]: field amount is missing"},
		"no time":          {`{"type":"instance","source":"instance-1","amount":1}`, "results[0]: field start is missing"},
		"milliseconds":     {strings.ReplaceAll(row, "1788220800", "1788220800000") + `"amount":1}`, "field start: 1788220800000 is no time in seconds"},
		"backwards":        {strings.Replace(row, `"end":1788220800`, `"end":1788134400`, 1) + `"amount":1}`, "is before start"},
		"no number":        {row + `"amount":"one"}`, "results[0]"},
		"neither":          {`{"type":"gift","source":"card","amount":1}`, `type "gift" is neither a charge nor a payment`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			w, err := lines.NewWriter(&b)
			must(t, err)
			_, err = decodeLines(t.Context(), []connectors.File{{
				Name: "f.json", Source: "s", Account: "a", Body: strings.NewReader(`{"results":[` + x.row + `],"next_token":null}`),
			}}, w)
			must(t, w.Close())
			got := ""
			for _, r := range records(t, b.Bytes()) {
				got += " " + r["x_LineItemType"] + " " + r["BilledCost"]
			}
			if got = strings.TrimSpace(got); err != nil {
				got = err.Error()
			}
			if err == nil && got != x.want || !strings.Contains(got, x.want) {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

func TestModelsAreCatalogueWords(t *testing.T) {
	t.Parallel()
	for _, x := range [][3]string{
		{"H100 SXM", "81559", "H100"}, {"H100 NVL", "95830", "H100 NVL"}, {"A100 SXM4", "81920", "A100 80GB"}, {"A100 PCIE", "40960", "A100 40GB"},
		{"A100 SXM4", "", "A100"}, {"Tesla V100", "16384", "V100 16GB"}, {"RTX 4090", "24564", "RTX 4090"}, {"Tesla T4", "15360", "T4"}, {"RTX 6000Ada", "1", "RTX 6000Ada"},
	} {
		if got := model(x[0], x[1]); got != x[2] {
			t.Errorf("%s with %s MB is %q, want %q", x[0], x[1], got, x[2])
		}
	}
}

func FuzzLines(f *testing.F) {
	for _, n := range []string{
		"vast_v0_charges_table.json", "vast_v0_charges_tree.json", "vast_v1_instances.json", "vast_v1_invoices.json", of020("charges.page2"), of020("invoices"),
	} {
		f.Add(read(f, n))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var b bytes.Buffer
		w, err := lines.NewWriter(&b)
		must(t, err)
		_, err = decodeLines(t.Context(), []connectors.File{{Name: "fuzzed", Source: "s", Account: "a", Body: bytes.NewReader(body)}}, w)
		if err != nil && !strings.Contains(err.Error(), "fuzzed") && !strings.Contains(err.Error(), "the files hold no charges") {
			t.Errorf("%v does not name the file", err)
		}
	})
}
