package connectors_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

func minute(n int) time.Time { return time.Date(2026, 11, 5, 10, n, 0, 0, time.UTC) }

func machine(id, rate string) event.Instance {
	d := decimal.RequireFromString(rate)
	return event.Instance{ResourceID: id, Kind: event.KindMachine, Provider: "x", Rate: &d, Currency: "USD"}
}

func text(told []connectors.Told) string {
	clock := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.Format("04")
	}
	var out []string
	for _, x := range told {
		out = append(out, strings.Join([]string{x.ResourceID, x.Rate.String(), clock(&x.SeenFrom), clock(x.SeenTo), clock(x.StartedAfter), clock(x.EndedBefore)}, " "))
	}
	return strings.Join(out, "; ")
}

func TestRunsOfPolls(t *testing.T) {
	t.Parallel()
	said := machine("said", "1")
	said.SeenFrom = minute(3)
	tooOld := machine("old", "1")
	tooOld.SeenFrom = minute(1)
	named := machine("a", "2")
	named.Name = "new name"
	var r connectors.Runs
	for _, x := range []struct {
		at      int
		running []event.Instance
		again   bool
		news    string
		begun   string
	}{
		{0, []event.Instance{machine("a", "1")}, false, "", "a 1 00 - - -"},
		{2, []event.Instance{machine("a", "1")}, false, "", ""},
		{4, []event.Instance{machine("a", "1"), said, tooOld}, false, "", "old 1 04 - 02 -; said 1 03 - - -"},
		{6, []event.Instance{machine("a", "2")}, false, "a 1 00 06 - -; old 1 04 04 02 06; said 1 03 04 - 06", "a 2 06 - - -"},
		{5, nil, false, "", ""}, // the clock was set back
		{8, []event.Instance{named}, false, "a 2 06 - - -", ""},
		{10, []event.Instance{named}, true, "a 2 06 - - -", ""},
		{30, nil, false, "a 2 06 10 - 30", ""}, // polls in between were missed
		{32, []event.Instance{machine("a", "2")}, false, "", "a 2 32 - 30 -"},
	} {
		news := text(r.Poll(minute(x.at), x.running, x.again))
		begun := text(r.Begun())
		if news != x.news || begun != x.begun {
			t.Errorf("poll at %d: news %q, begun %q; want %q, %q", x.at, news, begun, x.news, x.begun)
		}
	}
}

// A run has an id of its own as long as nothing is new about it, whenever it is told.
func TestTheBeginningOfARunHasOneID(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for _, later := range []int{2, 4} {
		var r connectors.Runs
		r.Poll(minute(0), []event.Instance{machine("a", "1")}, false) // kept, and then a crash
		r.Poll(minute(later), []event.Instance{machine("a", "1")}, true)
		var k keeper
		if err := connectors.TellRuns(t.Context(), &k, "s", r.Begun()); err != nil {
			t.Fatal(err)
		}
		ids[fmt.Sprint(k.ids)] = true
	}
	if len(ids) != 1 {
		t.Errorf("ids %v", ids)
	}
}
