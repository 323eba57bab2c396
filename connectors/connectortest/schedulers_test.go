package connectortest

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/kubernetes"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/connectors/slurm"
)

// answering serves files of a connector's testdata by the end of the path, and the place of a key.
func answering(t *testing.T, folder string, files map[string]string) (url, key string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for end, file := range files {
			if strings.HasSuffix(r.URL.Path, end) {
				_, _ = w.Write(read(t, filepath.Join("..", folder, "testdata", file)))
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(srv.Close)
	key = filepath.Join(t.TempDir(), "key")
	write(t, key, "c2VjcmV0LWtleQ")
	return srv.URL, key
}

func slurmFixture(t *testing.T) connectors.Config {
	t.Helper()
	url, key := answering(t, "slurm", map[string]string{
		"/slurm/v0.0.42/ping": "running-24.11.json", "/slurm/v0.0.42/nodes": "nodes-24.11.json",
		"/slurm/v0.0.42/jobs": "running-24.11.json", "/slurmdb/v0.0.42/jobs": "sacct-24.11.json",
	})
	return &slurm.Config{URL: url, User: "idlewatt", Key: rest.Key{File: key}, Since: 24 * time.Hour, Overlap: time.Hour, Timeout: 5 * time.Second}
}

func kubernetesFixture(t *testing.T) connectors.Config {
	t.Helper()
	url, key := answering(t, "kubernetes", map[string]string{"/api/v1/pods": "pods.json", "/api/v1/nodes": "nodes.json"})
	return &kubernetes.Config{Server: url, TokenFile: key, Timeout: 5 * time.Second}
}
