package alert

import (
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

// State is where an alert stands.
type State string

// The states. A pending alert tells nobody anything.
const (
	Pending  State = "pending"
	Firing   State = "firing"
	Resolved State = "resolved"
)

// Bounds are the two bounds of a value with hysteresis: values from Clear up to Fire change
// nothing.
type Bounds struct{ FireAt, ClearBelow money.Decimal }

// Judge says what a value asks for. Both are false in between.
func (b Bounds) Judge(v money.Decimal) (fire, over bool) {
	return v.GreaterThanOrEqual(b.FireAt), v.LessThan(b.ClearBelow)
}

// Reading is what one pass sees of the thing an alert is about.
type Reading struct {
	// Fire asks for the alert, Clear for its end, neither changes nothing.
	Fire, Clear bool
	// Hold says why this reading decides nothing: stale data, an unknown cost.
	Hold string
	// Why says what ended the alert, for people.
	Why string
}

// Instance is one alert: a rule met by one subject. It is what the bucket keeps.
type Instance struct {
	Rule    string `json:"rule"`
	Kind    string `json:"kind"`
	Subject string `json:"subject"` // node, or month and threshold: the natural key within the rule
	Channel string `json:"channel"`
	Group   string `json:"group"` // alerts of one group go out in one message
	State   State  `json:"state"`

	Since      time.Time `json:"since"` // of this state
	FiredAt    time.Time `json:"fired_at,omitzero"`
	ClearSince time.Time `json:"clear_since,omitzero"`
	// Held says why the last pass decided nothing.
	Held string `json:"held,omitempty"`
	// Why says what ended it.
	Why string `json:"why,omitempty"`

	Node *IdleNode `json:"node,omitempty"` // what an idle alert last saw

	Fired *Outgoing `json:"fired,omitempty"`
	Over  *Outgoing `json:"over,omitempty"`
}

// Key is the instance's key in the bucket: safe whatever the names hold.
func (i Instance) Key() string { return "alert." + event.ID("alert", i.Rule, i.Kind+"\x00"+i.Subject) }

// Incident is the same for everything one incident says, and different for the next one.
func (i Instance) Incident() string {
	return event.ID("idlewatt/alert", i.Key(), i.FiredAt.UTC().Format(time.RFC3339Nano))
}

// Step moves the alert by one reading. The zero Instance is one that was never seen; one
// that is to be forgotten comes back with an empty State. Times are those of the passes.
func (i Instance) Step(r Reading, clearAfter time.Duration, now time.Time) Instance {
	i.Held = r.Hold
	if r.Hold != "" {
		if i.State == "" && !r.Clear {
			i.State, i.Since = Pending, now
		}
		return i
	}
	switch i.State {
	case "", Resolved, Pending:
		return i.rise(r, now)
	case Firing:
		return i.fall(r, clearAfter, now)
	}
	return i
}

func (i Instance) rise(r Reading, now time.Time) Instance {
	switch {
	case i.State == Resolved && !i.settled():
		i.Held = "what the last incident has to say is not sent yet"
	case r.Fire:
		i.State, i.Since, i.FiredAt, i.ClearSince = Firing, now, now, time.Time{}
		i.Fired, i.Over = &Outgoing{}, nil
	case r.Clear:
		i.State = ""
	case i.State != Pending:
		i.State, i.Since = Pending, now
	}
	return i
}

func (i Instance) fall(r Reading, clearAfter time.Duration, now time.Time) Instance {
	if !r.Clear {
		i.ClearSince = time.Time{}
		return i
	}
	if i.ClearSince.IsZero() {
		i.ClearSince = now
	}
	if now.Sub(i.ClearSince) >= clearAfter {
		i.State, i.Since, i.Over, i.Why = Resolved, now, &Outgoing{}, r.Why
	}
	return i
}

// settled reports whether nothing is left to be sent.
func (i Instance) settled() bool {
	return (i.Fired == nil || i.Fired.done()) && (i.Over == nil || i.Over.done())
}
