package lambda

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
)

const (
	// lookBack is how far before the first poll the audit log is read.
	lookBack = 24 * time.Hour
	// overlap is read again each time: events may come late.
	overlap = 30 * time.Minute
	// maxPages ends an answer whose tokens never do.
	maxPages = 5000
)

// audit reads the audit log on from where it is known.
func (c *connector) audit(ctx context.Context, s *state, now time.Time, _ connectors.Emitter) error {
	from := s.Audited.Add(-overlap)
	if s.Audited.IsZero() {
		from = now.Add(-lookBack)
	}
	q := url.Values{"start": {from.Format(time.RFC3339)}, "end": {now.Format(time.RFC3339)}}
	seen := map[string]bool{}
	var events []auditEvent
	for range maxPages {
		var answer auditPage
		if _, err := c.api.Do(ctx, rest.Call{Path: "/audit-events", Query: q}, &answer); err != nil {
			return refusal{err}
		}
		if answer.Data == nil {
			return refusal{fmt.Errorf("asking %s: /audit-events answered no data", vendor)}
		}
		events = append(events, *answer.Data...)
		if answer.Token == "" {
			break
		}
		if seen[answer.Token] {
			return refusal{fmt.Errorf("asking %s: /audit-events gives the same page_token again", vendor)}
		}
		seen[answer.Token] = true
		q.Set("page_token", answer.Token)
	}
	for n, e := range events {
		if err := s.Lives.take(e, s.First); err != nil {
			return refusal{fmt.Errorf("asking %s: /audit-events, event %d: %w", vendor, n+1, err)}
		}
	}
	s.Audited = now
	return nil
}

type auditPage struct {
	Data  *[]auditEvent `json:"data"`
	Token string        `json:"page_token"`
}

// follow makes news of a poll and of the audit log: ends that the log knows to the second,
// launches that narrow a beginning, and machines that lived between two polls.
func (s *state) follow(now time.Time, running []event.Instance, there map[string]bool, again bool, account string) []connectors.Told {
	var out []connectors.Told
	for _, id := range slices.Sorted(maps.Keys(s.Lives)) {
		x := s.Lives[id]
		if !there[id] && !x.Ended.IsZero() && !x.Ended.After(now) {
			if t, ok := s.Machines.End(event.KindMachine, id, x.Ended); ok {
				s.Ended[id] = t.Instance
				out = append(out, t)
			}
		}
		out = append(out, s.correct(id, x, now)...)
	}
	for _, t := range s.Machines.Poll(now, running, again) {
		if t.SeenTo != nil {
			s.Ended[t.ResourceID] = t.Instance
		}
		out = append(out, t)
	}
	out = append(out, s.unseen(now, account)...)
	s.forget(now)
	return out
}

// correct mends what was told before the log came: when the machine was launched, if that is
// later than what is known, and when it ended, if that lies in what polls left open.
func (s *state) correct(id string, x life, now time.Time) []connectors.Told {
	if run := s.Machines.Open[event.KindMachine+"/"+id]; run != nil {
		if x.Launched.IsZero() || x.Launched.After(run.SeenFrom) || run.StartedAfter != nil && !x.Launched.After(*run.StartedAfter) {
			return nil
		}
		launched := x.Launched.Truncate(time.Millisecond)
		run.StartedAfter = &launched
		if !run.Told {
			return nil // it is told with this
		}
		return []connectors.Told{connectors.Tell(run.Instance, now)}
	}
	run, ok := s.Ended[id]
	if !ok || run.EndedBefore == nil || x.Ended.Before(*run.SeenTo) || x.Ended.After(*run.EndedBefore) {
		return nil
	}
	ended := x.Ended.Truncate(time.Millisecond)
	run.SeenTo, run.EndedBefore = &ended, nil
	s.Ended[id] = run
	return []connectors.Told{connectors.Tell(run, now)}
}

// unseen tells machines that came and went without a poll that saw them healthy.
func (s *state) unseen(now time.Time, account string) []connectors.Told {
	var out []connectors.Told
	for _, id := range slices.Sorted(maps.Keys(s.Lives)) {
		x := s.Lives[id]
		_, seen := s.Ended[id]
		open := s.Machines.Open[event.KindMachine+"/"+id] != nil
		if x.Told || seen || open || x.Launched.IsZero() || !x.Ended.After(x.Launched) || x.Ended.After(now) {
			continue
		}
		_, waited := s.Waiting[id]
		run := x.unseen(id, account, waited)
		if err := s.Prices[x.Type].describe(&run); err != nil {
			continue // prices were checked when they were read
		}
		x.Told = true
		s.Lives[id] = x
		out = append(out, connectors.Tell(run, x.Ended))
	}
	return out
}

func (s *state) forget(now time.Time) {
	s.Lives.forget(now, func(id string) bool { return s.Machines.Open[event.KindMachine+"/"+id] != nil })
	maps.DeleteFunc(s.Ended, func(_ string, i event.Instance) bool { return now.Sub(*i.SeenTo) > memory })
	maps.DeleteFunc(s.Waiting, func(_ string, at time.Time) bool { return now.Sub(at) > memory })
}
