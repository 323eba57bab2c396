package awsinventory

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/schema/event"
)

func catalogOf(tb testing.TB) catalogue {
	tb.Helper()
	k, err := known()
	must(tb, err)
	return k
}

var known = sync.OnceValues(readCatalog)

// at is noon and some minutes.
func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

func (m machine) sight(tb testing.TB) sight {
	tb.Helper()
	s, ok := catalogOf(tb).read(types.Instance{
		InstanceId: &m.id, InstanceType: types.InstanceType(m.kind), State: &types.InstanceState{Name: types.InstanceStateName(m.state)},
		LaunchTime: &m.launch, StateTransitionReason: &m.reason, PlatformDetails: aws.String("Linux/UNIX"),
		Placement: &types.Placement{AvailabilityZone: aws.String("us-east-1a")},
	}, "1", "us-east-1")
	if !ok {
		tb.Fatalf("%+v is no instance", m)
	}
	return s
}

// How a run ends, as seen from a first answer at 12:00 and a second at 12:10, which is whole at
// 12:10:01. The instance was started at 11:00.
func TestHowRunsEnd(t *testing.T) {
	t.Parallel()
	run := func(state, reason string, launch int) machine {
		return machine{"i-1", "p5.48xlarge", state, reason, at(launch)}
	}
	running := run("running", "", -60)
	for name, x := range map[string]struct {
		first, second []machine
		want          string // what the second answer tells
	}{
		"it goes on":                        {[]machine{running}, []machine{running}, "[]"},
		"stopped, with the time":            {[]machine{running}, []machine{run("stopping", "User initiated (2026-10-01 12:04:05 GMT)", -60)}, "[i-1 on_demand 11:00:00..12:04:05<-]"},
		"interrupted, with the time":        {[]machine{running}, []machine{run("terminated", "Service initiated (2026-10-01 12:04:05 GMT)", -60)}, "[i-1 on_demand 11:00:00..12:04:05<-]"},
		"ended, without a time":             {[]machine{running}, []machine{run("terminated", "Client.InstanceInitiatedShutdown", -60)}, "[i-1 on_demand 11:00:00..12:00:00<12:10:01]"},
		"gone":                              {[]machine{running}, nil, "[i-1 on_demand 11:00:00..12:00:00<12:10:01]"},
		"an older reason":                   {[]machine{running}, []machine{run("stopped", "User initiated (2026-09-01 12:04:05 GMT)", -60)}, "[i-1 on_demand 11:00:00..12:00:00<12:10:01]"},
		"started again":                     {[]machine{running}, []machine{run("running", "", 5)}, "[i-1 on_demand 11:00:00..12:00:00<12:05:00 i-1 on_demand 12:05:00..-<-]"},
		"starting again":                    {[]machine{running}, []machine{run("pending", "", 5)}, "[i-1 on_demand 11:00:00..12:00:00<12:05:00]"},
		"new":                               {nil, []machine{run("running", "", 5)}, "[i-1 on_demand 12:05:00..-<-]"},
		"had begun before, and is seen now": {[]machine{run("pending", "", -1)}, []machine{run("running", "", -1)}, "[i-1 on_demand 11:59:00..-<-]"},
		"came and went":                     {nil, []machine{run("terminated", "User initiated (2026-10-01 12:09:00 GMT)", 5)}, "[i-1 on_demand 12:05:00..12:09:00<-]"},
		"came and went, without a time":     {nil, []machine{run("terminated", "", 5)}, "[i-1 on_demand 12:05:00..12:05:00<12:10:01]"},
		"had ended before":                  {[]machine{run("stopped", "", -60)}, []machine{run("stopped", "", -60)}, "[]"},
		"is described otherwise":            {[]machine{running}, []machine{{"i-1", "p5.4xlarge", "running", "", at(-60)}}, "[i-1 on_demand 11:00:00..-<-]"},
	} {
		var p place
		p.look(at(0), at(0), sights(t, x.first))
		var got []string
		for _, r := range p.look(at(10), at(10), sights(t, x.second)) {
			got = append(got, say(r.run))
		}
		if fmt.Sprint(got) != x.want {
			t.Errorf("%s: %v, want %s", name, got, x.want)
		}
		if again := p.look(at(11), at(11), sights(t, x.second)); len(again) != 0 {
			t.Errorf("%s: told again: %v", name, again)
		}
	}
}

func sights(tb testing.TB, all []machine) []sight {
	tb.Helper()
	var out []sight
	for _, m := range all {
		out = append(out, m.sight(tb))
	}
	return out
}

// A clock that was set back tells nothing of what it would get wrong.
func TestOlderAnswerChangesNothing(t *testing.T) {
	t.Parallel()
	var p place
	p.look(at(0), at(0), sights(t, []machine{{"i-1", "p5.48xlarge", "running", "", at(-60)}}))
	if got := p.look(at(-5), at(-5), nil); len(got) != 0 || len(p.Open) != 1 {
		t.Errorf("told %v, left %v", got, p.Open)
	}
}

// A tag that changes there and back is told each time: a repeated id would be dropped.
func TestWhatChangesBackIsToldAgain(t *testing.T) {
	t.Parallel()
	var p place
	ids := map[string]bool{}
	for i := range 6 {
		s := machine{"i-1", "p5.48xlarge", "running", "", at(-60)}.sight(t)
		s.run.Tags = map[string]string{"project": fmt.Sprint(i / 2 % 2)} // 0 0 1 1 0 0
		for _, x := range p.look(at(i), at(i), []sight{s}) {
			e, err := x.event("aws", at(i))
			must(t, err)
			ids[e.ID] = true
		}
	}
	if len(ids) != 3 {
		t.Errorf("%d ids of 3 tellings", len(ids))
	}
}

// stint is one run of the simulated cloud, in seconds after noon.
type stint struct {
	start, stop int
	told        bool // AWS says when it stopped
}

// life is what one instance does; shows is what an answer at a second has of it.
type life []stint

func (l life) shows(tb testing.TB, id string, now int) []sight {
	tb.Helper()
	for i, s := range slices.Backward(l) {
		m := machine{id: id, kind: "p5.48xlarge", launch: noon.Add(time.Duration(s.start) * time.Second)}
		switch {
		case now < s.start:
			continue
		case now < s.start+20:
			m.state = "pending"
		case now < s.stop:
			m.state = "running"
		case i == len(l)-1 && now > s.stop+3600:
			return nil // terminated instances are shown for about an hour
		default:
			m.state = map[bool]string{true: "terminated", false: "stopped"}[i == len(l)-1]
			if s.told {
				m.reason = "User initiated (" + noon.Add(time.Duration(s.stop)*time.Second).Format(time.DateTime) + " GMT)"
			}
		}
		return []sight{m.sight(tb)}
	}
	return nil
}

func lives(rt *rapid.T) map[string]life {
	out := map[string]life{}
	for i := range rapid.IntRange(1, 4).Draw(rt, "instances") {
		var l life
		now := 0
		for range rapid.IntRange(1, 4).Draw(rt, "runs") {
			now += rapid.IntRange(1, 4000).Draw(rt, "pause")
			s := stint{start: now, told: rapid.Bool().Draw(rt, "told")}
			now += rapid.IntRange(21, 5000).Draw(rt, "length")
			s.stop = now
			l = append(l, s)
		}
		out[fmt.Sprint("i-", i)] = l
	}
	return out
}

// Whatever is polled and when, with crashes that lose the cursor of a poll: runs are true ones,
// their ends are exact where AWS says them and bounded by the truth where not, every run that a
// poll saw is told, and the same answer gives the same ids.
func TestRunsAreTrueHoweverOftenIsAsked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		cloud := lives(rt)
		store := map[string]event.Instance{}
		saw := map[string]bool{}
		var p place
		now := 0
		for range rapid.IntRange(1, 30).Draw(rt, "polls") {
			now += rapid.IntRange(1, 1500).Draw(rt, "gap")
			var seen []sight
			for id, l := range cloud {
				for _, s := range l.shows(t, id, now) {
					seen = append(seen, s)
					if s.state == types.InstanceStateNameRunning {
						saw[id+s.run.SeenFrom.String()] = true
					}
				}
			}
			asked := noon.Add(time.Duration(now) * time.Second)
			first := poll(rt, &p, asked, seen, false)
			if rapid.Bool().Draw(rt, "crash") {
				if again := poll(rt, &p, asked, seen, false); fmt.Sprint(ids(again)) != fmt.Sprint(ids(first)) {
					rt.Fatalf("other ids after a crash: %v, %v", ids(first), ids(again))
				}
			}
			for _, r := range poll(rt, &p, asked, seen, true) {
				var i event.Instance
				must(t, r.Decode(&i))
				store[i.ResourceID+i.SeenFrom.String()] = i
			}
		}
		check(rt, cloud, store, now)
		for key := range saw {
			if _, ok := store[key]; !ok {
				rt.Fatalf("%s was seen and not told", key)
			}
		}
	})
}

func ids(all []event.Event) []string {
	var out []string
	for _, e := range all {
		out = append(out, e.ID)
	}
	return out
}

// poll looks from a cursor as it was saved, and saves it if keep.
func poll(rt *rapid.T, p *place, asked time.Time, seen []sight, keep bool) []event.Event {
	cur, err := json.Marshal(p)
	if err != nil {
		rt.Fatal(err)
	}
	var q place
	if err := json.Unmarshal(cur, &q); err != nil {
		rt.Fatal(err)
	}
	var out []event.Event
	for _, r := range q.look(asked, asked, seen) {
		e, err := r.event("aws", asked)
		if err != nil {
			rt.Fatal(err)
		}
		out = append(out, e)
	}
	if keep {
		*p = q
	}
	return out
}

func check(rt *rapid.T, cloud map[string]life, store map[string]event.Instance, now int) {
	for _, i := range store {
		n := slices.IndexFunc(cloud[i.ResourceID], func(s stint) bool { return noon.Add(time.Duration(s.start) * time.Second).Equal(i.SeenFrom) })
		if n < 0 {
			rt.Fatalf("%s is no run", say(i))
		}
		s := cloud[i.ResourceID][n]
		stop := noon.Add(time.Duration(s.stop) * time.Second)
		switch {
		case i.SeenTo == nil:
			if s.stop <= now {
				rt.Fatalf("%s ended at %v, which was not told by %d", say(i), stop, now)
			}
		case i.EndedBefore == nil:
			if !i.SeenTo.Equal(stop) {
				rt.Fatalf("%s ended at %v", say(i), stop)
			}
		case stop.Before(*i.SeenTo) || stop.After(*i.EndedBefore):
			rt.Fatalf("%s ended at %v", say(i), stop)
		}
	}
}

// FuzzStopped reads any reason: a time or none, never a panic.
func FuzzStopped(f *testing.F) {
	for _, s := range []string{"", "User initiated (2026-10-01 12:00:00 GMT)", "User initiated (2026-13-01 12:00:00 GMT)", "Server.SpotInstanceTermination", "(2026-10-01 12:00:00 UTC)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := stopped(s); !got.IsZero() && (got.Year() < 0 || got.Year() > 9999 || got.Location() != time.UTC) {
			t.Errorf("%q: %v", s, got)
		}
	})
}
