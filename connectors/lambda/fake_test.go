package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	return b
}

const secret = "k3y-of-the-test-0815"

// machine is an instance of the fake: launched, healthy from then on but for breaks, terminated.
type machine struct {
	id, kind                      string
	cents                         int
	launched, healthy, terminated time.Time
	breaks                        [][2]time.Time // booting again
	cluster                       string
}

func (m machine) exists(at time.Time) bool {
	return !at.Before(m.launched) && (m.terminated.IsZero() || at.Before(m.terminated))
}

func (m machine) billed(at time.Time) bool {
	for _, b := range m.breaks {
		if !at.Before(b[0]) && at.Before(b[1]) {
			return false
		}
	}
	return m.exists(at) && !m.healthy.IsZero() && !at.Before(m.healthy)
}

// volume is a file system; its size changes once.
type volume struct {
	id      string
	created time.Time
	bytes   int64
	changes time.Time
	then    int64
}

// fake is a Lambda with a clock.
type fake struct {
	t        testing.TB
	now      func() time.Time
	machines []machine
	volumes  []volume
	pageSize int           // of audit events
	late     time.Duration // of audit events
	dumb     bool          // no audit log
	asked    []string
	answer   map[string]func(w http.ResponseWriter)
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	w.Header().Set("Date", f.now().UTC().Format(http.TimeFormat))
	f.asked = append(f.asked, f.now().Format(time.RFC3339Nano))
	path := strings.TrimPrefix(r.URL.Path, "/api/v1")
	switch special := f.answer[path]; {
	case r.Header.Get("Authorization") != "Bearer "+secret:
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write(read(f.t, "lambda_error.json"))
	case special != nil:
		special(w)
	case path == "/instances":
		f.instances(w, r.FormValue("cluster_id"))
	case path == "/file-systems":
		f.filesystems(w)
	case path == "/instance-types":
		_, _ = w.Write(read(f.t, "lambda_instance_types.json"))
	case path == "/audit-events":
		f.audit(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

func send(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(b)
}

func (f *fake) instances(w http.ResponseWriter, cluster string) {
	now := f.now()
	rows := []any{}
	for _, m := range f.machines {
		if !m.exists(now) || m.cluster != cluster {
			continue
		}
		status := "booting"
		if m.billed(now) {
			status = statusActive
		}
		rows = append(rows, map[string]any{
			"id": m.id, "name": "node of ops@example.com", "ip": "198.51.100.21", "private_ip": "10.0.0.1", "hostname": "host-" + m.id, "status": status,
			"jupyter_token": "SECRET-token", "jupyter_url": "https://x/?token=SECRET-token", "ssh_key_names": []string{"SECRET-key"},
			"region": map[string]string{"name": "us-east-1"}, "tags": []any{map[string]string{"key": "project", "value": "atlas"}},
			"instance_type": map[string]any{
				"name": m.kind, "gpu_description": "H100 (80 GB SXM5)", "price_cents_per_hour": m.cents, "specs": map[string]int{"gpus": 8},
			},
		})
	}
	send(w, map[string]any{"data": rows})
}

func (f *fake) filesystems(w http.ResponseWriter) {
	now := f.now()
	rows := []any{}
	for _, v := range f.volumes {
		if now.Before(v.created) {
			continue
		}
		size := v.bytes
		if !v.changes.IsZero() && !now.Before(v.changes) {
			size = v.then
		}
		rows = append(rows, map[string]any{
			"id": v.id, "name": v.id, "mount_point": "/lambda/nfs/x", "created": v.created.Format(time.RFC3339), "bytes_used": size,
			"created_by": map[string]string{"email": "svc-train@example.com"}, "region": map[string]string{"name": "us-east-1"},
		})
	}
	send(w, map[string]any{"data": rows})
}

func (f *fake) audit(w http.ResponseWriter, r *http.Request) {
	from, err1 := time.Parse(time.RFC3339, r.FormValue("start"))
	to, err2 := time.Parse(time.RFC3339, r.FormValue("end"))
	if err1 != nil || err2 != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	rows := []any{}
	add := func(m machine, action string, at time.Time) {
		if at.IsZero() || at.Before(from) || at.After(to) || at.After(f.now().Add(-f.late)) || f.dumb {
			return
		}
		rows = append(rows, map[string]any{
			"service_name": "cloud", "resource_name": "instance", "action": action, "event_time": at.Format("2006-01-02T15:04:05.000000Z"),
			"resource_lrns": []string{instanceLRN + m.id}, "request_api_key_lrn": "lrn:cloud:api_key:key-of-atlas",
			"additional_details": map[string]string{"instance_type": m.kind, "region": "us-east-1"},
		})
	}
	for _, m := range f.machines {
		add(m, "launched", m.launched)
		add(m, "terminated", m.terminated)
	}
	n, _ := strconv.Atoi(strings.TrimPrefix(r.FormValue("page_token"), "p"))
	size := max(1, f.pageSize)
	answer := map[string]any{"data": rows[min(n, len(rows)):min(n+size, len(rows))], "page_token": nil}
	if n+size < len(rows) {
		answer["page_token"] = fmt.Sprint("p", n+size)
	}
	send(w, answer)
}

// source is a connector that asks the fake.
func (f *fake) source(t *testing.T, change func(*Config)) *connector {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(key, []byte(secret+"\n"), 0o600))
	cfg := defaults()
	cfg.Key, cfg.BaseURL = rest.Key{File: key}, "https://lambda.invalid/api/v1"
	if change != nil {
		change(cfg)
	}
	must(t, cfg.Validate())
	c, err := newConnector("src", *cfg, f.now, &http.Client{Transport: f})
	must(t, err)
	return c
}

// sink is an emitter that remembers, keeps cursors and fails where it is told to.
type sink struct {
	events []event.Event
	kept   connectors.Cursor
	failAt int
}

var errRefused = errors.New("refused")

func (k *sink) Event(_ context.Context, e event.Event) error {
	if k.failAt--; k.failAt == 0 {
		return errRefused
	}
	k.events = append(k.events, e)
	return nil
}

func (k *sink) Archive(context.Context, string, io.Reader) (event.Object, error) {
	return event.Object{}, errors.New("there is nothing to archive")
}

func (k *sink) Save(_ context.Context, cur connectors.Cursor) error {
	k.kept = bytes.Clone(cur)
	return nil
}

func (k *sink) Progress(context.Context, string) {}

func (k *sink) pull(ctx context.Context, c *connector) error {
	next, err := c.Pull(ctx, k.kept, k)
	if err != nil {
		return err
	}
	return k.Save(ctx, next)
}

func of[T any](t testing.TB, k *sink, typ string) []T {
	t.Helper()
	var out []T
	for _, e := range k.events {
		if e.Type == typ {
			var v T
			must(t, e.Decode(&v))
			out = append(out, v)
		}
	}
	return out
}

// runs are the runs as last told.
func (k *sink) runs(t testing.TB) map[string]event.Instance {
	t.Helper()
	out := map[string]event.Instance{}
	for _, i := range of[event.Instance](t, k, event.TypeInventoryInstance) {
		out[i.Kind+" "+i.ResourceID+" "+i.SeenFrom.Format(time.RFC3339Nano)] = i
	}
	return out
}
