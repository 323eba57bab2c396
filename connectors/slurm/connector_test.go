package slurm

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
)

var update = flag.Bool("update", false, "write what the reader says now")

// taker keeps what a pull emits.
type taker struct {
	events []event.Event
	kept   []connectors.Cursor
	refuse int // the event that is refused, from 1
}

func (k *taker) Event(_ context.Context, e event.Event) error {
	if k.refuse == len(k.events)+1 {
		k.refuse = 0
		return io.ErrClosedPipe
	}
	k.events = append(k.events, e)
	return nil
}

func (k *taker) Archive(context.Context, string, io.Reader) (event.Object, error) {
	return event.Object{}, nil
}

func (k *taker) Save(_ context.Context, cur connectors.Cursor) error {
	k.kept = append(k.kept, cur)
	return nil
}

func (k *taker) Progress(context.Context, string) {}

// lines are the events as text, in order of subject.
func (k *taker) lines() string {
	var out []string
	for _, e := range k.events {
		out = append(out, e.Type+" "+string(e.Data))
	}
	slices.Sort(out)
	return strings.Join(out, "\n") + "\n"
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(file(t, name)), got); diff != "" {
		t.Errorf("%s:\n%s", name, diff)
	}
}

const token = "eyJhbGciOiJIUzI1NiJ9.hunter2-secret.sig"

// night is when the recorded answers were taken.
var night = time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC)

// daemonStub answers as slurmrestd does, for one user with one token.
func daemonStub(t *testing.T, version string, asked *[]string) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.String())
		if r.Header.Get("X-SLURM-USER-NAME") != "idlewatt" || r.Header.Get("X-SLURM-USER-TOKEN") != token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/slurm/" + version + "/ping":
			_, _ = w.Write([]byte(`{"pings":[]}`))
		case "/slurm/" + version + "/nodes":
			_, _ = w.Write(file(t, "nodes-24.11.json"))
		case "/slurm/" + version + "/jobs":
			_, _ = w.Write(file(t, "running-24.11.json"))
		case "/slurmdb/" + version + "/jobs":
			_, _ = w.Write(file(t, "sacct-24.11.json"))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

func overREST(t *testing.T, url string) *connector {
	t.Helper()
	key := filepath.Join(t.TempDir(), "jwt")
	if err := os.WriteFile(key, []byte("SLURM_JWT="+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := defaults()
	cfg.URL, cfg.User, cfg.Key = url, "idlewatt", rest.Key{File: key}
	cfg.GRESMap = map[string][]string{"trn-05": {"GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4", "GPU-5", "GPU-6", "GPU-7"}}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	c := newConnector("hpc", *cfg)
	c.now = func() time.Time { return night }
	return c
}

// TestRESTBecomesJobsAndNodes: every record and node of the recorded answers, as events.
func TestRESTBecomesJobsAndNodes(t *testing.T) {
	t.Parallel()
	var asked []string
	c := overREST(t, daemonStub(t, "v0.0.40", &asked).URL)
	var k taker
	cur, err := c.Pull(t.Context(), nil, &k)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "events-24.11.txt", k.lines())
	for _, q := range asked {
		if strings.Contains(q, "/slurmdb/") && (!strings.Contains(q, "show_duplicates=true") || !strings.Contains(q, "disable_truncate_usage_time=true")) {
			t.Errorf("%s would hide attempts or cut times", q)
		}
	}
	if text := k.lines() + string(cur); strings.Contains(text, "hunter2") || strings.Contains(text, "/home/") {
		t.Error("a token or a command line got out")
	}
	var again taker
	next, err := c.Pull(t.Context(), cur, &again)
	if err != nil || len(again.events) != 0 || string(next) != string(cur) {
		t.Errorf("nothing new, and yet %d events, %v", len(again.events), err)
	}
	for _, f := range c.Doctor(t.Context()) {
		if f.Level != connectors.OK && f.What != "jobs of slurmctld" || strings.Contains(fmt.Sprint(f), token) {
			t.Errorf("doctor: %+v", f)
		}
	}
}

func TestRefusedTokenIsSaidWithoutIt(t *testing.T) {
	t.Parallel()
	var asked []string
	c := overREST(t, daemonStub(t, "v0.0.42", &asked).URL)
	wrong := filepath.Join(t.TempDir(), "jwt")
	if err := os.WriteFile(wrong, []byte("wrong-token-value"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, ok := c.slurm.(*daemon)
	if !ok {
		t.Fatal("no daemon")
	}
	d.api.Key = rest.Key{File: wrong}
	_, err := c.Pull(t.Context(), nil, &taker{})
	if !connectors.IsPermanent(err) || strings.Contains(err.Error(), "wrong-token") {
		t.Errorf("got %v", err)
	}
	if f := c.Doctor(t.Context()); f[0].Level != connectors.Fail || !strings.Contains(f[0].Fix, "scontrol token") {
		t.Errorf("doctor: %+v", f)
	}
}

func TestUnknownVersionsAreSaid(t *testing.T) {
	t.Parallel()
	var asked []string
	c := overREST(t, daemonStub(t, "v0.0.36", &asked).URL)
	if _, err := c.Pull(t.Context(), nil, &taker{}); !connectors.IsPermanent(err) || !strings.Contains(err.Error(), "set api_version") {
		t.Errorf("got %v", err)
	}
}

// TestCommandsSayTheSame: sacct and scontrol with fixed arguments give the events of slurmrestd.
func TestCommandsSayTheSame(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.Command, cfg.Cluster = true, "hpc1"
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	c := newConnector("hpc", *cfg)
	c.now = func() time.Time { return night }
	var ran []string
	c.slurm = commands{cluster: "hpc1", timeout: time.Minute, run: func(_ context.Context, name string, args ...string) ([]byte, error) {
		ran = append(ran, name+" "+strings.Join(args, " "))
		if name == "sacct" {
			return file(t, "sacct-24.11.json"), nil
		}
		return file(t, "nodes-24.11.json"), nil
	}}
	var k, r taker
	if _, err := c.Pull(t.Context(), nil, &k); err != nil {
		t.Fatal(err)
	}
	var asked []string
	byREST := overREST(t, daemonStub(t, "v0.0.42", &asked).URL)
	byREST.cfg.GRESMap = nil
	if _, err := byREST.Pull(t.Context(), nil, &r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.lines(), k.lines()); diff != "" {
		t.Error(diff)
	}
	want := "sacct --json --allusers --duplicates --allocations --starttime=2026-10-25T06:00:00 --endtime=2026-10-26T06:00:00 --clusters=hpc1"
	if !slices.Contains(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
}

func TestMissingCommandIsPermanent(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	cfg := defaults()
	cfg.Command = true
	_, err := newConnector("hpc", *cfg).Pull(t.Context(), nil, &taker{})
	if !connectors.IsPermanent(err) || !strings.Contains(err.Error(), "scontrol") {
		t.Errorf("got %v", err)
	}
}

// TestOldAnswersCountAttempts: before 24.11 records do not say which attempt they are of.
func TestOldAnswersCountAttempts(t *testing.T) {
	t.Parallel()
	var k taker
	f := connectors.File{Name: "old.json", Source: "hpc", Now: night, Body: strings.NewReader(string(file(t, "sacct-21.08.json")))}
	if err := decodeFile(t.Context(), f, &k); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range k.events {
		var j event.Job
		if err := e.Decode(&j); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(strings.TrimPrefix(e.Type, "job."), " ", j.ID, "/", j.Attempt, " ", j.Nodes, j.Outcome, " ", e.Time.Format("15:04")))
	}
	want := []string{
		"started 4800/0 [] 02:00", "placed 4800/0 [trn-03] 02:00", "finished 4800/0 []NODE_FAIL 02:00",
		"started 4800/1 [] 02:05", "placed 4800/1 [trn-04] 02:05",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// scripted is a cluster whose accounting a test writes.
type scripted struct{ records []map[string]any }

func (s *scripted) jobs(_ context.Context, from, to time.Time) (answer, error) {
	var a answer
	for _, r := range s.records {
		tm, _ := r["time"].(map[string]any)
		start, _ := tm["start"].(int64)
		end, _ := tm["end"].(int64)
		if start < to.Unix() && (end == 0 || end > from.Unix()) {
			b, err := json.Marshal(r)
			if err != nil {
				return a, err
			}
			a.Jobs = append(a.Jobs, b)
		}
	}
	return a, nil
}

func (s *scripted) nodes(context.Context) (answer, error)   { return answer{}, nil }
func (s *scripted) running(context.Context) (answer, error) { return answer{}, nil }

func entry(id int64, node, state string, start, end time.Time) map[string]any {
	r := map[string]any{
		"job_id": id, "cluster": "c", "user": "dana", "account": "llm", "nodes": node, "state": map[string]any{"current": []string{state}},
		"tres": map[string]any{"allocated": []any{map[string]any{"type": "gres", "name": "gpu", "count": 8}}},
	}
	tm := map[string]any{"start": start.Unix(), "end": int64(0)}
	if !end.IsZero() {
		tm["end"] = end.Unix()
	}
	r["time"] = tm
	return r
}

// TestLateEndsAreLookedUp: accounting that was away longer than the overlap still ends a job,
// and a record that is gone ends too.
func TestLateEndsAreLookedUp(t *testing.T) {
	t.Parallel()
	s := &scripted{records: []map[string]any{
		entry(1, "n1", "RUNNING", night, time.Time{}), entry(2, "n2", "RUNNING", night, time.Time{}),
	}}
	cfg := defaults()
	c := newConnector("hpc", *cfg)
	c.slurm = s
	now := night.Add(time.Hour)
	c.now = func() time.Time { return now }
	var k taker
	cur, err := c.Pull(t.Context(), nil, &k)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // both run
		now = now.Add(time.Hour)
		if cur, err = c.Pull(t.Context(), cur, &k); err != nil {
			t.Fatal(err)
		}
	}
	s.records = []map[string]any{entry(1, "n1", "NODE_FAIL", night, night.Add(2*time.Hour))}
	k.events = nil
	if cur, err = c.Pull(t.Context(), cur, &k); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range k.events {
		var j event.Job
		_ = e.Decode(&j)
		if e.Type == event.TypeJobFinished {
			got = append(got, fmt.Sprint(j.ID, " ", j.Outcome, " ", j.End.Sub(night)))
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"1 NODE_FAIL 2h0m0s", "2  21h0m0s"}, got); diff != "" {
		t.Error(diff)
	}
	k.events = nil
	if _, err = c.Pull(t.Context(), cur, &k); err != nil || len(k.events) != 0 {
		t.Errorf("told again: %v %s", err, k.lines())
	}
}
