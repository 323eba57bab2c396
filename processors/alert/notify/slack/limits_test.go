package slack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
)

// standIn is a Slack that refuses what the real one refuses, and records what it was sent.
type standIn struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
	answers  []answer
	now      func() time.Time
}

type request struct {
	at      time.Time
	heading string
	body    []byte
}

type answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

func newStandIn(t *testing.T, now func() time.Time, answers ...answer) *standIn {
	t.Helper()
	s := &standIn{now: now, answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p payload
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	}
	body, _ := json.Marshal(p)
	s.requests = append(s.requests, request{at: s.now(), heading: p.heading(), body: body})
	if bad := violations(p); len(bad) > 0 {
		http.Error(w, "invalid_blocks: "+strings.Join(bad, "; "), http.StatusBadRequest)
		return
	}
	a := answer{Status: http.StatusOK, Body: "ok"}
	if len(s.answers) > 0 {
		a, s.answers = s.answers[0], s.answers[1:]
	}
	for k, v := range a.Headers {
		w.Header().Set(k, v)
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write([]byte(a.Body))
}

func (s *standIn) seen() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.requests...)
}

type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type block struct {
	Type     string `json:"type"`
	Text     *text  `json:"text"`
	Fields   []text `json:"fields"`
	Elements []text `json:"elements"`
}

type payload struct {
	Text   string  `json:"text"`
	Blocks []block `json:"blocks"`
}

func (p payload) heading() string {
	if len(p.Blocks) > 0 && p.Blocks[0].Text != nil {
		return p.Blocks[0].Text.Text
	}
	return ""
}

func (p payload) texts() []string {
	out := []string{p.Text}
	for _, b := range p.Blocks {
		if b.Text != nil {
			out = append(out, b.Text.Text)
		}
		for _, f := range append(b.Fields, b.Elements...) {
			out = append(out, f.Text)
		}
	}
	return out
}

var (
	entity  = regexp.MustCompile(`&(amp|lt|gt);`)
	mention = regexp.MustCompile(`<[!@#]|@(channel|here|everyone)`)
)

// violations lists what Slack's documentation of Block Kit forbids.
func violations(p payload) []string {
	var bad []string
	check := func(what, s string, limit int) {
		if n := len(utf16.Encode([]rune(s))); n == 0 || n > limit {
			bad = append(bad, fmt.Sprintf("%s has %d of 1..%d characters", what, n, limit))
		}
	}
	if len(p.Blocks) == 0 || len(p.Blocks) > 50 {
		bad = append(bad, fmt.Sprintf("%d blocks", len(p.Blocks)))
	}
	check("text", p.Text, 4000)
	for i, b := range p.Blocks {
		where := fmt.Sprintf("block %d (%s)", i, b.Type)
		switch b.Type {
		case "header":
			if b.Text == nil || b.Text.Type != "plain_text" {
				bad = append(bad, where+": want plain_text")
				continue
			}
			check(where, b.Text.Text, 150)
		case "section":
			if b.Text == nil && len(b.Fields) == 0 || len(b.Fields) > 10 {
				bad = append(bad, fmt.Sprintf("%s: no text and %d fields", where, len(b.Fields)))
			}
			if b.Text != nil {
				check(where, b.Text.Text, 3000)
			}
			for _, f := range b.Fields {
				check(where+" field", f.Text, 2000)
			}
		case "context":
			if len(b.Elements) == 0 || len(b.Elements) > 10 {
				bad = append(bad, where+": want 1 to 10 elements")
			}
		default:
			bad = append(bad, where+": unknown type")
		}
	}
	for _, s := range p.texts() {
		plain := entity.ReplaceAllString(s, "")
		if strings.ContainsAny(plain, "&<>") || mention.MatchString(s) {
			bad = append(bad, fmt.Sprintf("unescaped text %.40q", s))
		}
	}
	return bad
}
