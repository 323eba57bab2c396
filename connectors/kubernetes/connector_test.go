package kubernetes

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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/connectors"
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

func decode(t testing.TB, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

const token = "eyJhbGciOiJSUzI1NiJ9.hunter2-secret.sig"

var night = time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC)

// cluster is an API server of a test: lists in pages, and objects.
type cluster struct {
	mu      sync.Mutex
	pods    []json.RawMessage
	nodes   []json.RawMessage
	objects map[string]json.RawMessage
	denied  string // a part of the paths that are forbidden
	expire  int    // how many continuations have expired
	asked   []string
}

func recorded(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{}
	var p page
	decode(t, file(t, "pods.json"), &p)
	c.pods = p.Items
	var n page
	decode(t, file(t, "nodes.json"), &n)
	c.nodes = n.Items
	decode(t, file(t, "owners.json"), &c.objects)
	return c
}

// perPage is small, so that lists have pages.
const perPage = 5

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r.URL.Path)
	say := func(code int, reason string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","status":"Failure","message":%q,"reason":%q,"code":%d}`, reason+" "+r.URL.Path, reason, code)
	}
	switch o, ok := c.objects[r.URL.Path]; {
	case r.Header.Get("Authorization") != "Bearer "+token:
		say(http.StatusUnauthorized, "Unauthorized")
	case c.denied != "" && strings.Contains(r.URL.Path, c.denied):
		say(http.StatusForbidden, "Forbidden")
	case r.URL.Path == "/api/v1/nodes":
		c.page(w, r, c.nodes, say)
	case r.URL.Path == "/api/v1/pods":
		c.page(w, r, c.pods, say)
	case ok:
		if !strings.Contains(string(o), `"status"`) && !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			say(http.StatusNotAcceptable, "the whole object was asked for")
			return
		}
		_, _ = w.Write(o)
	default:
		say(http.StatusNotFound, "NotFound")
	}
}

func (c *cluster) page(w http.ResponseWriter, r *http.Request, items []json.RawMessage, say func(int, string)) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	if from > 0 && c.expire > 0 {
		c.expire--
		say(http.StatusGone, "Expired")
		return
	}
	to := min(from+perPage, len(items))
	out := page{Items: items[from:to]}
	if to < len(items) {
		out.Metadata.Continue = strconv.Itoa(to)
	}
	_ = json.NewEncoder(w).Encode(out)
}

func against(t testing.TB, h http.Handler) *connector {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := defaults()
	cfg.Server, cfg.TokenFile, cfg.CAFile, cfg.Cluster = srv.URL, path, "", "prod"
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	c := newConnector("k8s", *cfg)
	c.now = func() time.Time { return night }
	return c
}

// TestPodsBecomeTasksOfTheirOwners: every pod and node of the recorded lists, as events.
func TestPodsBecomeTasksOfTheirOwners(t *testing.T) {
	t.Parallel()
	c := against(t, recorded(t))
	var k taker
	cur, err := c.Pull(t.Context(), nil, &k)
	if err != nil {
		t.Fatal(err)
	}
	got := k.lines()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", "events.txt"), []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(file(t, "events.txt")), got); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(got+string(cur), "hunter2") {
		t.Error("a secret of a pod, or the token, got out")
	}
	var again taker
	next, err := c.Pull(t.Context(), cur, &again)
	if err != nil || len(again.events) != 0 || string(next) != string(cur) {
		t.Errorf("nothing new, and yet %d events, %v", len(again.events), err)
	}
}

// TestExpiredPagesBeginAnew: a part of a list is never taken for the whole.
func TestExpiredPagesBeginAnew(t *testing.T) {
	t.Parallel()
	stub := recorded(t)
	c := against(t, stub)
	var whole, k taker
	cur, err := c.Pull(t.Context(), nil, &whole)
	if err != nil {
		t.Fatal(err)
	}
	stub.expire = 2
	if _, err := c.Pull(t.Context(), cur, &k); err != nil || len(k.events) != 0 {
		t.Errorf("%v, %s", err, k.lines())
	}
	stub.expire = 100
	if _, err := c.Pull(t.Context(), cur, &k); err == nil || connectors.IsPermanent(err) || len(k.events) != 0 {
		t.Errorf("%v, %s", err, k.lines())
	}
}

// TestMissingRightsAreNamed: what may not be read is said with the rule that is missing; an
// owner that may not be read ends the chain.
func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	for denied, want := range map[string]string{
		"/api/v1/pods":  "verbs [list] for resources [pods]",
		"/api/v1/nodes": "verbs [list] for resources [nodes]",
		"/replicasets/": "verbs [get] for resources [replicasets]",
		"/cronjobs/":    "verbs [get] for resources [cronjobs]",
	} {
		stub := recorded(t)
		stub.denied = denied
		c := against(t, stub)
		found := c.Doctor(t.Context())
		text := fmt.Sprint(found)
		if !strings.Contains(text, want) || strings.Contains(text, token) {
			t.Errorf("%s: %s", denied, text)
		}
		var k taker
		_, err := c.Pull(t.Context(), nil, &k)
		if lists := strings.HasPrefix(denied, "/api/"); lists != connectors.IsPermanent(err) || lists != (err != nil) {
			t.Errorf("%s: %v", denied, err)
		}
		if denied == "/replicasets/" && !strings.Contains(k.lines(), `"id":"serve/llm"`) {
			t.Errorf("the Deployment is not named: %s", k.lines())
		}
	}
	c := against(t, recorded(t))
	for _, f := range c.Doctor(t.Context()) {
		if f.Level != connectors.OK {
			t.Errorf("%+v", f)
		}
	}
}

func TestWrongTokenAndCA(t *testing.T) {
	t.Parallel()
	c := against(t, recorded(t))
	if err := os.WriteFile(c.cfg.TokenFile, []byte("other-token-value"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := c.Pull(t.Context(), nil, &taker{})
	if !connectors.IsPermanent(err) || strings.Contains(err.Error(), "other-token") {
		t.Errorf("%v", err)
	}
	cfg := c.cfg
	cfg.Server, cfg.CAFile = "https://cluster.invalid", filepath.Join(t.TempDir(), "none")
	if _, err := newConnector("k8s", cfg).Pull(t.Context(), nil, &taker{}); !connectors.IsPermanent(err) || !strings.Contains(err.Error(), "ca_file") {
		t.Errorf("%v", err)
	}
}

// TestVanishedPodsEnd: how a pod ended that is not listed any more, by what is known of it.
func TestVanishedPodsEnd(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		kind, api, status, condition, want string
	}{
		"job complete":   {"Job", "batch/v1", `{"conditions":[{"type":"Complete","status":"True"}]}`, "", "COMPLETED"},
		"job too long":   {"Job", "batch/v1", `{"conditions":[{"type":"Failed","status":"True","reason":"DeadlineExceeded"}]}`, "", "TIMEOUT"},
		"job failed":     {"Job", "batch/v1", `{"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded"}]}`, "", "FAILED"},
		"job suspended":  {"Job", "batch/v1", `{"conditions":[{"type":"Suspended","status":"True"}]}`, "", "PREEMPTED"},
		"job deleted":    {"Job", "batch/v1", ``, "", "CANCELLED"},
		"pytorch done":   {"PyTorchJob", "kubeflow.org/v1", `{"conditions":[{"type":"Running","status":"False"},{"type":"Succeeded","status":"True"}]}`, "", "COMPLETED"},
		"ray job":        {"RayJob", "ray.io/v1", `{"jobStatus":"SUCCEEDED"}`, "", "COMPLETED"},
		"preempted":      {"Job", "batch/v1", ``, "PreemptionByScheduler", "PREEMPTED"},
		"node gone":      {"StatefulSet", "apps/v1", ``, "DeletionByTaintManager", "NODE_FAIL"},
		"service scaled": {"StatefulSet", "apps/v1", ``, "", ""},
	} {
		o := ownerRef{APIVersion: x.api, Kind: x.kind, Name: "x", UID: "u1", Controller: true}
		p := pod{Metadata: meta{Name: "x-1", Namespace: "ml", UID: "p1", Owners: []ownerRef{o}}}
		began := night.Add(-time.Hour)
		p.Spec.NodeName, p.Status.Phase, p.Status.Started = "n1", "Running", &began
		p.Spec.Containers = make([]container, 1)
		if x.condition != "" {
			p.Status.Conditions = []condition{{Type: "DisruptionTarget", Status: "True", Reason: x.condition}}
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		raw = []byte(strings.Replace(string(raw), `"limits":null`, `"limits":{"nvidia.com/gpu":"8"}`, 1))
		path := objectPath(x.api, x.kind, "ml", "x")
		stub := &cluster{pods: []json.RawMessage{raw}, objects: map[string]json.RawMessage{path: json.RawMessage(`{"metadata":{"name":"x","namespace":"ml","uid":"u1"}}`)}}
		c := against(t, stub)
		var first, k taker
		cur, err := c.Pull(t.Context(), nil, &first)
		if err != nil {
			t.Fatal(err)
		}
		stub.pods = nil
		if delete(stub.objects, path); x.status != "" {
			stub.objects[path] = json.RawMessage(`{"metadata":{"name":"x","namespace":"ml","uid":"u1"},"status":` + x.status + `}`)
		}
		later := night.Add(time.Minute)
		c.now = func() time.Time { return later }
		if _, err := c.Pull(t.Context(), cur, &k); err != nil || len(k.events) != 1 {
			t.Fatalf("%s: %v, %s", name, err, k.lines())
		}
		var j event.Job
		if err := k.events[0].Decode(&j); err != nil {
			t.Fatal(err)
		}
		if j.Outcome != x.want || !j.End.Equal(later) || j.ID != "ml/x" {
			t.Errorf("%s: %+v, want %s", name, j, x.want)
		}
	}
}

func TestProviderIDs(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"aws:///us-east-1a/i-0abc": "i-0abc", "gce://p/z/vm": "", "": "", "lambda://8f8e": "8f8e",
		"azure:///subscriptions/1/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/VM": "/subscriptions/1/resourcegroups/rg/providers/microsoft.compute/virtualmachines/vm",
		"azure:///subscriptions/1/x/virtualMachineScaleSets/p/virtualMachines/0":                    "",
		"ocid1.instance.oc1.x": "ocid1.instance.oc1.x",
	} {
		if got := resource(id); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

func FuzzObjects(f *testing.F) {
	for _, name := range []string{"pods.json", "nodes.json"} {
		var p page
		decode(f, file(f, name), &p)
		for _, item := range p.Items {
			f.Add([]byte(item))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := readPod(b, nil, nil); err == nil {
			o := owner{kind: "Pod", name: h.meta.Name, chain: []meta{h.meta}}
			o.fromLabels()
			if j := h.job(o, *defaults()); j.GPUCount < 0 || j.Start == nil || h.finished && h.outcome == "" {
				t.Errorf("%+v", j)
			}
		}
		_, _, _ = readNode(b, "c", nil, func(string) bool { return true })
	})
}
