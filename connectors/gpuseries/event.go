package gpuseries

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

// maxPayload leaves room in a message for its headers.
const maxPayload = bus.MaxMessage - 8*1024

// Send publishes what was found, in messages of allowed size.
func Send(ctx context.Context, source string, found []event.GPUSamples, emit connectors.Emitter) error {
	for _, whole := range found {
		events, err := Events(source, "", whole)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := emit.Event(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// Events are the messages of one scrape. A version tells apart what was said of one target
// and time at first from what was said when more of it was known.
func Events(source, version string, whole event.GPUSamples) ([]event.Event, error) {
	parts := split(whole)
	out := make([]event.Event, 0, len(parts))
	for _, part := range parts {
		e, err := newEvent(source, version, part)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// newEvent names a scrape by target and sample time, so that a retry has the same id.
func newEvent(source, version string, s event.GPUSamples) (event.Event, error) {
	key := s.Target + "@" + s.At.UTC().Format(time.RFC3339Nano)
	if s.Parts > 1 {
		key += fmt.Sprintf("#%d/%d", s.Part, s.Parts)
	}
	return event.New(event.TypeGPUSamples, source, key, version, s.At, s)
}

// split divides a scrape that is too large for one message by its GPUs. Counts of the body
// stay with the first part.
func split(s event.GPUSamples) []event.GPUSamples {
	body, err := json.Marshal(s)
	if err != nil || len(body) <= maxPayload || len(s.GPUs) < 2 {
		return []event.GPUSamples{s}
	}
	n := min(len(body)/(maxPayload*9/10)+1, len(s.GPUs))
	for {
		parts := cut(s, n)
		if n == len(s.GPUs) || fits(parts) {
			return parts
		}
		n = min(2*n, len(s.GPUs))
	}
}

func cut(s event.GPUSamples, n int) []event.GPUSamples {
	parts := make([]event.GPUSamples, n)
	for i := range parts {
		p := s
		p.GPUs = s.GPUs[i*len(s.GPUs)/n : (i+1)*len(s.GPUs)/n]
		p.Part, p.Parts = i+1, n
		if i > 0 {
			p.Rejected, p.Clamped, p.Duplicates, p.Lines, p.Families = nil, 0, 0, 0, 0
		}
		parts[i] = p
	}
	return parts
}

func fits(parts []event.GPUSamples) bool {
	for _, p := range parts {
		if body, err := json.Marshal(p); err != nil || len(body) > maxPayload {
			return false
		}
	}
	return true
}
