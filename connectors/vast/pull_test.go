package vast

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// world is a fake on 5 November 2026, 10:30 UTC, inside a bubble of synctest.
func world(t testing.TB, rentals ...rental) *fake {
	t.Helper()
	began, start := time.Now(), at("05T10:30")
	return &fake{
		t: t, now: func() time.Time { return start.Add(time.Since(began)) }, rentals: rentals, pageSize: 2,
		answer: map[string]func(http.ResponseWriter, *http.Request){},
	}
}

// at is a time in November 2026: day, T, hour and minute.
func at(s string) time.Time {
	t, err := time.Parse("2006-01-02T15:04", "2026-11-"+s)
	if err != nil {
		panic(err)
	}
	return t
}

func small(id int, from, to time.Time) rental {
	return rental{
		id: id, label: "atlas/train", gpu: "RTX 3090", gpus: 2, gpuRate: "0.26", diskRate: "0.0125",
		exists: span{from: from, to: to}, ran: []span{{from, to}},
	}
}

func TestCompleteDaysAreDeliveredOnceAndWhenTheyChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := world(t, small(1, at("01T06:00"), time.Time{}), small(2, at("03T00:00"), at("04T12:00")), small(3, at("05T00:00"), time.Time{}))
		f.late = 30 * time.Hour // charges come late
		c, k := f.source(t, nil), &sink{}
		must(t, k.pull(t.Context(), c))
		live := k.live(t)
		if _, today := live["2026-11-05"]; today || len(live) != 7 {
			t.Errorf("days %v", len(live))
		}
		before := len(of[event.BillingDelivery](t, k, event.TypeBillingDelivery))
		time.Sleep(2 * time.Hour)
		must(t, k.pull(t.Context(), c))
		late := of[event.BillingDelivery](t, k, event.TypeBillingDelivery)[before:]
		if len(late) != 1 || fmt.Sprint(late[0].Covers) != "[2026-11-04]" {
			t.Errorf("delivered again: %+v", late)
		}
		time.Sleep(31 * time.Hour)
		f.late = 0
		must(t, k.pull(t.Context(), c))
		n := len(k.events)
		live = k.live(t)
		for d := at("01T00:00"); d.Before(at("06T00:00")); d = d.AddDate(0, 0, 1) {
			_, want := f.rows(d)
			if got := sum(live[d.Format(time.DateOnly)], nil); !got.Equal(want) {
				t.Errorf("%s: %s, want %s", d.Format(time.DateOnly), got, want)
			}
		}
		time.Sleep(2 * time.Hour)
		must(t, k.pull(t.Context(), c))
		for _, e := range k.events[n:] {
			if strings.HasPrefix(e.Type, "billing.") {
				t.Errorf("nothing changed, and yet %s", e.Type)
			}
		}
	})
}

// A contract that is gone keeps its GPU and pricing model for the days that are read again.
func TestGoneContractsKeepTheirNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := small(7, at("05T08:00"), at("05T11:00"))
		gone.bid = true
		f := world(t, gone)
		c, k := f.source(t, nil), &sink{}
		must(t, k.pull(t.Context(), c))
		time.Sleep(24 * time.Hour)
		must(t, k.pull(t.Context(), c))
		for _, l := range k.live(t)["2026-11-05"] {
			if l["x_LineItemType"] == "compute" && l["x_GpuModel"]+l["x_GpuCount"]+l["x_PricingModel"]+l["x_MachineHours"]+l["RegionName"] != "RTX 30902spot3Norway, NO" {
				t.Errorf("line %v", l)
			}
		}
		time.Sleep(11 * 24 * time.Hour)
		must(t, k.pull(t.Context(), c))
		if strings.Contains(string(k.kept), "instance-7") {
			t.Errorf("never forgotten: %s", k.kept)
		}
	})
}

func TestBackFillAndOutagesLeaveNoDayOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := world(t, small(1, at("01T06:00").AddDate(0, -3, 0), time.Time{}))
		c, k := f.source(t, func(c *Config) { c.Since = "2026-08-05" }), &sink{}
		must(t, k.pull(t.Context(), c))
		time.Sleep(50 * 24 * time.Hour) // down
		must(t, k.pull(t.Context(), c))
		live := k.live(t)
		last := f.now().Truncate(24 * time.Hour)
		n := 0
		for d := time.Date(2026, 8, 5, 0, 0, 0, 0, time.UTC); d.Before(last); d = d.AddDate(0, 0, 1) {
			n++
			if _, want := f.rows(d); !sum(live[d.Format(time.DateOnly)], nil).Equal(want) {
				t.Errorf("%s is missing or wrong", d.Format(time.DateOnly))
			}
		}
		if len(live) != n {
			t.Errorf("%d days, want %d", len(live), n)
		}
	})
}

func TestRunsFollowThePolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old := small(1, at("01T06:00"), time.Time{})
		old.ran = []span{{at("01T06:00"), at("05T10:33")}, {at("05T10:37"), time.Time{}}}
		fresh := small(2, at("05T10:31"), at("05T10:35"))
		fresh.ran = []span{{at("05T10:33"), at("05T10:35")}}
		f := world(t, old, fresh)
		c, k := f.source(t, func(c *Config) { c.ChargesEvery, c.Wallet = 0, false }), &sink{}
		for range 5 {
			must(t, k.pull(t.Context(), c))
			time.Sleep(2 * time.Minute)
		}
		got := []string{}
		for _, r := range k.runs(t) {
			if r.Kind == event.KindVolume {
				continue
			}
			line := strings.Join([]string{r.Kind, r.ResourceID, clock(&r.SeenFrom), clock(r.SeenTo), clock(r.StartedAfter), clock(r.EndedBefore), r.Rate.String(), r.PricingModel}, " ")
			got = append(got, line)
		}
		slices.Sort(got)
		want := []string{
			"machine instance-1 5.10:30 5.10:32 4.00:00 5.10:34 0.26 on_demand",
			"machine instance-1 5.10:38 - 5.10:36 - 0.26 on_demand",
			"machine instance-2 5.10:34 5.10:34 5.10:32 5.10:36 0.26 on_demand",
			"storage instance-1 4.00:00 - - - 0.0125 on_demand",
			"storage instance-2 5.10:31 5.10:34 - 5.10:36 0.0125 on_demand",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("runs:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		polls := of[event.Poll](t, k, event.TypeInventoryPoll)
		if len(polls) != 5 || polls[4].At != at("05T10:38") || polls[4].Running != 2 {
			t.Errorf("polls %+v", polls)
		}
	})
}

// Each route has a least time between two requests.
func TestRequestsKeepTheirDistance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var many []rental
		for id := 1; id <= 60; id++ {
			many = append(many, small(id, at("04T01:00"), time.Time{}))
		}
		f := world(t, many...)
		f.pageSize = 25
		c, k := f.source(t, func(c *Config) { c.Offers = []string{"H100 SXM", "A100 SXM4"} }), &sink{}
		for range 3 {
			must(t, k.pull(t.Context(), c))
		}
		last := map[string]time.Time{}
		for _, a := range f.asked {
			least := map[string]time.Duration{"/api/v0/bundles/": 6 * time.Second, "/api/v0/volumes/": 5500 * time.Millisecond, "/api/v0/metrics/gpu/current/": 3 * time.Second}[a.path]
			if d := a.at.Sub(last[a.path]); d < max(least, time.Second) {
				t.Errorf("%s asked again after %v", a.path, d)
			}
			last[a.path] = a.at
		}
	})
}

func clock(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format("2.15:04")
}

func TestManyContractsAreAllRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var many []rental
		for id := 1; id <= 60; id++ {
			many = append(many, small(id, at("05T01:00"), time.Time{}))
		}
		f := world(t, many...)
		c, k := f.source(t, func(c *Config) { c.ChargesEvery = 0 }), &sink{}
		must(t, k.pull(t.Context(), c))
		if p := of[event.Poll](t, k, event.TypeInventoryPoll); p[0].Running != 120 {
			t.Errorf("poll %+v", p)
		}
		// A page that is missing is no complete list: no run may end by it.
		f.answer["/api/v1/instances/"] = func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{"success": true, "instances_found": 60, "next_token": nil, "instances": []any{map[string]any{"id": 1}}})
		}
		n := len(k.events)
		time.Sleep(2 * time.Minute)
		if err := k.pull(t.Context(), c); err == nil || !strings.Contains(err.Error(), "has 1 contracts and says that there are 60") || len(k.events) != n {
			t.Errorf("a cut list gave %v and %d events", err, len(k.events)-n)
		}
	})
}

// What is refused is said, and does not keep contracts from being polled.
func TestRefusalsDoNotStopThePolls(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		path  string
		say   func(w http.ResponseWriter)
		want  string
		quiet bool
	}{
		"no billing_read": {"/api/v0/charges/", func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, "may not read this", false},
		"too many charges": {"/api/v0/charges/", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte("API requests too frequent"))
		}, "429", false},
		"refused with 200": {"/api/v0/charges/", func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"success":false,"error":"Invalid date range"}`)) }, "Invalid date range", false},
		"a redirect": {"/api/v0/charges/", func(w http.ResponseWriter) {
			w.Header().Set("Location", "/x")
			w.WriteHeader(http.StatusMovedPermanently)
		}, "301", false},
		"another window": {"/api/v0/charges/", func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"success":true,"total":1,"count":1,"results":[{"start":1788220800,"end":1788393600,"type":"instance","source":"instance-1","amount":9}]}`))
		}, "a sum over other days is not counted", false},
		"rows lost": {"/api/v0/charges/", func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"success":true,"total":3,"count":0,"results":[]}`))
		}, "hold 0 rows and say that there are 3", false},
		"no quota": {"/api/v0/metrics/gpu/current/", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"error":"search_quota_exceeded","retry_after":31200}`))
		}, "8h40m", false},
		"user_read": {"/api/v0/users/current/", func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := world(t, small(1, at("05T01:00"), time.Time{}))
				f.answer[x.path] = func(w http.ResponseWriter, _ *http.Request) { x.say(w) }
				c, k := f.source(t, func(c *Config) { c.Offers = []string{"RTX 4090"} }), &sink{}
				err := k.pull(t.Context(), c)
				if x.quiet != (err == nil) || err != nil && (!strings.Contains(err.Error(), x.want) || connectors.IsPermanent(err)) {
					t.Errorf("got %v", err)
				}
				if _, waits := connectors.RetryAfter(err); waits {
					t.Errorf("contracts would wait as well: %v", err)
				}
				time.Sleep(time.Second)
				must(t, k.pull(t.Context(), c)) // the refused part is left out for now
				if polls := of[event.Poll](t, k, event.TypeInventoryPoll); len(polls) != 2 {
					t.Errorf("%d polls", len(polls))
				}
				if strings.HasSuffix(x.path, "charges/") && len(of[event.BillingDelivery](t, k, event.TypeBillingDelivery)) != 0 {
					t.Error("something was delivered")
				}
			})
		})
	}
}

// A refused key fails the pull for good.
func TestRefusedKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := world(t)
		c, k := f.source(t, nil), &sink{}
		f.answer["/api/v1/instances/"] = func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("bad key " + r.Header.Get("Authorization")))
		}
		err := k.pull(t.Context(), c)
		if !connectors.IsPermanent(err) || strings.Contains(err.Error(), secret) || len(k.events) != 0 {
			t.Errorf("got %v and %d events", err, len(k.events))
		}
	})
}

// Nothing of what must not be stored is in an event, a file or the cursor.
func TestSecretsStayOutside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := small(1, at("05T01:00"), time.Time{})
		one.util = "42"
		f := world(t, one)
		c, k := f.source(t, func(c *Config) { c.Offers = []string{"RTX 4090"} }), &sink{}
		must(t, k.pull(t.Context(), c))
		time.Sleep(26 * time.Hour)
		must(t, k.pull(t.Context(), c))
		all := string(k.kept)
		for _, e := range k.events {
			line, err := e.JSON()
			must(t, err)
			all += string(line)
		}
		for _, b := range k.files {
			all += string(b)
		}
		for _, s := range []string{"SECRET", secret, "203.0.113.7", "billing@example.com", "jupyter"} {
			if strings.Contains(all, s) {
				t.Errorf("%q is stored", s)
			}
		}
	})
}

func TestUtilisationWalletAndPrices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := small(1, at("05T01:00"), time.Time{}), small(2, at("05T01:00"), time.Time{})
		one.util, two.util = "42.5", "250"
		f := world(t, one, two)
		c, k := f.source(t, func(c *Config) {
			c.Offers, c.ChargesEvery, c.ProjectFromLabel = []string{"RTX 4090", "H100 SXM"}, 0, `^(?P<project>[^/]+)/`
		}), &sink{}
		must(t, k.pull(t.Context(), c))
		samples := of[event.GPUSamples](t, k, event.TypeGPUSamples)
		if len(samples) != 2 || len(samples[0].GPUs) != 2 || *samples[0].GPUs[1].Utilization != 0.425 || samples[0].GPUs[1].UUID != "vast:1:1" ||
			samples[0].Node != "instance-1" || samples[0].GPUs[0].Owners[0].Confidence != "low" || samples[0].GPUs[0].Owners[0].Labels["project"] != "atlas" {
			t.Errorf("samples %+v", samples)
		}
		if s := samples[1]; s.GPUs[0].Utilization != nil || s.Rejected["out_of_bounds"] != 1 {
			t.Errorf("a reading out of bounds is believed: %+v", s)
		}
		w := of[event.Wallet](t, k, event.TypeInventoryWallet)
		if len(w) != 1 || w[0].Balance.String() != "186.22" || w[0].SpendPerHour.String() != "0.559" { // 2 x (0.26 + 0.0125) + volume 0.014
			t.Errorf("wallet %+v", w)
		}
		prices := map[string]string{}
		for _, p := range of[event.Price](t, k, event.TypeInventoryPrice) {
			prices[p.InstanceType] = p.Rate.String() + " " + p.Per + " " + p.PricingModel
		}
		// The statistics have one; the other is the median of offers, per GPU: (14.936/8 + 0.389)/2.
		if fmt.Sprint(prices) != "map[H100 SXM:1.128 gpu marketplace RTX 4090:0.39 gpu marketplace]" {
			t.Errorf("prices %v", prices)
		}
		for _, asked := range f.asked {
			if strings.Contains(asked.path, "invoices") {
				t.Errorf("payments are asked for: %s", asked.path)
			}
		}
	})
}

func TestCursorFromElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := world(t).source(t, nil)
		_, err := c.Pull(t.Context(), json.RawMessage(`{"contracts":`), &sink{})
		if !connectors.IsPermanent(err) {
			t.Errorf("got %v", err)
		}
		k := &sink{failAt: 1}
		if err := k.pull(t.Context(), c); !errors.Is(err, errRefused) || connectors.IsPermanent(err) {
			t.Errorf("got %v", err)
		}
	})
}
