package connectortest

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/connectors/vast"
)

// vastFixture is the account of the samples the day after one that was charged. Its clock stands.
func vastFixture(t *testing.T) connectors.Config {
	t.Helper()
	names := map[string]string{
		"/api/v1/instances/": "v1_instances", "/api/v0/volumes/": "v0_volumes", "/api/v0/users/current/": "v0_users_current",
		"/api/v0/metrics/gpu/current/": "v0_metrics_gpu_current", "/api/v0/charges/": "v0_charges_one_day_page1",
	}
	bodies := map[string][]byte{"next": read(t, filepath.Join("..", "vast", "testdata", "vast_v0_charges_one_day_page2.json"))}
	for path, name := range names {
		bodies[path] = read(t, filepath.Join("..", "vast", "testdata", "vast_"+name+".json"))
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if r.FormValue("after_token") != "" {
			path = "next"
		}
		if bodies[path] == nil {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(bodies[path])
	}))
	t.Cleanup(srv.Close)
	key := filepath.Join(t.TempDir(), "key")
	write(t, key, "c2VjcmV0LWtleQ")
	c, ok := vast.Factory().NewConfig().(*vast.Config)
	if !ok {
		t.Fatal("another configuration")
	}
	c.Key, c.BaseURL, c.WindowDays, c.Offers = rest.Key{File: key}, srv.URL, 1, []string{"RTX 4090"}
	c.Now = func() time.Time { return time.Date(2026, 9, 2, 12, 0, 0, 0, time.UTC) }
	return c
}
