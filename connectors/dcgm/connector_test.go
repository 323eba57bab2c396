package dcgm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector keeps what a connector emits.
type collector struct {
	mu     sync.Mutex
	events []event.Event
	fail   error
}

func (c *collector) Event(_ context.Context, e event.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	c.events = append(c.events, e)
	return nil
}

func (c *collector) Archive(context.Context, string, io.Reader) (event.Object, error) {
	return event.Object{}, errors.New("nothing to archive")
}

func (c *collector) samples(t *testing.T) []event.GPUSamples {
	t.Helper()
	var out []event.GPUSamples
	for _, e := range c.events {
		var s event.GPUSamples
		if err := e.Decode(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func testClock() time.Time { return time.Date(2026, 9, 1, 12, 0, 0, 123456789, time.UTC) }

func build(t *testing.T, c *Config) connectors.Connector {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	f := factory(testClock)
	con, err := f.New("gpus", c)
	if err != nil {
		t.Fatal(err)
	}
	return con
}

func TestPullTellsOfEveryTarget(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/two-scrapes-t0.prom")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret-1" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Write(text)
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	mux.HandleFunc("/empty", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		w.Write(text[:strings.LastIndex(string(text[:len(text)/2]), "\n")+1])
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	refused := httptest.NewServer(nil)
	refused.Close()

	c := defaults()
	c.BearerTokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(c.BearerTokenFile, []byte("secret-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(srv.URL, "http://")
	c.Targets = []string{host, srv.URL + "/broken", srv.URL + "/empty", srv.URL + "/cut", srv.URL + "/slow", refused.URL}
	c.Nodes = map[string]string{host: "i-0abc"}
	c.Timeout, c.Parallel = 300*time.Millisecond, 3
	con := build(t, c)
	var got collector
	if _, err := con.Pull(t.Context(), nil, &got); err != nil {
		t.Fatal(err)
	}
	con.(*connector).client.http.CloseIdleConnections()
	byTarget := map[string]event.GPUSamples{}
	for _, s := range got.samples(t) {
		byTarget[s.Target] = s
		if !s.At.Equal(testClock().Truncate(time.Millisecond)) || !s.ReceivedAt.Equal(s.At) {
			t.Errorf("%s: at %v, received %v", s.Target, s.At, s.ReceivedAt)
		}
	}
	if s := byTarget[host]; !s.OK || !s.Complete || len(s.GPUs) != 4 || s.Node != "i-0abc" {
		t.Errorf("good target: %+v", s)
	}
	for path, message := range map[string]string{
		srv.URL + "/broken": "HTTP status 500", srv.URL + "/empty": "empty body",
		srv.URL + "/slow": "deadline", refused.URL: "refused",
	} {
		if s := byTarget[path]; s.OK || !strings.Contains(s.Error, message) || len(s.GPUs) != 0 || s.Target == "" {
			t.Errorf("%s: ok %t, error %q", path, s.OK, s.Error)
		}
	}
	if s := byTarget[srv.URL+"/cut"]; !s.OK || s.Complete || len(s.GPUs) == 0 || s.Error == "" {
		t.Errorf("cut body: ok %t, complete %t, error %q", s.OK, s.Complete, s.Error)
	}
}

func TestPullStopsWhenTheBusRefuses(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	c := defaults()
	for i := range 40 {
		c.Targets = append(c.Targets, fmt.Sprintf("%s/%d", srv.URL, i))
	}
	con := build(t, c)
	refusal := errors.New("full")
	_, err := con.Pull(t.Context(), nil, &collector{fail: refusal})
	con.(*connector).client.http.CloseIdleConnections()
	if !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
}

func TestBodyOverTheLimitIsIncomplete(t *testing.T) {
	t.Parallel()
	line := `DCGM_FI_DEV_GPU_UTIL{UUID="G"} 0` + "\n"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, line+strings.Repeat("x", 100))
	}))
	t.Cleanup(srv.Close)
	c := defaults()
	c.Targets, c.MaxBody = []string{srv.URL}, int64(len(line))
	con := build(t, c)
	var got collector
	if _, err := con.Pull(t.Context(), nil, &got); err != nil {
		t.Fatal(err)
	}
	con.(*connector).client.http.CloseIdleConnections()
	if s := got.samples(t)[0]; !s.OK || s.Complete || len(s.GPUs) != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestDecodeFile(t *testing.T) {
	t.Parallel()
	read := func(name string, at time.Time) (*collector, []string, error) {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !sniff(text[:min(len(text), 65536)]) {
			t.Errorf("%s is not recognised", name)
		}
		var got collector
		var bad []string
		err = decode(t.Context(), connectors.File{
			Name: "dir/" + name, Source: "files", At: at, Body: strings.NewReader(string(text)),
			Bad: func(_ context.Context, _ []byte, reason error) error { bad = append(bad, reason.Error()); return nil },
		}, &got)
		return &got, bad, err
	}
	if _, _, err := read("two-scrapes-t0.prom", time.Time{}); err == nil || !strings.Contains(err.Error(), "--at TIME") {
		t.Errorf("without a time: %v", err)
	}
	got, _, err := read("two-scrapes-t0.prom", testClock())
	if err != nil {
		t.Fatal(err)
	}
	s := got.samples(t)[0]
	if s.Target != "import/gpu-h100-ash-031" || !s.At.Equal(testClock()) || !s.ReceivedAt.Equal(s.At) {
		t.Errorf("got %s at %v, received %v", s.Target, s.At, s.ReceivedAt)
	}
	got, _, err = read("prometheus-exported-pod.prom", time.Time{})
	if err != nil || got.samples(t)[0].At.UnixMilli() != 1790000030000 {
		t.Errorf("own time: %v, %v", got.events, err)
	}
	_, bad, err := read("malformed.prom", testClock())
	want := []string{
		"dir/malformed.prom line 5: not a sample line", "dir/malformed.prom line 6: value is not a number",
		"dir/malformed.prom line 12: line has no end: the text was cut",
	}
	if diff := cmp.Diff(want, bad); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	err = decode(t.Context(), connectors.File{Name: "x", At: testClock(), Body: strings.NewReader("up 1\n")}, &collector{})
	if err == nil || sniff([]byte("up 1\n")) || sniff([]byte("a,b\nDCGM is here")) {
		t.Errorf("a file without GPUs: %v", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	parse := func(name string) (*Config, error) {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		c := Factory().NewConfig().(*Config)
		return c, yaml.UnmarshalWithOptions(text, c, yaml.Strict())
	}
	if _, err := parse("typo.yaml"); err == nil || !strings.Contains(err.Error(), "time_out") {
		t.Errorf("a misspelt key: %v", err)
	}
	c, err := parse("config.yaml")
	if err != nil || c.Validate() != nil || c.Timeout != 5*time.Second || c.Parallel != 16 {
		t.Errorf("%+v %v %v", c, err, c.Validate())
	}
	bad := &Config{
		Targets: []string{"ftp://x", "http://u:p@h", "", "a:1", "a:1"}, Nodes: map[string]string{"b:1": "n"},
		TLS: rest.TLS{CertFile: "c"},
	}
	err = bad.Validate()
	for _, want := range []string{
		"targets[0]: scheme", "targets[1]: must not hold credentials", "targets[2]: names no host", "targets[4]: ",
		`nodes: "b:1"`, "timeout:", "parallel:", "max_body:", "tls:",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint %q in: %v", want, err)
		}
	}
}
