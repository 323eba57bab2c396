package alert_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/processors/alert"
	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/schema/event"
)

const idleRule = channels + `
  - {name: idle, kind: idle_gpu, channel: gpu}`

var sunday = friday.Add(41 * time.Hour).Add(8 * time.Minute)

func TestIdleAlertOncePerIncidentAcrossRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, idleRule)
	at := func(d time.Duration, cost string) time.Time {
		w.facts.set(idleNode("trn-07", friday.Add(d), cost))
		return friday.Add(d)
	}
	w.pass(at(10*time.Minute, "6"))
	w.pass(at(time.Hour, "34"))
	w.pass(at(90*time.Minute, "51")) // enough money, too short
	if got := w.sent["gpu"].headings(); len(got) != 0 {
		t.Fatalf("too early: %q", got)
	}
	for h := 2; h < 10; h++ {
		w.pass(at(time.Duration(h)*time.Hour, fmt.Sprint(34*h)))
		w.restart()
	}
	// A silent node is unknown: the alert holds.
	w.facts.set()
	w.pass(friday.Add(11 * time.Hour))
	w.facts.know("trn-07", friday.Add(12*time.Hour), "busy")
	w.pass(friday.Add(12 * time.Hour))
	w.restart()
	w.facts.know("trn-07", friday.Add(12*time.Hour+15*time.Minute), "busy")
	w.pass(friday.Add(12*time.Hour + 15*time.Minute))
	w.restart()
	w.facts.know("trn-07", friday.Add(13*time.Hour), "busy")
	w.pass(friday.Add(13 * time.Hour))
	w.pass(friday.Add(13*time.Hour + time.Minute))
	want := []string{"trn-07: 8 x H100 idle since Fri 18:05 (Europe/Berlin), 68 USD so far", "trn-07: 8 x H100 no longer idle"}
	if d := cmp.Diff(want, w.sent["gpu"].headings()); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
	if text := w.sent["gpu"].messages[1].Sections[0].Text; text != "Idle for 9 h 0 min; 306.00 USD, estimated, 34.40 USD an hour. The GPUs work again." {
		t.Errorf("resolved text: %q", text)
	}
	var types []string
	ids := map[string]bool{}
	for _, e := range w.events() {
		types, ids[e.ID] = append(types, e.Type), true
	}
	if d := cmp.Diff([]string{event.TypeAlertFiring, event.TypeAlertResolved}, types); d != "" || len(ids) != 2 {
		t.Errorf("events (-want +got):\n%s", d)
	}
	list, err := w.List(t.Context())
	if err != nil || len(list) != 0 {
		t.Errorf("remembered after the end: %+v, %v", list, err)
	}
}

func TestIdleMessageSaysEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t, idleRule)
	n := idleNode("trn-07", sunday, "1414.99")
	w.facts.set(n)
	w.pass(sunday)
	m := w.sent["gpu"].messages[0]
	if want := "trn-07: 8 x H100 idle since Fri 18:05 (Europe/Berlin), 1,415 USD so far"; m.Heading != want {
		t.Errorf("heading %q, want %q", m.Heading, want)
	}
	want := []notify.Section{
		{
			Text: "Stopping it now saves 749 USD by Monday 09:00 (11 May, CEST).",
			Fields: []notify.Field{
				{Name: "Where", Value: "AWS, 123456789012, us-east-1, i-trn-07"},
				{Name: "GPUs", Value: "8 x H100"},
				{Name: "Idle since", Value: "Fri 8 May 2026 18:05 CEST, 41 h 8 min"},
				{Name: "State", Value: "unallocated idle: no job"},
				{Name: "Last job", Value: "4711 of alice, COMPLETED at Fri 18:05"},
				{Name: "Owner", Value: "alice (ran the last job), project llm-train"},
				{Name: "Evidence", Value: "engine at most 0.0 %, mean power 71 W per GPU, samples for 99 % of the time"},
				{Name: "Cost so far", Value: "1,414.99 USD, estimated, 34.40 USD an hour."},
			},
		},
		{Title: "To stop paying", Text: "Volumes are still billed.", Code: "aws ec2 stop-instances --region us-east-1 --instance-ids i-trn-07"},
	}
	if d := cmp.Diff(want, m.Sections); d != "" {
		t.Errorf("sections (-want +got):\n%s", d)
	}
}

func TestCommittedMachineSavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, idleRule)
	n := idleNode("res-1", sunday, "900")
	n.Avoidable, n.PricingModel = amount("0"), "capacity_block"
	w.facts.set(n)
	w.pass(sunday)
	got := w.sent["gpu"].messages[0].Sections[0].Text
	if want := "Committed (capacity block): stopping it now saves nothing. Its hours are lost unless a job uses them."; got != want {
		t.Errorf("got %q", got)
	}
}

// Case 029: a gap is not idle; 30 known idle minutes from 10:40 end at 11:10.
func TestGapIsNotIdle(t *testing.T) {
	t.Parallel()
	var in struct {
		Below   float64 `json:"idle_below_percent"`
		After   int     `json:"alert_after_idle_minutes"`
		Samples []struct {
			From string   `json:"from"`
			To   string   `json:"to"`
			Util *float64 `json:"util"`
		} `json:"samples"`
	}
	readJSON(t, "testdata/case029.json", &in)
	w := newWorld(t, channels+fmt.Sprintf(`
  - {name: idle, kind: idle_gpu, channel: gpu, for: %dm, min_waste: 0}`, in.After))
	day := friday.Truncate(24 * time.Hour)
	clock := func(s string) time.Time {
		c, err := time.Parse("15:04", s)
		if err != nil {
			t.Fatal(err)
		}
		return day.Add(time.Duration(c.Hour()*60+c.Minute()) * time.Minute)
	}
	var fired []string
	for _, s := range in.Samples {
		for at := clock(s.From); !at.After(clock(s.To)); at = at.Add(time.Minute) {
			until := at.Add(time.Minute) // a sample covers the minute from its stamp
			w.facts.set()
			switch {
			case s.Util == nil:
			case *s.Util < in.Below:
				n := idleNode("ex-9", until, "0")
				n.IdleSince = clock(s.From)
				w.facts.set(n)
				w.facts.know("ex-9", until, "unallocated_idle")
			default:
				w.facts.know("ex-9", until, "busy")
			}
			before := len(w.sent["gpu"].headings())
			w.pass(until)
			if len(w.sent["gpu"].headings()) > before {
				fired = append(fired, until.Format("15:04"))
			}
		}
	}
	if d := cmp.Diff([]string{"11:10"}, fired); d != "" {
		t.Errorf("alert times (-want +got):\n%s", d)
	}
}

func TestWhatDoesNotFire(t *testing.T) {
	t.Parallel()
	now := friday.Add(5 * time.Hour) // Friday night in Berlin
	for name, c := range map[string]struct {
		rule string
		node func(*alert.IdleNode)
		held string
	}{
		"too cheap":         {node: func(n *alert.IdleNode) { n.CostSoFar = amount("49.99") }},
		"cost unknown":      {node: func(n *alert.IdleNode) { n.CostSoFar = nil }, held: "the cost of this machine is unknown"},
		"other currency":    {node: func(n *alert.IdleNode) { n.Currency = "EUR" }, held: "min_waste names no amount in EUR"},
		"stale":             {node: func(n *alert.IdleNode) { n.SeenUntil = now.Add(-21 * time.Minute) }, held: "no sample since 2026-05-08T20:44:00Z"},
		"outside calendar":  {rule: ", calendar: {days: [sat, sun]}", held: "outside the rule's calendar"},
		"exempt node":       {rule: `, exempt: [{node: "trn-*"}]`},
		"exempt owner":      {rule: `, exempt: [{owner: "ml/*"}]`, node: func(n *alert.IdleNode) { n.Owner = "ml/notebook/1" }},
		"exempt project":    {rule: `, exempt: [{project: "llm-?rain", node: "*07"}]`},
		"in maintenance":    {node: func(n *alert.IdleNode) { n.State = "unavailable" }},
		"high minimum":      {rule: ", min_waste: [500 USD, 1 EUR]"},
		"long minimum time": {rule: ", min_idle: 6h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, channels+"\n  - {name: idle, kind: idle_gpu, channel: gpu"+c.rule+"}")
			n := idleNode("trn-07", now, "172")
			if c.node != nil {
				c.node(&n)
			}
			w.facts.set(n)
			w.pass(now)
			if got := w.sent["gpu"].headings(); len(got) != 0 {
				t.Errorf("sent %q", got)
			}
			list, err := w.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held := ""
			for _, i := range list {
				held += i.Held
			}
			if held != c.held {
				t.Errorf("held %q, want %q", held, c.held)
			}
		})
	}
}

func TestGroupsAndDigest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, idleRule)
	var nodes []alert.IdleNode
	for i := range 3 { // one owner: one message
		n := idleNode(fmt.Sprintf("own-%d", i), sunday, "100.40")
		n.Owner, n.Confidence = "ml/train", "high"
		nodes = append(nodes, n)
	}
	for i := range 8 {
		nodes = append(nodes, idleNode(fmt.Sprintf("trn-%d", i), sunday, "200"))
	}
	nodes[10].Currency, nodes[10].CostSoFar = "USD", amount("60")
	w.facts.set(nodes...)
	w.pass(sunday)
	got := w.sent["gpu"].headings()
	if len(got) != 5 {
		t.Fatalf("%d messages, want five: %q", len(got), got)
	}
	all := strings.Join(got, "\n")
	var text strings.Builder
	for _, m := range w.sent["gpu"].messages {
		text.WriteString(m.Heading)
		for _, s := range m.Sections {
			text.WriteString(s.Title)
		}
	}
	for _, n := range nodes {
		if !strings.Contains(text.String(), n.Node+":") {
			t.Errorf("%s is in no message", n.Node)
		}
	}
	if !strings.Contains(all+text.String(), "3 idle GPUs of ml/train: 301 USD so far") && !strings.Contains(text.String(), "own-2:") {
		t.Errorf("headings:\n%s", all)
	}
	if !strings.HasPrefix(got[4], "Digest of ") {
		t.Errorf("the last message is %q", got[4])
	}
	// The sixth waits for the hour to pass, and is not lost.
	late := idleNode("late-1", sunday.Add(time.Minute), "70")
	w.facts.set(append(nodes, late)...)
	w.pass(sunday.Add(time.Minute))
	w.restart()
	w.pass(sunday.Add(20 * time.Minute))
	if n := len(w.sent["gpu"].headings()); n != 5 {
		t.Fatalf("%d messages within the hour", n)
	}
	w.pass(sunday.Add(time.Hour))
	if got := w.sent["gpu"].headings(); len(got) != 6 || !strings.HasPrefix(got[5], "late-1:") {
		t.Errorf("after the hour: %q", got[5:])
	}
}

func TestChannelThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, idleRule)
	w.sent["gpu"].answers = []error{errLater, errLater, nil, &notify.PermanentError{Err: fmt.Errorf("channel_not_found")}}
	w.facts.set(idleNode("trn-1", sunday, "100"))
	now := sunday
	for range 2 {
		if err := w.Evaluate(t.Context(), now); err == nil {
			t.Error("a channel that fails is not reported")
		}
		w.restart()
		now = now.Add(20 * time.Second)
	}
	w.pass(now) // the message it was, though the reason may be gone
	w.pass(now.Add(time.Second))
	if got := w.sent["gpu"].headings(); len(got) != 1 {
		t.Fatalf("sent %q", got)
	}
	w.facts.set(idleNode("trn-1", sunday, "100"), idleNode("trn-2", sunday, "100"))
	w.pass(now.Add(2 * time.Second)) // refused for good
	w.pass(now.Add(20 * time.Minute))
	list, err := w.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(i alert.Instance) bool { return i.Node.Node == "trn-2" })
	if o := list[i].Fired; !o.Failed || !o.SentAt.IsZero() || o.Attempts != 1 || !strings.Contains(o.LastError, "channel_not_found") {
		t.Errorf("refused notice: %+v", o)
	}
	if got := w.sent["gpu"].headings(); len(got) != 1 {
		t.Errorf("sent %q", got)
	}
	if info, err := w.js.Stream(t.Context(), "DEAD"); err != nil || info.CachedInfo().State.Msgs != 1 {
		t.Errorf("dead letters: %v, %v", info.CachedInfo().State.Msgs, err)
	}
}

func TestRetiredRuleEndsQuietly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, idleRule)
	w.facts.set(idleNode("trn-1", sunday, "100"))
	w.pass(sunday)
	w.rules.Idle = nil
	w.restart()
	w.pass(sunday.Add(time.Minute))
	w.pass(sunday.Add(2 * time.Minute))
	list, err := w.List(t.Context())
	if err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
	if got := w.sent["gpu"].headings(); len(got) != 1 {
		t.Errorf("sent %q", got)
	}
	if got := w.events(); len(got) != 2 || got[1].Type != event.TypeAlertResolved {
		t.Errorf("%d events", len(got))
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, idleRule)
	w.facts.set(idleNode("trn-1", friday.Add(3*time.Hour), "100"))
	sent := make(chan struct{})
	w.sent["gpu"].onSend = func() { close(sent) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	<-sent
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Case 039: what waits is still delivered although its reason is gone, and the end after it.
func TestClearedWhileTheChannelWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, idleRule+"\n")
	w.sent["gpu"].answers = []error{&notify.RetryError{After: time.Hour, Err: errors.New("429")}}
	w.facts.set(idleNode("trn-1", sunday, "100"))
	if err := w.Evaluate(t.Context(), sunday); err == nil {
		t.Error("the wait is not reported")
	}
	w.facts.set()
	for _, d := range []time.Duration{20 * time.Minute, 40 * time.Minute, 59 * time.Minute} {
		w.facts.know("trn-1", sunday.Add(d), "busy")
		w.pass(sunday.Add(d))
		w.restart()
	}
	if got := w.sent["gpu"].headings(); len(got) != 0 {
		t.Fatalf("sent during the wait: %q", got)
	}
	for _, d := range []time.Duration{60 * time.Minute, 61 * time.Minute, 62 * time.Minute} {
		w.facts.know("trn-1", sunday.Add(d), "busy")
		w.pass(sunday.Add(d))
	}
	want := []string{"trn-1: 8 x H100 idle since Fri 18:05 (Europe/Berlin), 100 USD so far", "trn-1: 8 x H100 no longer idle"}
	if d := cmp.Diff(want, w.sent["gpu"].headings()); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
}
