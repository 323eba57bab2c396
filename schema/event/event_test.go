package event_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/schema/event"
)

// The id follows from source, key and version, and from how they are divided.
func TestIDTellsFactsApart(t *testing.T) {
	t.Parallel()
	if first, retry := event.ID("a", "b", "c"), event.ID("a", "b", "c"); first != retry {
		t.Errorf("a retry of %s got %s", first, retry)
	}
	seen := map[string]bool{}
	for _, k := range [][3]string{{"a", "b", "c"}, {"ab", "", "c"}, {"a", "bc", ""}, {"", "ab", "c"}, {"a", "b", ""}} {
		id := event.ID(k[0], k[1], k[2])
		if seen[id] || len(id) != 32 {
			t.Errorf("%q has id %s, which is taken or no hash", k, id)
		}
		seen[id] = true
	}
}

// Both ways of writing an event give it back.
func TestEventsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z][a-z0-9/._-]{0,20}`)
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos"))
		e, err := event.New(word.Draw(t, "type"), word.Draw(t, "source"), word.Draw(t, "key"), "1", at, rapid.MapOf(rapid.String(), rapid.Int()).Draw(t, "data"))
		if err != nil {
			t.Fatal(err)
		}
		line, err := e.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsRune(line, '\n') {
			t.Fatalf("%s is more than one line", line)
		}
		a, err := event.ParseJSON(line)
		if err != nil {
			t.Fatal(err)
		}
		b, err := event.FromMessage(e.Headers(), e.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []event.Event{a, b} {
			if got.ID != e.ID || got.Type != e.Type || got.Source != e.Source || got.Subject != e.Subject || !got.Time.Equal(e.Time) ||
				got.DataSchema != e.DataSchema || !sameJSON(got.Data, e.Data) {
				t.Fatalf("wrote %+v, read %+v", e, got)
			}
		}
	})
}

func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && x.String() == y.String()
}

func TestParseJSONRefuses(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		``, `null`, `[]`, `{}`, `{"specversion":"1.0"}`, `{"specversion":"9.0","id":"1","source":"s","type":"t"}`,
		`{"specversion":"1.0","id":"","source":"s","type":"t"}`, `{"specversion":"1.0","id":"1","source":"s","type":"t","time":"yesterday"}`,
		`{"specversion":"1.0","id":"1","source":"s","type":"t","data":`,
	} {
		if e, err := event.ParseJSON([]byte(line)); err == nil {
			t.Errorf("%s was read as %+v", line, e)
		}
	}
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"s","type":"job.started","time":"2026-10-17T10:00:00Z","data":{"a":1}}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"AAEC"}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data":"text","datacontenttype":"text/plain"}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","extension":{"a":[1]}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := event.ParseJSON(line)
		if err != nil {
			return
		}
		if e.ID == "" || e.Type == "" || e.Source == "" {
			t.Errorf("%q was read as %+v", line, e)
		}
	})
}

func FuzzFromMessage(f *testing.F) {
	f.Add("id", "type", "source", "2026-10-17T10:00:00Z", []byte(`{}`))
	f.Add("", "", "", "", []byte(`{`))
	f.Fuzz(func(t *testing.T, id, typ, source, at string, body []byte) {
		e, err := event.FromMessage(map[string][]string{"ce-id": {id}, "ce-type": {typ}, "ce-source": {source}, "ce-time": {at}}, body)
		if err == nil && (e.ID == "" || !json.Valid(e.Data)) {
			t.Errorf("took %+v", e)
		}
	})
}
