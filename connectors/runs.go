package connectors

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Runs follows resources of an API that shows what runs now and not since when. It is part of
// a cursor. A run begins at the poll that saw it first. Its beginning is kept (see Keep) before
// it is told, so that a crash never makes two runs of one:
//
//	ended := r.Poll(now, running, again) // then TellRuns
//	Keep                                 // the cursor with r in it
//	begun := r.Begun()                   // then TellRuns
type Runs struct {
	// Seen is the time of the last complete poll.
	Seen time.Time `json:"seen,omitzero"`
	// Open are the runs that were seen then, by resource and kind.
	Open map[string]*Run `json:"open,omitempty"`
}

// Run is one run that was not seen to end.
type Run struct {
	event.Instance
	Told bool `json:"told,omitempty"`
}

// Told is one run to tell, as of a moment.
type Told struct {
	event.Instance
	version string
	at      time.Time
}

// Poll takes everything that runs at a moment, complete, and returns the runs of which there
// is news. A run that is not there any more ended between the last poll and this one. One
// whose rate, size or pricing changed goes on as another run from this moment. SeenFrom and
// StartedAfter of what is new may be given where the provider says them; else it began
// between the last poll and this one. again tells every open run once more, for when it is
// not sure what the bus has of it. A poll not after the last one tells and changes nothing.
func (r *Runs) Poll(at time.Time, running []event.Instance, again bool) []Told {
	at = at.UTC().Truncate(time.Millisecond)
	if !at.After(r.Seen) {
		return nil
	}
	now := map[string]event.Instance{}
	for _, i := range running {
		now[runKey(i)] = i
	}
	var out []Told
	next := map[string]*Run{}
	for _, key := range slices.Sorted(maps.Keys(r.Open)) {
		was := r.Open[key]
		is, there := now[key]
		switch {
		case !there:
			last := r.Seen
			was.SeenTo, was.EndedBefore = &last, &at
			out = append(out, was.tell(at))
		case !sameRun(was.Instance, is):
			was.SeenTo = &at
			out = append(out, was.tell(at))
			is.SeenFrom, is.StartedAfter = at, nil
			next[key] = &Run{Instance: is}
		default:
			is.SeenFrom, is.StartedAfter = was.SeenFrom, was.StartedAfter
			news := was.Told && (again || content(is) != content(was.Instance))
			was.Instance = is
			if news {
				out = append(out, was.tell(at))
			}
			next[key] = was
		}
	}
	for key, is := range now {
		if next[key] == nil {
			next[key] = &Run{Instance: r.begin(is, at)}
		}
	}
	r.Open, r.Seen = next, at
	return out
}

// Begun returns the runs that were never told, and takes them for told.
func (r *Runs) Begun() []Told {
	var out []Told
	for _, key := range slices.Sorted(maps.Keys(r.Open)) {
		if run := r.Open[key]; !run.Told {
			out = append(out, run.tell(r.Seen))
			run.Told = true
		}
	}
	return out
}

// begin bounds the beginning of a run that no poll saw before.
func (r *Runs) begin(i event.Instance, at time.Time) event.Instance {
	i.SeenFrom = i.SeenFrom.UTC().Truncate(time.Millisecond)
	if i.SeenFrom.IsZero() || i.SeenFrom.Before(r.Seen) || i.SeenFrom.After(at) {
		i.SeenFrom = at
	}
	if i.StartedAfter != nil {
		t := i.StartedAfter.UTC().Truncate(time.Millisecond)
		i.StartedAfter = &t
	}
	if i.StartedAfter != nil && !i.StartedAfter.Before(i.SeenFrom) {
		i.StartedAfter = nil
	}
	if !r.Seen.IsZero() && i.SeenFrom.Equal(at) && (i.StartedAfter == nil || i.StartedAfter.Before(r.Seen)) {
		seen := r.Seen
		i.StartedAfter = &seen
	}
	return i
}

// tell says the run as it is known now. The version of what is told first follows from the
// run alone, so that it has the same id after a crash.
func (r *Run) tell(at time.Time) Told {
	version := content(r.Instance)
	if r.Told {
		version += "@" + at.Format(time.RFC3339Nano)
	}
	return Told{Instance: r.Instance, version: version, at: at}
}

// End ends a run at a moment that the provider says, and returns it to tell; ok is false if
// there is no such run, or the last poll saw it later.
func (r *Runs) End(kind, resource string, at time.Time) (told Told, ok bool) {
	at = at.UTC().Truncate(time.Millisecond)
	key := runKey(event.Instance{Kind: kind, ResourceID: resource})
	was := r.Open[key]
	if was == nil || at.Before(r.Seen) {
		return told, false
	}
	delete(r.Open, key)
	was.SeenTo, was.EndedBefore = &at, nil
	return was.tell(at), true
}

// Tell says a run that no poll follows, or corrects one that is over.
func Tell(i event.Instance, at time.Time) Told {
	return Told{Instance: i, version: content(i), at: at}
}

func runKey(i event.Instance) string { return i.Kind + "/" + i.ResourceID }

// content is a run's text for comparisons.
func content(i event.Instance) string {
	b, err := json.Marshal(i)
	if err != nil {
		return "" // decimals, texts and times always encode
	}
	return event.ID(string(b), "", "")
}

// sameRun reports whether nothing that the rate depends on has changed.
func sameRun(a, b event.Instance) bool {
	return equal(a.Rate, b.Rate) && equal(a.GPUCount, b.GPUCount) && a.PricingModel == b.PricingModel && a.Currency == b.Currency &&
		a.InstanceType == b.InstanceType && a.Region == b.Region && a.Zone == b.Zone
}

func equal(a, b *money.Decimal) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// TellRuns publishes runs for a source.
func TellRuns(ctx context.Context, emit Emitter, source string, runs []Told) error {
	for _, r := range runs {
		r.Source = source
		key := runKey(r.Instance) + "@" + r.SeenFrom.UTC().Format(time.RFC3339Nano)
		e, err := event.New(event.TypeInventoryInstance, "idlewatt/"+source, key, r.version, r.at, r.Instance)
		if err != nil {
			return err
		}
		if err := emit.Event(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// TellPoll publishes that everything which ran at that moment has been told.
func TellPoll(ctx context.Context, emit Emitter, p event.Poll) error {
	p.At = p.At.UTC().Truncate(time.Millisecond)
	e, err := event.New(event.TypeInventoryPoll, "idlewatt/"+p.Source, p.Account+"/"+p.Region, p.At.Format(time.RFC3339Nano), p.At, p)
	if err != nil {
		return err
	}
	return emit.Event(ctx, e)
}
