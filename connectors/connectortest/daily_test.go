package connectortest

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/crusoe"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/connectors/together"
)

// serving answers every request with one file of a connector's testdata.
func serving(t *testing.T, folder, file string) (url string, key rest.Key) {
	t.Helper()
	body := read(t, filepath.Join("..", folder, "testdata", file))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	t.Cleanup(srv.Close)
	path := filepath.Join(t.TempDir(), "key")
	write(t, path, "c2VjcmV0LWtleQ")
	return srv.URL, rest.Key{File: path}
}

func crusoeFixture(t *testing.T) connectors.Config {
	t.Helper()
	url, key := serving(t, "crusoe", "crusoe_billing_costs.json")
	return &crusoe.Config{Key: key, KeyID: "id", Organization: "org", BaseURL: url}
}

func togetherFixture(t *testing.T) connectors.Config {
	t.Helper()
	url, key := serving(t, "together", "together_billing_usage.json")
	return &together.Config{Key: key, BaseURL: url}
}

// A connector that has a doctor says something of its fixture, and nothing of its key.
func TestDoctorsSpeak(t *testing.T) {
	t.Parallel()
	for _, f := range pulling(t) {
		d, ok := build(t, f).(connectors.Doctor)
		if !ok {
			t.Errorf("%s has no doctor", f.Type)
			continue
		}
		found := d.Doctor(t.Context())
		if len(found) == 0 {
			t.Errorf("%s: its doctor says nothing", f.Type)
		}
		for _, x := range found {
			if x.What == "" || x.Said == "" || (x.Level == connectors.OK) != (x.Fix == "") || strings.Contains(x.Said+x.Fix+x.What, "c2VjcmV0LWtleQ") {
				t.Errorf("%s: %+v", f.Type, x)
			}
		}
	}
}
