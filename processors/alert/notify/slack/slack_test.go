package slack_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/processors/alert/notify/slack"
)

var start = time.Date(2026, 5, 2, 8, 0, 0, 0, time.UTC)

// clock moves only when somebody sleeps.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }
func (c *clock) sleep(_ context.Context, d time.Duration) error {
	c.at = c.at.Add(d)
	return nil
}

func newNotifier(t *testing.T, url string, c *clock) *slack.Notifier {
	t.Helper()
	n, err := slack.New(slack.Options{URL: slack.NewSecret(url), Now: c.now, Sleep: c.sleep})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func message(heading string) notify.Message { return notify.Message{ID: heading, Heading: heading} }

// Case 039: 429 means wait as long as told, then send the same message.
func TestRetryAfterIsHonouredAndNothingIsLost(t *testing.T) {
	t.Parallel()
	var in struct {
		Queue   []string `json:"queue"`
		Answers []answer `json:"server_answers_in_order"`
	}
	data, err := os.ReadFile("testdata/case039.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &in); err != nil {
		t.Fatal(err)
	}
	c := &clock{at: start}
	server := newStandIn(t, c.now, in.Answers...)
	n := newNotifier(t, server.URL, c)
	for _, m := range in.Queue {
		if err := n.Send(t.Context(), message(m)); err != nil {
			t.Fatalf("sending %s: %v", m, err)
		}
	}
	var got []string
	for _, r := range server.seen() {
		got = append(got, fmt.Sprintf("%s at +%s", r.heading, r.at.Sub(start)))
	}
	want := []string{"m1 at +0s", "m1 at +3s", "m2 at +4s", "m2 at +5s", "m3 at +6s"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
}

// Case 040: delivery is decided by status and body.
func TestAnswers(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/case040.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read only
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range rows[1:] {
		status, err := strconv.Atoi(r[2])
		if err != nil {
			t.Fatal(err)
		}
		got[r[0]] = outcome(slack.Judge(slack.Endpoint(r[1]), status, http.Header{}, []byte(r[3]), start))
	}
	want := map[string]string{
		"1": "delivered", "2": "delivered", "3": "permanent", "5": "permanent", "7": "permanent", "4": "retry", "6": "retry",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("outcomes (-want +got):\n%s", d)
	}
}

func TestEveryStatusHasAClass(t *testing.T) {
	t.Parallel()
	for status := 100; status < 600; status++ {
		want := "permanent"
		if status == 408 || status == 425 || status == 429 || status >= 500 {
			want = "retry"
		}
		for _, e := range []slack.Endpoint{slack.Webhook, slack.API} {
			w := want
			if status == 200 && e == slack.API {
				w = "retry" // a 200 that is not Slack's JSON
			}
			if got := outcome(slack.Judge(e, status, http.Header{}, []byte("<html>"), start)); got != w {
				t.Errorf("%s %d: got %s, want %s", e, status, got, w)
			}
		}
	}
}

func outcome(err error) string {
	if err == nil {
		return "delivered"
	}
	if _, ok := errors.AsType[*notify.PermanentError](err); ok {
		return "permanent"
	}
	if _, ok := errors.AsType[*notify.RetryError](err); ok {
		return "retry"
	}
	return "unclassified"
}

func TestRetryAfterForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header, body string
		want         time.Duration
	}{
		{"7", "", 7 * time.Second},
		{"1.5", "", 1500 * time.Millisecond},
		{start.Add(20 * time.Second).Format(http.TimeFormat), "", 20 * time.Second},
		{"", `{"retry_after":4}`, 4 * time.Second},
		{"nonsense", `{"retry_after":"x"}`, time.Second},
		{"-3", "", time.Second},
		{"NaN", "", time.Second},
		{"999999999", "", time.Hour},
		{"", "", time.Second},
	} {
		err := slack.Judge(slack.Webhook, 429, http.Header{"Retry-After": {c.header}}, []byte(c.body), start)
		r, ok := errors.AsType[*notify.RetryError](err)
		if !ok || r.After != c.want {
			t.Errorf("header %q body %q: got %v, want wait %s", c.header, c.body, err, c.want)
		}
	}
}

func TestLongWaitGoesBackToTheCaller(t *testing.T) {
	t.Parallel()
	c := &clock{at: start}
	server := newStandIn(t, c.now, answer{Status: 429, Headers: map[string]string{"Retry-After": "600"}})
	n := newNotifier(t, server.URL, c)
	for _, m := range []string{"m1", "m2"} {
		r, ok := errors.AsType[*notify.RetryError](n.Send(t.Context(), message(m)))
		if !ok || r.After != 10*time.Minute {
			t.Fatalf("%s: got %v, want a wait of 10 min", m, r)
		}
	}
	if got := len(server.seen()); got != 1 {
		t.Errorf("%d requests during the wait, want only the first", got)
	}
	c.at = start.Add(10 * time.Minute)
	if err := n.Send(t.Context(), message("m1")); err != nil {
		t.Error(err)
	}
}

func TestServerErrorIsNotRetriedAtOnce(t *testing.T) {
	t.Parallel()
	c := &clock{at: start}
	server := newStandIn(t, c.now, answer{Status: 500})
	n := newNotifier(t, server.URL, c)
	if got := outcome(n.Send(t.Context(), message("m"))); got != "retry" {
		t.Errorf("got %s", got)
	}
	if got := len(server.seen()); got != 1 {
		t.Errorf("%d requests", got)
	}
}

func TestWebhookURLIsASecret(t *testing.T) {
	t.Parallel()
	const secret = "T00/B00/verysecrettoken"
	c := &clock{at: start}
	server := newStandIn(t, c.now)
	url := server.URL + "/services/" + secret
	server.Close() // connection refused: the HTTP client's error quotes the URL
	n := newNotifier(t, url, c)
	err := n.Send(t.Context(), message("m"))
	if outcome(err) != "retry" {
		t.Fatalf("got %v", err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", slog.Any("url", slack.NewSecret(url)), slog.Any("error", err))
	j, _ := json.Marshal(slack.NewSecret(url))
	for _, s := range []string{err.Error(), log.String(), string(j), fmt.Sprintf("%v %+v %#v %s", slack.NewSecret(url), slack.NewSecret(url), slack.NewSecret(url), slack.NewSecret(url))} {
		if strings.Contains(s, "verysecret") {
			t.Errorf("the secret shows in %q", s)
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	c := &clock{at: start}
	server := newStandIn(t, c.now, answer{Status: 302, Headers: map[string]string{"Location": "/elsewhere"}})
	if got := outcome(newNotifier(t, server.URL, c).Send(t.Context(), message("m"))); got != "permanent" {
		t.Errorf("got %s", got)
	}
	if got := len(server.seen()); got != 1 {
		t.Errorf("%d requests", got)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hook")
	if err := os.WriteFile(file, []byte(" https://hooks.example/services/x \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOOK": "https://hooks.example/services/y", "PLAIN": "http://hooks.example/services/top", "NONE": ""}
	for name, c := range map[string]struct {
		config slack.Config
		want   string
	}{
		"file":         {slack.Config{WebhookURLFile: file}, ""},
		"variable":     {slack.Config{WebhookURLEnv: "HOOK", Timeout: "3s"}, ""},
		"neither":      {slack.Config{}, "webhook_url_env or webhook_url_file is required"},
		"both":         {slack.Config{WebhookURLEnv: "HOOK", WebhookURLFile: file, Timeout: "soon"}, "exclude each other\ntimeout: \"soon\""},
		"secret in it": {slack.Config{WebhookURLEnv: "https://hooks.example/services/top"}, "want the name of a variable"},
		"empty":        {slack.Config{WebhookURLEnv: "NONE"}, "variable NONE is empty"},
		"no TLS":       {slack.Config{WebhookURLEnv: "PLAIN"}, "holds no https URL"},
		"no file":      {slack.Config{WebhookURLFile: file + "x"}, "webhook_url_file"},
	} {
		_, err := slack.Open(c.config, func(k string) string { return env[k] }, time.Now)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "services/top") {
			t.Errorf("%s: the secret shows in %v", name, err)
		}
	}
}
