package event

import (
	"fmt"
	"time"
)

// Names of the binary-mode headers on NATS.
const (
	headerID          = "ce-id"
	headerType        = "ce-type"
	headerSource      = "ce-source"
	headerSubject     = "ce-subject"
	headerTime        = "ce-time"
	headerSpecVersion = "ce-specversion"
	headerDataSchema  = "ce-dataschema"
	headerMsgID       = "Nats-Msg-Id"
)

// Headers returns the event's attributes in CloudEvents binary mode for NATS, with the id
// doubled as Nats-Msg-Id so that the server drops retries inside its duplicate window.
func (e Event) Headers() map[string][]string {
	h := map[string][]string{
		headerSpecVersion: {SpecVersion},
		headerID:          {e.ID},
		headerType:        {e.Type},
		headerSource:      {e.Source},
		headerTime:        {e.Time.UTC().Format(time.RFC3339Nano)},
		headerDataSchema:  {e.DataSchema},
		headerMsgID:       {e.ID},
	}
	if e.Subject != "" {
		h[headerSubject] = []string{e.Subject}
	}
	return h
}

// FromMessage reads an event in binary mode from a message's headers and body.
func FromMessage(headers map[string][]string, body []byte) (Event, error) {
	get := func(k string) string {
		if v := headers[k]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	at, err := time.Parse(time.RFC3339Nano, get(headerTime))
	if err != nil {
		return Event{}, fmt.Errorf("reading header %s: %w", headerTime, err)
	}
	e := Event{
		ID: get(headerID), Type: get(headerType), Source: get(headerSource), Subject: get(headerSubject),
		Time: at.UTC(), DataSchema: get(headerDataSchema), Data: body,
	}
	return e, e.Validate()
}
