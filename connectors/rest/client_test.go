package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
)

// answers is a provider without a network: the transport is the handler.
type answers func(w http.ResponseWriter, r *http.Request)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	a(rec, r)
	return rec.Result(), nil
}

func client(t *testing.T, h answers) *rest.Client {
	t.Helper()
	t.Setenv("TEST_KEY", "s3cret-key")
	return &rest.Client{Provider: "cloud", Base: "https://cloud.invalid", Key: rest.Key{Env: "TEST_KEY"}, HTTP: &http.Client{Transport: h}}
}

func TestFailuresHaveTheirClass(t *testing.T) { //nolint:paralleltest // environment
	for name, x := range map[string]struct {
		status    int
		header    string
		body      string
		permanent bool
		after     time.Duration
		want      string
	}{
		"refused key":       {401, "", `{"detail":"bad key s3cret-key"}`, true, 0, "TEST_KEY is not accepted"},
		"no right":          {403, "", `{"error":{"code":"global/forbidden","message":"no"}}`, true, 0, "may not read this"},
		"gone":              {410, "", `deprecated_endpoint`, true, 0, "410"},
		"too many, seconds": {429, "17", `slow`, false, 17 * time.Second, "429"},
		"too many, body":    {429, "", `{"error":"search_quota_exceeded","retry_after":90}`, false, 90 * time.Second, "search_quota_exceeded"},
		"too many, silent":  {429, "", `API requests too frequent`, false, 30 * time.Second, "too frequent"},
		"their fault":       {502, "", `<html>`, false, 0, "502"},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // environment
			c := client(t, func(w http.ResponseWriter, _ *http.Request) {
				if x.header != "" {
					w.Header().Set("Retry-After", x.header)
				}
				w.WriteHeader(x.status)
				_, _ = w.Write([]byte(x.body))
			})
			_, err := c.Do(t.Context(), rest.Call{Path: "/x"}, nil)
			if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "s3cret") {
				t.Fatalf("error %v", err)
			}
			if got := connectors.IsPermanent(err); got != x.permanent {
				t.Errorf("permanent: %v", got)
			}
			if after, _ := connectors.RetryAfter(err); after != x.after {
				t.Errorf("retry after %v, want %v", after, x.after)
			}
		})
	}
}

func TestRequestsKeepTheirDistance(t *testing.T) { //nolint:paralleltest // environment
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := client(t, func(w http.ResponseWriter, _ *http.Request) {
			if n++; n == 3 {
				w.Header().Set("RateLimit", `"minute";r=0;t=12, "hour";r=2900;t=1800`)
			}
			_, _ = w.Write([]byte(`{}`))
		})
		began := time.Now()
		for range 3 {
			if _, err := c.Do(t.Context(), rest.Call{Path: "/x", Lane: "x", Interval: time.Second}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("three requests a second apart took %v", took)
		}
		if _, err := c.Do(t.Context(), rest.Call{Path: "/y", Lane: "y"}, nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 14*time.Second {
			t.Errorf("the header's pause was not kept: %v", took)
		}
	})
}
