package lambda

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
)

// life is what the audit log says of one instance.
type life struct {
	Launched time.Time `json:"launched,omitzero"` // the request; it costs from the first passed health check on
	Ended    time.Time `json:"ended,omitzero"`
	Type     string    `json:"type,omitempty"`
	Region   string    `json:"region,omitempty"`
	Key      string    `json:"key,omitempty"`  // id of the API key that launched it
	Told     bool      `json:"told,omitempty"` // as a run that no poll saw
}

// lives are instances by id.
type lives map[string]life

const instanceLRN = "lrn:cloud:instance:"

// instances are those that an event names.
func (e auditEvent) instances() []string {
	var out []string
	for _, lrn := range append(slices.Clone(e.LRNs), e.Details.LRN) {
		if id, ok := strings.CutPrefix(lrn, instanceLRN); ok && plainID.MatchString(id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// Lambda does not document the names of actions. These are parts of words.
var (
	endings    = []string{"terminat", "delet", "preempt"}
	beginnings = []string{"launch", "creat", "provision", "deploy"}
)

func says(action string, words []string) bool {
	a := strings.ToLower(action)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(a, w) })
}

// take learns from an event. The first event that names an instance is its launch, whatever
// it is called, if the instance came up while it was watched; of older ones only an event
// that says so. The last ending event is the end.
func (l lives) take(e auditEvent, watchedFrom time.Time) error {
	ids := e.instances()
	if len(ids) == 0 {
		return nil
	}
	at, err := stamp("event_time", e.Time)
	if err != nil {
		return err
	}
	of := strings.ToLower(e.Resource)
	ends := says(e.Action, endings) && (of == "" || strings.Contains(of, "instance"))
	for _, id := range ids {
		x := l[id]
		switch {
		case ends:
			if at.After(x.Ended) {
				x.Ended = at
			}
		case says(e.Action, beginnings) || !at.Before(watchedFrom):
			if x.Launched.IsZero() || at.Before(x.Launched) {
				x.Launched = at
				_, x.Key, _ = strings.Cut(e.KeyLRN, ":api_key:")
			}
		}
		if e.Details.Type != "" {
			x.Type, x.Region = e.Details.Type, e.Details.Region
		}
		l[id] = x
	}
	return nil
}

// memory is how long what is over is kept for events that come late.
const memory = 48 * time.Hour

// forget drops instances that are over, or that nobody has heard of for long.
func (l lives) forget(now time.Time, running func(id string) bool) {
	maps.DeleteFunc(l, func(id string, x life) bool {
		switch {
		case running(id):
			return false
		case !x.Ended.IsZero():
			return now.Sub(x.Ended) > memory
		}
		return now.Sub(x.Launched) > 30*24*time.Hour
	})
}

// bootTime is assumed to be enough for health checks to pass, where no poll saw an instance.
const bootTime = 15 * time.Minute

// unseen is the run of an instance that only the audit log knows. It may have been billed from
// the launch on, or not at all: sure is nothing before the time that booting may take. polled
// says that a poll saw it, and never healthy.
func (x life) unseen(id, account string, polled bool) event.Instance {
	from := x.Ended
	if up := x.Launched.Add(bootTime); !polled && up.Before(x.Ended) {
		from = up
	}
	launched, ended := x.Launched, x.Ended
	return event.Instance{
		ResourceID: id, Kind: event.KindMachine, Provider: provider, Account: account, Region: x.Region, InstanceType: x.Type,
		Hosts: []string{id}, PricingModel: onDemand, Tags: x.tags(nil), SeenFrom: from, SeenTo: &ended, StartedAfter: &launched, Step: billingStep,
	}
}

// tags adds the key that launched an instance: one key per project tells projects apart.
func (x life) tags(t map[string]string) map[string]string {
	if x.Key == "" {
		return t
	}
	out := maps.Clone(t)
	if out == nil {
		out = map[string]string{}
	}
	out["launched_with_key"] = x.Key
	return out
}
