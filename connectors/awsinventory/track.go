package awsinventory

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/idlewatt/idlewatt/schema/event"
)

// cursor is what is remembered between two pulls, by "account/region".
type cursor struct {
	Places map[string]*place `json:"places"`
}

// place is what is known of one region of one account. Times are Unix seconds.
type place struct {
	// Seen is when the last answer was asked for that came whole; 0: none did.
	Seen int64 `json:"seen,omitempty"`
	// Open are the runs that were seen then, by instance id.
	Open map[string]open `json:"open,omitempty"`
	// Done are instances in the answer that do not run, with the start of their last run: it
	// has been told to its end.
	Done map[string]int64 `json:"done,omitempty"`
	// Later is when it may be asked again, after it was refused.
	Later int64 `json:"later,omitempty"`
}

// open is a run that was not seen to end. N counts how often it was told, so that each telling
// has an id of its own, which is the same after a crash.
type open struct {
	Run event.Instance `json:"run"`
	N   int            `json:"n"`
}

// told is one run to tell, for the nth time.
type told struct {
	run event.Instance
	n   int
}

// look takes everything that an answer shows, whole, and returns the runs of which there is
// news. asked is before its first page was asked for, answered after its last one came. What
// is not after the last answer tells nothing and changes nothing.
func (p *place) look(asked, answered time.Time, seen []sight) []told {
	asked, answered = asked.UTC().Truncate(time.Second), answered.UTC().Truncate(time.Second).Add(time.Second)
	if asked.Unix() <= p.Seen {
		return nil
	}
	next := place{Seen: asked.Unix(), Open: map[string]open{}, Done: map[string]int64{}}
	shown := map[string]sight{}
	for _, s := range seen {
		shown[s.run.ResourceID] = s
	}
	var out []told
	for _, id := range slices.Sorted(maps.Keys(p.Open)) {
		was := p.Open[id]
		is, there := shown[id]
		if there && is.goesOn(was.Run) {
			was = was.news(is.run, &out)
			next.Open[id] = was
			continue
		}
		out = append(out, was.end(p.until(was.Run, is, there, answered)))
	}
	for _, id := range slices.Sorted(maps.Keys(shown)) {
		is := shown[id]
		launch := is.run.SeenFrom.Unix()
		switch is.state {
		case types.InstanceStateNamePending:
		case types.InstanceStateNameRunning:
			if _, ok := next.Open[id]; !ok {
				next.Open[id] = open{}.news(is.run, &out)
			}
		default:
			next.Done[id] = launch
			if was, had := p.Open[id]; had && was.Run.SeenFrom.Unix() == launch || p.Done[id] == launch {
				continue
			}
			if run, ok := p.missed(is, answered); ok {
				out = append(out, open{}.end(run))
			}
		}
	}
	*p = next
	return out
}

// goesOn reports whether an instance is still in the run.
func (s sight) goesOn(run event.Instance) bool {
	return s.run.SeenFrom.Equal(run.SeenFrom) && (s.state == types.InstanceStateNameRunning || s.state == types.InstanceStateNamePending)
}

// news tells the run if it is not as it was told.
func (o open) news(is event.Instance, out *[]told) open {
	if o.N > 0 && text(o.Run) == text(is) {
		return o
	}
	o = open{Run: is, N: o.N + 1}
	*out = append(*out, told{is, o.N})
	return o
}

func (o open) end(run event.Instance) told { return told{run, o.N + 1} }

// event is what is published. Its id follows from the run as it is told and from how often it
// was told before.
func (t told) event(source string, at time.Time) (event.Event, error) {
	t.run.Source = source
	key := t.run.ResourceID + "@" + t.run.SeenFrom.Format(time.RFC3339)
	version := strconv.Itoa(t.n) + "/" + event.ID(text(t.run), "", "")
	return event.New(event.TypeInventoryInstance, "idlewatt/"+source, key, version, at, t.run)
}

// until ends a run: when AWS says so, or between the last answer and the moment at which it
// surely ran no more.
func (p *place) until(run event.Instance, is sight, there bool, answered time.Time) event.Instance {
	last, by := time.Unix(p.Seen, 0).UTC(), answered
	same := there && is.run.SeenFrom.Equal(run.SeenFrom)
	switch {
	case same && !is.ended.IsZero():
		end := is.ended
		run.SeenTo = &end
		return run
	case there && !same && is.run.SeenFrom.Before(by):
		by = is.run.SeenFrom // it was started again
	}
	return between(run, last, by)
}

// missed is a run that came and went between two answers. On the first answer it is only told
// where AWS says its end: without, an instance may have stood still for months.
func (p *place) missed(is sight, answered time.Time) (event.Instance, bool) {
	run := is.run
	if !is.ended.IsZero() {
		end := is.ended
		run.SeenTo = &end
		return run, true
	}
	if p.Seen == 0 {
		return run, false
	}
	return between(run, run.SeenFrom, answered), true
}

// between bounds the end of a run that surely lasted until last and surely not beyond by.
func between(run event.Instance, last, by time.Time) event.Instance {
	if last.Before(run.SeenFrom) {
		last = run.SeenFrom
	}
	if by.Before(last) {
		last = by
	}
	if last.Before(run.SeenFrom) {
		last, by = run.SeenFrom, run.SeenFrom
	}
	run.SeenTo = &last
	if by.After(last) {
		run.EndedBefore = &by
	}
	return run
}

// text is a run for comparisons.
func text(i event.Instance) string {
	b, err := json.Marshal(i)
	if err != nil {
		return "" // decimals, texts and times always encode
	}
	return string(b)
}

// quiet is how long a region without instances waits. Nothing is lost by it: what starts there
// is told with its start, and what ends is shown for most of an hour.
const quiet = 15 * time.Minute

// due reports whether to ask the place now.
func (p *place) due(now time.Time) bool {
	t := now.Unix()
	if t < p.Later {
		return false
	}
	return len(p.Open)+len(p.Done) > 0 || t-p.Seen >= int64(quiet/time.Second) || t < p.Seen
}
