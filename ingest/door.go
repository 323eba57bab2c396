package ingest

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

// maxBody is the largest request body of pushed events.
const maxBody = 16 << 20

// Door takes events over HTTP: POST /v1/events with CloudEvents in JSON, as one event
// (application/cloudevents+json), a batch (application/cloudevents-batch+json) or lines.
type Door struct {
	Publisher
	// Token must come as a bearer token, on loopback too.
	Token string
	// Check reports what keeps an event from being taken.
	Check func(event.Event) error
}

// answer says what became of a request's events. Refused ones are also dead letters.
type answer struct {
	Accepted int      `json:"accepted"`
	Refused  int      `json:"refused"`
	Errors   []string `json:"errors,omitempty"`
}

func (d Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST is taken here", http.StatusMethodNotAllowed)
		return
	}
	if !d.allowed(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a write token is needed: Authorization: Bearer TOKEN", http.StatusUnauthorized)
		return
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		http.Error(w, fmt.Sprintf("reading the body (at most %d bytes): %v", maxBody, err), http.StatusRequestEntityTooLarge)
		return
	}
	parts, err := split(body.Bytes())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := d.take(r, parts)
	if err != nil {
		// Nothing is lost: what was taken has its id, and the sender tries again.
		http.Error(w, "the event log does not take events now; send them again", http.StatusServiceUnavailable)
		return
	}
	status := http.StatusAccepted
	if a.Refused > 0 {
		status = http.StatusUnprocessableEntity
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a)
}

func (d Door) allowed(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && equal(token, d.Token)
}

// equal compares a token with ours, which must not be empty, in constant time.
func equal(token, ours string) bool {
	return ours != "" && subtle.ConstantTimeCompare([]byte(token), []byte(ours)) == 1
}

// split cuts a body into single events: an array, or one or more objects.
func split(body []byte) ([]json.RawMessage, error) {
	body = bytes.TrimSpace(body)
	if bytes.HasPrefix(body, []byte("[")) {
		var list []json.RawMessage
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, fmt.Errorf("reading a batch of CloudEvents: %w", err)
		}
		return list, nil
	}
	var out []json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(body))
	for dec.More() {
		var one json.RawMessage
		if err := dec.Decode(&one); err != nil {
			return nil, fmt.Errorf("reading CloudEvents JSON, event %d: %w", len(out)+1, err)
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, errors.New("the body holds no event")
	}
	return out, nil
}

func (d Door) take(r *http.Request, parts []json.RawMessage) (answer, error) {
	var a answer
	for i, raw := range parts {
		e, err := event.ParseJSON(raw)
		if err == nil {
			err = d.Check(e)
		}
		if err == nil {
			if e.Time.IsZero() {
				e.Time = d.Now()
			}
			err = d.Event(r.Context(), e)
			if err != nil && !errors.Is(err, bus.ErrNeverAccepted) {
				return a, err
			}
		}
		if err == nil {
			a.Accepted++
			continue
		}
		a.Refused++
		a.Errors = append(a.Errors, fmt.Sprintf("event %d: %v", i+1, err))
		if err := d.PutAside(r.Context(), "door", raw, err); err != nil {
			return a, err
		}
	}
	return a, nil
}
