package alert_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/processors/alert"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Case 037: with a fire bound and a lower clear bound, values in between change nothing.
func TestFlappingAroundAThreshold(t *testing.T) {
	t.Parallel()
	var in struct {
		Fire   int64   `json:"fire_at_or_above"`
		Clear  int64   `json:"clear_below"`
		Values []int64 `json:"values"`
	}
	readJSON(t, "testdata/case037.json", &in)
	bounds := alert.Bounds{FireAt: decimal.NewFromInt(in.Fire), ClearBelow: decimal.NewFromInt(in.Clear)}
	var i alert.Instance
	var got []string
	for index, v := range in.Values {
		fire, over := bounds.Judge(decimal.NewFromInt(v))
		before := i
		i = i.Step(alert.Reading{Fire: fire, Clear: over}, 0, friday.Add(time.Duration(index)*time.Minute))
		if i.Fired != nil && i.FiredAt != before.FiredAt {
			got = append(got, fmt.Sprintf("%d %d FIRE", index, v))
			i.Fired.Published, i.Fired.SentAt = true, friday
		}
		if i.Over != nil && before.Over == nil {
			got = append(got, fmt.Sprintf("%d %d CLEAR", index, v))
			i.Over.Published, i.Over.SentAt = true, friday
		}
	}
	want := []string{"1 91 FIRE", "6 79 CLEAR", "8 90 FIRE"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("notifications (-want +got):\n%s", d)
	}
}

func TestClearMustLast(t *testing.T) {
	t.Parallel()
	i := alert.Instance{}.Step(alert.Reading{Fire: true}, 0, friday)
	for minute, r := range []alert.Reading{{Clear: true}, {Clear: true}, {}, {Clear: true}, {Hold: "stale", Clear: true}, {Clear: true}} {
		i = i.Step(r, 10*time.Minute, friday.Add(time.Duration(minute)*5*time.Minute))
		if i.State != alert.Firing {
			t.Fatalf("step %d: %s", minute, i.State)
		}
		if minute == 4 && i.Held != "stale" {
			t.Error("a held reading does not say why")
		}
		if minute == 4 {
			i.ClearSince = friday.Add(24 * time.Minute) // as if the clear readings began just now
		}
	}
	if i = i.Step(alert.Reading{Clear: true}, 10*time.Minute, friday.Add(40*time.Minute)); i.State != alert.Resolved {
		t.Errorf("after ten minutes of clear readings: %s", i.State)
	}
}

func TestANewIncidentWaitsForTheOldOnesWords(t *testing.T) {
	t.Parallel()
	i := alert.Instance{}.Step(alert.Reading{Fire: true}, 0, friday)
	i = i.Step(alert.Reading{Clear: true}, 0, friday.Add(time.Minute))
	if i = i.Step(alert.Reading{Fire: true}, 0, friday.Add(2*time.Minute)); i.State != alert.Resolved || i.Held == "" {
		t.Errorf("state %s held %q", i.State, i.Held)
	}
	first := i.Incident()
	i.Fired.Published, i.Fired.SentAt, i.Over.Published, i.Over.SentAt = true, friday, true, friday
	i = i.Step(alert.Reading{Fire: true}, 0, friday.Add(3*time.Minute))
	if i.State != alert.Firing || i.Incident() == first {
		t.Errorf("state %s, incident %s after %s", i.State, i.Incident(), first)
	}
}

func TestKeysAreSafe(t *testing.T) {
	t.Parallel()
	a := alert.Instance{Rule: "a.b > * \n", Kind: "idle_gpu", Subject: "../x"}
	for _, r := range a.Key() {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' {
			t.Errorf("key %q", a.Key())
		}
	}
	b := a
	b.Subject = "../y"
	if a.Key() == b.Key() {
		t.Error("two subjects have one key")
	}
}

// Case 036: this month only, reached at the threshold, exceeded above the amount, each once.
func TestBudgetWindowAndOncePerThreshold(t *testing.T) {
	t.Parallel()
	var in struct {
		Budget string `json:"budget"`
		A      struct {
			Now   time.Time         `json:"now"`
			Spend map[string]string `json:"spend"`
		} `json:"part_a"`
		B, C struct {
			Month string   `json:"month"`
			Costs []string `json:"month_to_date_by_refresh"`
		}
	}
	var parts map[string]any
	readJSON(t, "testdata/case036.json", &in)
	readJSON(t, "testdata/case036.json", &parts)
	in.B.Month, in.B.Costs = refreshes(parts["part_b"])
	in.C.Month, in.C.Costs = refreshes(parts["part_c"])

	w := newWorld(t, channels+`
  - {name: monthly, kind: budget, scope: all, amount: `+in.Budget+`, currency: USD, thresholds: [50, 100], channel: gpu}`)
	sent := func() []string { return w.sent["gpu"].headings() }

	w.facts.spend = func(q alert.SpendQuestion) alert.Spend { // part a: days inside the window asked for
		sum := decimal.Zero
		for day, cost := range in.A.Spend {
			at, err := time.Parse(time.DateOnly, day)
			if err == nil && !at.Before(q.Label) && at.Before(q.To) {
				sum = sum.Add(*amount(cost))
			}
		}
		if !sum.Equal(*amount("7.00")) {
			t.Errorf("month to date: %s, want 7.00", sum)
		}
		return alert.Spend{By: map[string]money.Decimal{"USD": sum}}
	}
	w.pass(in.A.Now)
	if len(sent()) != 0 {
		t.Errorf("part a sent %q", sent())
	}

	refreshed(t, w, in.B.Month, in.B.Costs, []string{
		"Budget monthly: 50 % reached, 50.00 of 100.00 USD in June 2025",
		"Budget monthly: 100 % reached, 100.00 of 100.00 USD in June 2025",
		"Budget monthly: exceeded, 100.01 of 100.00 USD in June 2025",
	})
	refreshed(t, w, in.C.Month, in.C.Costs, []string{"Budget monthly: 50 % reached, 51.00 of 100.00 USD in July 2025"})
}

// refreshed runs through a month's refreshes, with a restart after each.
func refreshed(t *testing.T, w *world, month string, costs, want []string) {
	t.Helper()
	before := len(w.sent["gpu"].headings())
	start, err := time.Parse("2006-01", month)
	if err != nil {
		t.Fatal(err)
	}
	for i, cost := range costs {
		w.facts.spend = func(alert.SpendQuestion) alert.Spend {
			return alert.Spend{By: map[string]money.Decimal{"USD": *amount(cost), "EUR": *amount("999")}}
		}
		w.pass(start.AddDate(0, 0, 3+i))
		w.restart() // it remembers across restarts
		w.pass(start.AddDate(0, 0, 3+i).Add(time.Minute))
	}
	if d := cmp.Diff(want, w.sent["gpu"].headings()[before:]); d != "" {
		t.Errorf("%s (-want +got):\n%s", month, d)
	}
}

func refreshes(part any) (month string, costs []string) {
	p := part.(map[string]any) //nolint:forcetypeassert // our own file
	for _, c := range p["month_to_date_by_refresh"].([]any) {
		costs = append(costs, c.(string))
	}
	return p["month"].(string), costs
}

func TestBudgetMonthIsTheReportingZones(t *testing.T) {
	t.Parallel()
	w := newWorld(t, channels+`
  - {name: b, kind: budget, scope: {project: llm-train}, amount: 10, currency: USD, cost: billed, thresholds: 50, channel: gpu}`)
	var got alert.SpendQuestion
	w.facts.spend = func(q alert.SpendQuestion) alert.Spend { got = q; return alert.Spend{} }
	w.pass(time.Date(2026, 4, 30, 22, 30, 0, 0, time.UTC)) // 00:30 on 1 May in Berlin
	if got.Label.Format("2006-01") != "2026-05" || got.From.UTC().Format(time.RFC3339) != "2026-04-30T22:00:00Z" ||
		got.To.UTC().Format(time.RFC3339) != "2026-05-31T22:00:00Z" || got.Dimension != "project" || got.Value != "llm-train" || got.Cost != alert.CostBilled {
		t.Errorf("asked for %+v", got)
	}
}

func TestBudgetHoldsOnAStaleBill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, channels+`
  - {name: b, kind: budget, scope: all, amount: 10, currency: USD, thresholds: [50], channel: gpu}`)
	bill := friday
	w.facts.spend = func(alert.SpendQuestion) alert.Spend {
		return alert.Spend{By: map[string]money.Decimal{"USD": *amount("6")}, LastBill: bill}
	}
	w.pass(friday.Add(72 * time.Hour))
	list, err := w.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(w.sent["gpu"].headings()) != 0 || len(list) != 1 || list[0].State != alert.Pending || list[0].Held == "" {
		t.Fatalf("sent %q, alerts %+v", w.sent["gpu"].headings(), list)
	}
	bill = friday.Add(71 * time.Hour)
	w.pass(friday.Add(73 * time.Hour))
	if got := w.sent["gpu"].headings(); len(got) != 1 {
		t.Errorf("sent %q", got)
	}
}
