package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// inside asks a handler without a network.
type inside struct{ http.Handler }

func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

// life is one pod of a made-up cluster, in minutes.
type life struct {
	name       string
	start, end int
	shown      int // how long its end is to be seen; 0: it vanishes
}

func at(minutes int) time.Time { return night.Add(time.Duration(minutes) * time.Minute) }

func (l life) show(now int) (json.RawMessage, bool) {
	if l.start > now || now >= l.end+l.shown {
		return nil, false
	}
	phase, status := "Running", ""
	if now >= l.end {
		phase = "Failed"
		status = fmt.Sprintf(`,"containerStatuses":[{"state":{"terminated":{"exitCode":1,"reason":"Error","finishedAt":%q}}}]`, at(l.end).Format(time.RFC3339))
	}
	return json.RawMessage(fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"ml","uid":%q},"spec":{"nodeName":"n","containers":[{"resources":{"limits":{"nvidia.com/gpu":"8"}}}]},
		"status":{"phase":%q,"startTime":%q%s}}`, l.name, "uid-"+l.name, phase, at(l.start).Format(time.RFC3339), status)), true
}

// TestPollsGiveTheSameTasks: however a cluster is polled, with whatever crashes, every pod that
// a poll saw stands once, from its own beginning to its own end, or, if it vanished, to within
// the two polls around it.
func TestPollsGiveTheSameTasks(t *testing.T) {
	t.Parallel()
	stub := &cluster{}
	c := against(t, stub)
	if err := c.api.open(); err != nil {
		t.Fatal(err)
	}
	c.api.http.Transport = inside{stub}
	rapid.Check(t, func(t *rapid.T) {
		var lives []life
		for i := range rapid.IntRange(1, 5).Draw(t, "pods") {
			start := rapid.IntRange(0, 60).Draw(t, "start")
			lives = append(lives, life{fmt.Sprint("p", i), start, start + rapid.IntRange(1, 60).Draw(t, "length"), rapid.SampledFrom([]int{0, 5, 1000}).Draw(t, "shown")})
		}
		now, before := 0, map[string]int{}
		after := map[string]int{}
		c.now = func() time.Time { return at(now) }
		var cur connectors.Cursor
		var all []event.Event
		pauses := rapid.SliceOfN(rapid.IntRange(1, 12), 1, 12).Draw(t, "pauses")
		for i, pause := range append(pauses, slices.Repeat([]int{12}, 14)...) {
			now += pause
			stub.pods = nil
			k := taker{}
			if i < len(pauses)+11 && rapid.Bool().Draw(t, "crash") {
				k.refuse = rapid.IntRange(1, 5).Draw(t, "after")
			}
			for _, l := range lives {
				if raw, ok := l.show(now); ok {
					stub.pods = append(stub.pods, raw)
				}
			}
			next, err := c.Pull(context.Background(), cur, &k)
			all = append(all, k.events...)
			if err == nil {
				cur = next
			} else if len(k.kept) > 0 {
				cur = k.kept[len(k.kept)-1]
			}
			told := map[string]bool{}
			for _, e := range all {
				told[strings.Split(e.Subject, "/")[1]] = true
			}
			for _, l := range lives {
				switch {
				case now < l.end && told["uid-"+l.name] && len(k.kept) == 2: // pods were listed
					before[l.name] = now
				case now >= l.end && after[l.name] == 0 && err == nil:
					after[l.name] = now
				}
			}
		}
		checkTasks(t, lives, all, before, after)
	})
}

func checkTasks(t *rapid.T, lives []life, all []event.Event, before, after map[string]int) {
	starts, ends := map[string]time.Time{}, map[string]time.Time{}
	for _, e := range all {
		var j event.Job
		if err := e.Decode(&j); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(j.ID, "ml/")
		switch e.Type {
		case event.TypeJobStarted:
			starts[name] = *j.Start
		case event.TypeJobFinished:
			if was, ok := ends[name]; ok && !was.Equal(*j.End) {
				t.Fatalf("%s ended %v, then %v", name, was, *j.End)
			}
			ends[name] = *j.End
		}
	}
	for _, l := range lives {
		seen, known := starts[l.name]
		if !known {
			if before[l.name] > 0 {
				t.Fatalf("%+v was never told", l)
			}
			continue
		}
		if !seen.Equal(at(l.start)) {
			t.Fatalf("%+v began %v", l, seen)
		}
		end, ended := ends[l.name]
		if !ended || end.Before(at(before[l.name])) || end.After(at(after[l.name])) || l.shown == 1000 && !end.Equal(at(l.end)) {
			t.Fatalf("%+v ended %v (%v), seen until %v, then from %v on not", l, end, ended, at(before[l.name]), at(after[l.name]))
		}
	}
}
