package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
)

// Endpoint is one of Slack's two ways of taking a message; they answer differently.
type Endpoint string

// The endpoints.
const (
	Webhook Endpoint = "webhook" // plain text, "ok"
	API     Endpoint = "api"     // JSON, "ok": true or false inside a 200
)

// maxRetryAfter bounds what a broken proxy may ask for.
const maxRetryAfter = time.Hour

// Judge decides from status and body together whether a message was delivered: nil, a
// *notify.RetryError or a *notify.PermanentError. The body is quoted in errors, cut short.
func Judge(e Endpoint, status int, header http.Header, body []byte, now time.Time) error {
	said := fmt.Errorf("slack answered %d %q", status, excerpt(body))
	switch {
	case status == http.StatusTooManyRequests:
		return &notify.RetryError{After: retryAfter(header, body, now), Err: said}
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status >= 500:
		return &notify.RetryError{After: optionalRetryAfter(header, now), Err: said}
	case status != http.StatusOK:
		return &notify.PermanentError{Err: said}
	case e == Webhook:
		if strings.TrimSpace(string(body)) == "ok" {
			return nil
		}
		return &notify.PermanentError{Err: said}
	}
	return judgeAPI(header, body, now, said)
}

func judgeAPI(header http.Header, body []byte, now time.Time, said error) error {
	var a struct {
		OK    *bool  `json:"ok"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(body, &a); err != nil || a.OK == nil {
		// No answer of Slack's: something between us spoke. It may be gone in a minute.
		return &notify.RetryError{Err: errors.Join(said, errors.New("the answer is not Slack's JSON"))}
	}
	if *a.OK {
		return nil
	}
	switch a.Error {
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		return &notify.RetryError{After: retryAfter(header, body, now), Err: said}
	case "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org":
		return &notify.RetryError{After: optionalRetryAfter(header, now), Err: said}
	}
	return &notify.PermanentError{Err: said}
}

// retryAfter reads the wait from the header, else from the body, else it is one second.
func retryAfter(header http.Header, body []byte, now time.Time) time.Duration {
	if d := optionalRetryAfter(header, now); d > 0 {
		return d
	}
	var b struct {
		RetryAfter json.Number `json:"retry_after"`
	}
	if json.Unmarshal(body, &b) == nil {
		if d := seconds(b.RetryAfter.String()); d > 0 {
			return d
		}
	}
	return time.Second
}

func optionalRetryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if d := seconds(text); d > 0 {
		return d
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

func seconds(s string) time.Duration {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return time.Duration(min(f, maxRetryAfter.Seconds()) * float64(time.Second))
}

func excerpt(body []byte) string {
	s := strings.ToValidUTF8(strings.TrimSpace(string(body)), "?")
	return cut(s, 120)
}
