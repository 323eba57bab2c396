package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// webhook stands in for Slack: it keeps what it takes and checks the documented limits.
type webhook struct {
	mu       sync.Mutex
	headings []string
	problems []string
}

func (w *webhook) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(rw, "unreadable", http.StatusBadRequest)
		return
	}
	var p struct {
		Text   string `json:"text"`
		Blocks []struct {
			Type string `json:"type"`
			Text *struct {
				Text string `json:"text"`
			} `json:"text"`
			Fields []any `json:"fields"`
		} `json:"blocks"`
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := json.Unmarshal(body, &p); err != nil || len(p.Blocks) == 0 || len(p.Blocks) > 50 {
		w.problems = append(w.problems, fmt.Sprintf("%d blocks: %v", len(p.Blocks), err))
	}
	for _, b := range p.Blocks {
		limit := map[string]int{"header": 150, "section": 3000}[b.Type]
		if b.Text != nil && limit > 0 && len([]rune(b.Text.Text)) > limit || len(b.Fields) > 10 {
			w.problems = append(w.problems, "a block of type "+b.Type+" is over Slack's limit")
		}
	}
	w.headings = append(w.headings, p.Text)
	fmt.Fprint(rw, "ok")
}

func (w *webhook) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.headings...)
}

// scrapes is the text of one node's two GPUs, minute by minute, with times of its own.
func scrapes(from, to time.Time, engine float64) []byte {
	var b bytes.Buffer
	n := 0
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		for g := range 2 {
			n++
			labels := fmt.Sprintf(`{gpu="%d",UUID="GPU-up-%d",modelName="NVIDIA H100 80GB HBM3",Hostname="trn-07"}`, g, g)
			power := 70.0 + float64(n%7)/10 + 500*engine
			for name, v := range map[string]string{
				"DCGM_FI_DEV_GPU_UTIL": fmt.Sprintf("%.0f", 100*engine), "DCGM_FI_PROF_GR_ENGINE_ACTIVE": fmt.Sprintf("%.6f", engine),
				"DCGM_FI_DEV_POWER_USAGE": fmt.Sprintf("%.3f", power), "DCGM_FI_DEV_FB_USED": "4",
			} {
				fmt.Fprintf(&b, "%s%s %s %d\n", name, labels, v, t.UnixMilli())
			}
		}
	}
	return b.Bytes()
}

// upProcess is a running `idlewatt up`.
type upProcess struct {
	cmd *exec.Cmd
	out *lockedBuffer
}

// lockedBuffer takes a process's words while a test reads them.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func startUp(t *testing.T, dir, hook string) *upProcess {
	t.Helper()
	p := &upProcess{cmd: exec.Command("idlewatt", "--data", filepath.Join(dir, "data"), "up", "-c", filepath.Join(dir, "idlewatt.yaml")), out: &lockedBuffer{}}
	p.cmd.Env = append(os.Environ(), "IDLEWATT_TEST_HOOK="+hook)
	p.cmd.Stderr = p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	return p
}

func idlewatt(t *testing.T, dir string, args ...string) {
	t.Helper()
	out, err := exec.Command("idlewatt", append([]string{"--data", filepath.Join(dir, "data")}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("idlewatt %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// eventually polls until ok; the deadline is for machines that are very busy.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(90 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

// TestUpTellsOnce: a running instance tells of an idle node once, remembers it through a
// kill -9, and tells once more when the node works again.
func TestUpTellsOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hook := &webhook{}
	srv := httptest.NewServer(hook)
	defer srv.Close()
	config := `
time_zone: Europe/Berlin
alerts:
  interval: 1s
  channels: {ops: {slack: {webhook_url_env: IDLEWATT_TEST_HOOK}}}
  rules:
    - {name: idle nodes, kind: idle_gpu, channel: ops, for: 30m, min_idle: 30m, min_waste: 0, clear_after: 1s}
http: {listen: "127.0.0.1:0"}
`
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("idlewatt.yaml", []byte(config))
	now := time.Now().Truncate(time.Minute)
	idle := write("idle.prom", scrapes(now.Add(-2*time.Hour), now.Add(-3*time.Minute), 0))
	idlewatt(t, dir, "import", "--source", "gpus", "--format", "dcgm", idle)

	first := startUp(t, dir, srv.URL)
	eventually(t, "the firing message", func() bool { return len(hook.seen()) == 1 })
	// Killed between sending and remembering, it would rightly send again: at least once.
	eventually(t, "that the message is remembered as sent", func() bool {
		out, err := exec.Command("idlewatt", "--data", filepath.Join(dir, "data"), "alert", "history").Output()
		return err == nil && bytes.Contains(out, []byte("firing")) && bytes.Count(out, []byte("20")) >= 3
	})
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait()
	if err := os.Remove(idle); err != nil {
		t.Fatal(err)
	}

	second := startUp(t, dir, srv.URL)
	eventually(t, "the second instance", func() bool { return strings.Contains(second.out.String(), "idlewatt is up") })
	busy := write("busy.prom", scrapes(now.Add(-3*time.Minute), now.Add(time.Minute), 0.9))
	idlewatt(t, dir, "import", "--source", "gpus", "--format", "dcgm", busy)
	defer func() {
		if t.Failed() {
			out, _ := exec.Command("idlewatt", "--data", filepath.Join(dir, "data"), "query", "--format", "PrettyCompact", "SELECT GpuUuid, State, Cause, IntervalStart, IntervalEnd, Coverage, EngineMax, Findings FROM idlewatt.gpu_intervals ORDER BY 1, 4").CombinedOutput()
			t.Logf("intervals:\n%s\nup said:\n%s", out, second.out)
		}
	}()
	eventually(t, "the resolving message", func() bool { return len(hook.seen()) >= 2 })

	got := hook.seen()
	if len(got) != 2 || !strings.Contains(got[0], "2 x H100 idle since") || !strings.Contains(got[1], "no longer idle") {
		t.Errorf("messages: %q; want one that tells of 2 x H100 and one that resolves", got)
	}
	if len(hook.problems) > 0 {
		t.Errorf("Slack would refuse: %v", hook.problems)
	}
}
