package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/gpuseries"
	"github.com/idlewatt/idlewatt/connectors/prometheus"
	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

// realPrometheus finds the distribution's Prometheus. Continuous integration installs it and
// must have it; elsewhere `make test` says that it is missing.
func realPrometheus(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("IDLEWATT_CI") != "" {
			t.Fatal("prometheus is missing: apt-get install prometheus")
		}
		t.Skip("prometheus is missing, this was not tested: apt-get install prometheus")
	}
	return path
}

// exporter serves a handed scrape of eight H100, as dcgm-exporter does.
func exporter(t *testing.T) (host string, direct event.GPUSamples) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "connectors", "dcgm", "testdata", "k8s-8xh100-pods.prom"))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		w.Write(text)
	}))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://"), gpuseries.Read(text, gpuseries.Options{Target: "direct"})[0]
}

// startPrometheus scrapes the exporter every second, under target labels as Kubernetes gives
// them, and sends what it has in small pieces over several queues. It returns its URL.
func startPrometheus(t *testing.T, binary, exporter, writeURL, token string) string {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, external_labels: {prometheus: test}}
scrape_configs:
  - job_name: gpu
    static_configs: [{targets: ["%s"], labels: {pod: dcgm-exporter-x7, namespace: monitoring, container: exporter}}]
remote_write:
  - url: %sv1/write
    basic_auth: {username: prometheus, password: "%s"}
    queue_config: {min_shards: 4, max_samples_per_send: 30, batch_send_deadline: 500ms}
`, exporter, writeURL, token)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	log := &lockedBuffer{}
	cmd := exec.Command(binary, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus said:\n%s", log.String())
		}
	})
	return "http://" + address
}

// TestRealPrometheusBringsWhatADirectScrapeDoes: by remote write into a running instance, and
// by asking, every value and owner is that of the exporter's own text, and no scrape that was
// torn apart proves an idleness that the whole does not.
func TestRealPrometheusBringsWhatADirectScrapeDoes(t *testing.T) {
	t.Parallel()
	binary := realPrometheus(t)
	target, direct := exporter(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "idlewatt.yaml"), []byte("http: {listen: \"127.0.0.1:0\"}\nremote_write: {watch: 4s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := startUp(t, dir, "")
	address := regexp.MustCompile(`idlewatt is up: (http://\S+)`)
	eventually(t, "the instance", func() bool { return address.MatchString(up.out.String()) })
	inst, err := local.ReadInstance(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	server := startPrometheus(t, binary, target, address.FindStringSubmatch(up.out.String())[1], inst.WriteToken)

	whole, told := 0, 0
	eventually(t, "ten whole scrapes by remote write", func() bool {
		whole, told = 0, 0
		for _, s := range published(t, inst) {
			told++
			if s.Target != target || s.Node != direct.Node || !s.OK {
				t.Fatalf("a scrape of %s on %s, ok %t: %s", s.Target, s.Node, s.OK, s.Error)
			}
			if !s.Complete {
				continue
			}
			whole++
			if diff := cmp.Diff(direct.GPUs, s.GPUs); diff != "" {
				t.Fatalf("a whole scrape by remote write (-direct +written): %s", diff)
			}
		}
		return whole >= 10
	})
	t.Logf("%d messages of scrapes, %d of whole ones", told, whole)
	checkAsked(t, server, target, direct)
	eventually(t, "intervals of them", func() bool {
		out, err := exec.Command("idlewatt", "--data", filepath.Join(dir, "data"), "query", "SELECT uniq(GpuUuid) FROM idlewatt.gpu_intervals").Output()
		return err == nil && strings.TrimSpace(string(out)) == "8"
	})
}

// published are the scrapes on the bus of a running instance.
func published(t *testing.T, inst *local.Instance) []event.GPUSamples {
	t.Helper()
	nc, err := inst.ConnectNATS()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), bus.RawGPU)
	if err != nil {
		t.Fatal(err)
	}
	var out []event.GPUSamples
	for seq := max(1, stream.CachedInfo().State.FirstSeq); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var s event.GPUSamples
		if err := json.Unmarshal(m.Data, &s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// asked keeps what a connector emits.
type asked struct{ scrapes []event.GPUSamples }

func (a *asked) Event(_ context.Context, e event.Event) error {
	var s event.GPUSamples
	err := e.Decode(&s)
	a.scrapes = append(a.scrapes, s)
	return err
}

func (a *asked) Archive(context.Context, string, io.Reader) (event.Object, error) {
	return event.Object{}, errors.New("nothing to archive")
}

// checkAsked compares what the connector finds at a real server.
func checkAsked(t *testing.T, server, target string, direct event.GPUSamples) {
	t.Helper()
	cfg, ok := prometheus.Factory().NewConfig().(*prometheus.Config)
	if !ok {
		t.Fatal("a configuration of another kind")
	}
	cfg.URL, cfg.Lag, cfg.Chunk = server, 0, 10*time.Minute
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	c, err := prometheus.Factory().New("prom", cfg)
	if err != nil {
		t.Fatal(err)
	}
	var got asked
	if _, err := c.Pull(t.Context(), nil, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.scrapes) < 8 {
		t.Errorf("%d scrapes by asking", len(got.scrapes))
	}
	seen := map[time.Time]bool{}
	for _, s := range got.scrapes {
		if diff := cmp.Diff(direct.GPUs, s.GPUs); diff != "" || s.Target != target || !s.Complete {
			t.Fatalf("a scrape of %s by asking (-direct +asked): %s", s.Target, diff)
		}
		if seen[s.At] {
			t.Errorf("the scrape of %v comes twice", s.At)
		}
		seen[s.At] = true
	}
	d, ok := c.(connectors.Doctor)
	if !ok {
		t.Fatal("no doctor")
	}
	for _, f := range d.Doctor(t.Context()) {
		if f.Level != connectors.OK {
			t.Errorf("the doctor finds %+v", f)
		}
	}
}
