package connectortest

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
