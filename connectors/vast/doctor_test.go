package vast

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := world(t, small(1, at("05T01:00"), time.Time{}))
		c := f.source(t, nil)
		levels := func() string {
			s := ""
			for _, x := range c.Doctor(t.Context()) {
				s += x.What + " " + x.Level + ", "
				if strings.Contains(x.Said+x.Fix, secret) || (x.Fix == "") != (x.Level == connectors.OK) {
					t.Errorf("finding %+v", x)
				}
			}
			return s
		}
		if got := levels(); got != "instance_read ok, billing_read ok, user_read ok, clock ok, " {
			t.Error(got)
		}
		f.answer["/api/v0/charges/"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
		f.answer["/api/v0/users/current/"] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", f.now().Add(time.Hour).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusForbidden)
		}
		if got := levels(); got != "instance_read ok, billing_read fail, user_read warn, clock warn, " {
			t.Error(got)
		}
		c.cfg.Key.File = "gone"
		if got := levels(); got != "API key fail, " {
			t.Error(got)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	bad := &Config{BaseURL: "console.vast.ai", WindowDays: 99, Since: "yesterday", ChargesEvery: time.Second, ProjectFromLabel: `^(.*)/`}
	err := bad.Validate()
	if err == nil {
		t.Fatal("taken")
	}
	for _, field := range []string{"api_key_env", "base_url", "window_days", "since", "charges_every", "project_from_label"} {
		if !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	l, err := newLabeller(`^(?P<project>[^/]+)/`)
	must(t, err)
	for label, want := range map[string]string{"atlas/x": "map[label:atlas/x project:atlas]", "atlas": "map[label:atlas]", "": "map[]"} {
		if got := fmt.Sprint(l.tags(label)); got != want {
			t.Errorf("%q has tags %s, want %s", label, got, want)
		}
	}
}
