package connectortest

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/lambda"
	"github.com/idlewatt/idlewatt/connectors/rest"
)

// lambdaFixture is the account of the samples. Its clock stands.
func lambdaFixture(t *testing.T) connectors.Config {
	t.Helper()
	bodies := map[string][]byte{}
	for path, name := range map[string]string{
		"/instances": "instances", "/file-systems": "file_systems", "/instance-types": "instance_types", "/audit-events": "audit_events_page1",
		"next": "audit_events_page2",
	} {
		bodies[path] = read(t, filepath.Join("..", "lambda", "testdata", "lambda_"+name+".json"))
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if r.FormValue("page_token") != "" {
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
	c, ok := lambda.Factory().NewConfig().(*lambda.Config)
	if !ok {
		t.Fatal("another configuration")
	}
	c.Key, c.BaseURL = rest.Key{File: key}, srv.URL
	c.Now = func() time.Time { return time.Date(2026, 9, 2, 8, 0, 0, 0, time.UTC) }
	return c
}
