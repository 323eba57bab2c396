package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// writeCase puts the input of a handed case that is no bill into the form of a feed. Figures
// are the case's own.
func writeCase(ts *testscript.TestScript, neg bool, args []string) {
	writers := map[string]func(*testscript.TestScript){
		"006": case006, "008": case008, "017": case017, "035": case035, "053": case053, "056": case056,
	}
	if neg || len(args) != 1 || writers[args[0]] == nil {
		ts.Fatalf("usage: case NAME, one of %d names", len(writers))
	}
	writers[args[0]](ts)
}

func caseFile(ts *testscript.TestScript, name string) []byte {
	b, err := os.ReadFile(filepath.Join(ts.Getenv("CASES"), name))
	ts.Check(err)
	return b
}

func caseJSON(ts *testscript.TestScript, name string, v any) {
	ts.Check(json.Unmarshal(caseFile(ts, name), v))
}

func caseCSV(ts *testscript.TestScript, name string) [][]string {
	rows, err := csv.NewReader(strings.NewReader(string(caseFile(ts, name)))).ReadAll()
	ts.Check(err)
	return rows
}

func writeCSV(ts *testscript.TestScript, name string, rows [][]string) {
	var b strings.Builder
	w := csv.NewWriter(&b)
	ts.Check(w.WriteAll(rows))
	ts.Check(os.WriteFile(ts.MkAbs(name), []byte(b.String()), 0o600))
}

// case006 adds the line item type, without which nothing is a Cost and Usage Report.
func case006(ts *testscript.TestScript) {
	rows := caseCSV(ts, "006/input.aws.csv")
	for i := range rows {
		word := "Usage"
		if i == 0 {
			word = "lineItem/LineItemType"
		}
		rows[i] = append(rows[i], word)
	}
	writeCSV(ts, "aws.csv", rows)
}

// case008 is the bill rows as spot usage: hours run, cost as billed.
func case008(ts *testscript.TestScript) {
	out := [][]string{{
		"lineItem/LineItemType", "lineItem/ResourceId", "lineItem/UsageType", "lineItem/UsageStartDate",
		"lineItem/UsageEndDate", "lineItem/UsageAmount", "lineItem/UnblendedCost", "product/gpu", "product/instanceType",
	}}
	for _, r := range caseCSV(ts, "008/input.bill.csv")[1:] {
		from, err := time.Parse(time.RFC3339, r[1])
		ts.Check(err)
		to, err := time.Parse(time.RFC3339, r[2])
		ts.Check(err)
		hours := fmt.Sprintf("%.10f", to.Sub(from).Hours())
		out = append(out, []string{"Usage", r[0], "SpotUsage:g6.xlarge", r[1], r[2], hours, r[3], "1", "g6.xlarge"})
	}
	writeCSV(ts, "bill.csv", out)
}

// case017 writes one export a run, one row a day.
func case017(ts *testscript.TestScript) {
	var in struct {
		Exports []struct {
			Run  string
			Days map[string]string
		}
	}
	caseJSON(ts, "017/input.json", &in)
	for _, e := range in.Exports {
		rows := [][]string{{"Date", "SubscriptionId", "ResourceId", "CostInBillingCurrency", "BillingCurrency"}}
		for _, d := range sortedKeys(e.Days) {
			t, err := time.Parse(time.DateOnly, d)
			ts.Check(err)
			rows = append(rows, []string{t.Format("01/02/2006"), "sub-ex-1", "/r/1", e.Days[d], "EUR"})
		}
		writeCSV(ts, e.Run+".csv", rows)
	}
}

func case035(ts *testscript.TestScript) {
	var in struct {
		Rows []struct {
			ID, Cost string
			Tags     json.RawMessage
		}
	}
	caseJSON(ts, "035/input.json", &in)
	rows := [][]string{{"ResourceId", "ChargePeriodStart", "ChargePeriodEnd", "BilledCost", "EffectiveCost", "Tags"}}
	for _, r := range in.Rows {
		rows = append(rows, []string{r.ID, "2025-03-01T00:00:00Z", "2025-03-02T00:00:00Z", r.Cost, r.Cost, string(r.Tags)})
	}
	writeCSV(ts, "tags.csv", rows)
}

// case053 lets list cost be what the product multiplies: price times quantity.
func case053(ts *testscript.TestScript) {
	rows := [][]string{{"Date", "SubscriptionId", "ResourceId", "CostInBillingCurrency", "Quantity", "PayGPrice"}}
	for _, r := range caseCSV(ts, "053/input.csv")[1:] {
		rows = append(rows, []string{"2025-03-01", "sub-ex-1", "/r/" + r[0], "0", r[1], r[2]})
	}
	writeCSV(ts, "prices.csv", rows)
	over := append(rows[:1:1], []string{"2025-03-01", "sub-ex-1", "/r/7", "0", "10000000000000", "10000000000000"})
	writeCSV(ts, "overflow.csv", over)
}

// case056 is one row for every hour that the instance ran.
func case056(ts *testscript.TestScript) {
	var in struct {
		Cost string `json:"cost_per_hour"`
		Runs string `json:"instance_runs"`
	}
	caseJSON(ts, "056/input.json", &in)
	var bounds []time.Time
	for _, w := range strings.Fields(in.Runs) {
		if t, err := time.Parse(time.RFC3339, w); err == nil {
			bounds = append(bounds, t)
		}
	}
	sort.Slice(bounds, func(i, j int) bool { return bounds[i].Before(bounds[j]) })
	rows := [][]string{{"ResourceId", "BillingPeriodStart", "ChargePeriodStart", "ChargePeriodEnd", "BilledCost", "EffectiveCost"}}
	for t := bounds[0]; t.Before(bounds[1]); t = t.Add(time.Hour) {
		month := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
		rows = append(rows, []string{
			"i-1", month.Format(time.RFC3339), t.Format(time.RFC3339), t.Add(time.Hour).Format(time.RFC3339), in.Cost, in.Cost,
		})
	}
	writeCSV(ts, "hours.csv", rows)
}
