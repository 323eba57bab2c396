package dcgm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/connectors"
)

// fakeDNS answers one name.
type fakeDNS struct {
	records []*net.SRV
	err     error
	asked   []string
}

func (f *fakeDNS) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	f.asked = append(f.asked, service+proto+name)
	return name, f.records, f.err
}

func TestSRVRecordsAreTargets(t *testing.T) {
	t.Parallel()
	dns := &fakeDNS{records: []*net.SRV{{Target: "gpu-2.example.com.", Port: 9400}, {Target: "gpu-1.example.com.", Port: 9401}}}
	c := defaults()
	c.SRV, c.Targets = "_dcgm._tcp.gpu.example.com", []string{"gpu-1.example.com:9401"}
	now := testClock()
	d := newDiscovery(c, func() time.Time { return now }, dns)
	got, cur, err := d.targets(t.Context(), nil)
	want := []target{{Addr: "gpu-1.example.com:9401"}, {Addr: "gpu-2.example.com:9400"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || dns.asked[0] != c.SRV {
		t.Fatalf("%v, asked %v: %s", err, dns.asked, diff)
	}
	if _, _, err := d.targets(t.Context(), cur); err != nil || len(dns.asked) != 1 {
		t.Errorf("asked again before refresh: %v %v", dns.asked, err)
	}
	dns.records, dns.err, now = nil, errors.New("server misbehaving"), now.Add(time.Minute)
	got, kept, err := d.targets(t.Context(), cur)
	if len(got) != 2 || string(kept) != string(cur) || err == nil || !strings.Contains(err.Error(), "server misbehaving (its 2 known targets stay)") {
		t.Errorf("a name server that is down gave %v, %v", got, err)
	}
	// A new process with the cursor knows them too; one without has the configuration's.
	if got, _, err := newDiscovery(c, testClock, dns).targets(t.Context(), cur); len(got) != 2 || err == nil {
		t.Errorf("after a restart: %v %v", got, err)
	}
	for _, cur := range []connectors.Cursor{nil, connectors.Cursor(`{"found":`)} {
		if got, _, err := newDiscovery(c, testClock, dns).targets(t.Context(), cur); len(got) != 1 || err == nil {
			t.Errorf("without memory %q: %v %v", cur, got, err)
		}
	}
	dns.records, dns.err, now = []*net.SRV{{Target: "gpu-2.example.com.", Port: 9400}, {Target: "gpu-3.example.com.", Port: 9400}}, nil, now.Add(time.Minute)
	if got, _, err := d.targets(t.Context(), cur); err != nil || len(got) != 3 {
		t.Errorf("records that changed: %v %v", got, err)
	}
}

func TestListsOfPrometheus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want []target
		err  string
	}{
		"labels":    {`[{"targets":["10.0.0.1:9400","10.0.0.2:9400"],"labels":{"node":"trn-07","x":"y"}}]`, []target{{"10.0.0.1:9400", "trn-07"}, {"10.0.0.2:9400", "trn-07"}}, ""},
		"scheme":    {`[{"targets":["a:1"],"labels":{"__scheme__":"https","__metrics_path__":"gpu"}},{"targets":["b:1"],"labels":{"__scheme__":"http","__metrics_path__":"/metrics"}}]`, []target{{"https://a:1/gpu", ""}, {"b:1", ""}}, ""},
		"empty":     {`[]`, []target{}, ""},
		"bad entry": {`[{"targets":["ftp://x","http://u:p@x","c:1"]},{"targets":["d:1"],"labels":{"node":"a\u0007"}}]`, []target{{"c:1", ""}}, "[0].targets[1]: must not hold credentials"},
		"null":      {`null`, nil, "null"},
		"a page":    {`<html>`, nil, "is no list of targets"},
		"a number":  {`[{"targets":[1]}]`, nil, "is no list of targets"},
	} {
		got, err := readList(strings.NewReader(test.text))
		if diff := cmp.Diff(test.want, got); diff != "" || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		if err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: a password in %v", name, err)
		}
	}
}

func FuzzReadList(f *testing.F) {
	f.Add(`[{"targets":["10.0.0.1:9400"],"labels":{"node":"trn-07","__scheme__":"https","__metrics_path__":"/m"}}]`)
	f.Add(`[{"targets":["ftp://x","%zz"]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readList(strings.NewReader(text))
		if list == nil && err == nil {
			t.Error("neither a list nor an error")
		}
		for _, x := range list {
			if _, err := targetURL(x.Addr); err != nil || !plainNode(x.Node) {
				t.Errorf("%+v passes: %v", x, err)
			}
		}
	})
}

// A target that vanishes from the list is not scraped, and that is no failed scrape; a list
// that cannot be read changes nothing but is told.
func TestTargetsComeAndGo(t *testing.T) {
	t.Parallel()
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-%s\",Hostname=\"dcgm-exporter-x7k2\"} 5\n", r.URL.Path[1:])
	}))
	t.Cleanup(exporter.Close)
	var answer atomic.Value
	answer.Store(fmt.Sprintf(`[{"targets":["%[1]s/a"],"labels":{"node":"i-0a"}},{"targets":["%[1]s/b"],"labels":{"node":"i-0b"}}]`, exporter.URL))
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := answer.Load().(string)
		if text == "" || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(list.Close)
	c := defaults()
	c.HTTPSD, c.Refresh, c.BearerTokenFile = list.URL, time.Nanosecond, filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(c.BearerTokenFile, []byte("for-exporters"), 0o600); err != nil {
		t.Fatal(err)
	}
	con := build(t, c).(*connector)
	tick := testClock()
	con.where.now = func() time.Time { tick = tick.Add(time.Second); return tick }
	var cur connectors.Cursor
	pull := func() (nodes []string, err error) {
		t.Helper()
		var got collector
		next, err := con.Pull(t.Context(), cur, &got)
		cur = next
		con.client.http.CloseIdleConnections()
		for _, s := range got.samples(t) {
			if !s.OK {
				t.Errorf("a failed scrape: %+v", s)
			}
			nodes = append(nodes, s.Node)
		}
		return nodes, err
	}
	if nodes, err := pull(); err != nil || len(nodes) != 2 {
		t.Fatalf("%v %v", nodes, err)
	}
	answer.Store(fmt.Sprintf(`[{"targets":["%s/b"],"labels":{"node":"i-0b"}}]`, exporter.URL))
	nodes, err := pull()
	if diff := cmp.Diff([]string{"i-0b"}, nodes); diff != "" || err != nil {
		t.Errorf("one is gone: %v %s", err, diff)
	}
	answer.Store("")
	nodes, err = pull()
	after, ok := connectors.RetryAfter(err)
	if len(nodes) != 1 || !ok || after != retry || !strings.Contains(err.Error(), "HTTP status 503 (its 1 known targets stay)") {
		t.Errorf("no list: %v, %v", nodes, err)
	}
	con = build(t, c).(*connector)
	if nodes, err := pull(); len(nodes) != 1 || err == nil {
		t.Errorf("no list after a restart: %v, %v", nodes, err)
	}
	answer.Store("[]")
	con = build(t, c).(*connector)
	if nodes, err := pull(); len(nodes) != 0 || err != nil {
		t.Errorf("an empty list: %v %v", nodes, err)
	}
}

func TestFileOfTargets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "targets.json")
	if _, err := fileFinder(path).find(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte(`[{"targets":["a:9400"]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := fileFinder(path).find(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("%v %v", got, err)
	}
}

// The exporter's own label names its pod; the sample's node is the pod's node.
func TestPodsAreScrapedForTheirNodes(t *testing.T) {
	t.Parallel()
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, err := os.ReadFile("testdata/cases/026.prom")
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(text)
	}))
	t.Cleanup(exporter.Close)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(exporter.URL, "http://"))
	pages := map[string]string{
		"": `{"metadata":{"continue":"p2"},"items":[
			{"spec":{"nodeName":"gpu-node-1"},"status":{"phase":"Running","podIP":"127.0.0.1"}},
			{"spec":{},"status":{"phase":"Running"}},
			{"metadata":{"deletionTimestamp":"2026-09-01T12:00:00Z"},"spec":{"nodeName":"gpu-node-2"},"status":{"phase":"Running","podIP":"10.1.0.2"}}]}`,
		"p2": `{"items":[{"spec":{"nodeName":"gpu-node-3"},"status":{"phase":"Pending","podIP":"10.1.0.3"}}]}`,
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.Header.Get("Authorization") != "Bearer sa-token" || r.URL.Path != "/api/v1/namespaces/gpu-operator/pods" || q.Get("labelSelector") != "app=nvidia-dcgm-exporter" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, pages[q.Get("continue")])
	}))
	t.Cleanup(api.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("sa-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := defaults()
	c.Kubernetes = &PodsConfig{Server: api.URL, TokenFile: token, Namespace: "gpu-operator", LabelSelector: "app=nvidia-dcgm-exporter"}
	if _, err := fmt.Sscan(port, &c.Kubernetes.Port); err != nil {
		t.Fatal(err)
	}
	con := build(t, c).(*connector)
	var got collector
	if _, err := con.Pull(t.Context(), nil, &got); err != nil {
		t.Fatal(err)
	}
	con.client.http.CloseIdleConnections()
	s := got.samples(t)
	if len(s) != 1 || s[0].Node != "gpu-node-1" || s[0].Target != "127.0.0.1:"+port {
		t.Errorf("got %+v", s)
	}
	findings := con.Doctor(t.Context())
	con.client.http.CloseIdleConnections()
	if len(findings) != 2 || findings[0].Said != "1 found" || findings[0].Level != connectors.OK {
		t.Errorf("doctor: %+v", findings)
	}
	c.Kubernetes.Namespace = ""
	findings = build(t, c).(*connector).Doctor(t.Context())
	if len(findings) != 1 || findings[0].Level != connectors.Fail || !strings.Contains(findings[0].Said, "may not read this") {
		t.Errorf("doctor without rights: %+v", findings)
	}
}

func TestDiscoveryConfig(t *testing.T) {
	t.Parallel()
	c := defaults()
	c.SRV, c.HTTPSD, c.Refresh, c.Kubernetes = "srv://x:53", "http://u:p@x", 0, &PodsConfig{Server: "ftp://x", Namespace: "a/b", Port: 70000}
	err := c.Validate()
	for _, want := range []string{
		"srv: ", "http_sd: must not hold credentials", "refresh: ", "kubernetes.server: ", "kubernetes.label_selector: is required", "kubernetes.namespace: ", "kubernetes.port: ",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint %q in: %v", want, err)
		}
	}
	in := PodsConfig{LabelSelector: "a=b"}.filled()
	if in.Server != "https://kubernetes.default.svc" || in.CAFile == "" || in.TokenFile == "" || in.Port != 9400 {
		t.Errorf("in the cluster: %+v", in)
	}
	if out := (PodsConfig{Server: "https://k8s.example.com"}).filled(); out.CAFile != "" {
		t.Errorf("elsewhere: %+v", out)
	}
}
