package lambda

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// decoded reads a file as `import --format lambda --at` does.
func decoded(t testing.TB, body []byte, at time.Time) (k *sink, leftOut []string, err error) {
	t.Helper()
	k = &sink{}
	err = decode(t.Context(), connectors.File{
		Name: "file", Source: "src", Account: "acc", At: at, Body: bytes.NewReader(body),
		LeftOut: func(line string) { leftOut = append(leftOut, line) },
	}, k)
	return k, leftOut, err
}

var moment = time.Date(2026, 9, 2, 8, 0, 0, 0, time.UTC)

func TestAuditLogByHand(t *testing.T) {
	t.Parallel()
	one, two := read(t, "lambda_audit_events_page1.json"), read(t, "lambda_audit_events_page2.json")
	k, bad, err := decoded(t, slices.Concat(one, two), time.Time{})
	must(t, err)
	// Launched at 03:12:44; sure is what lies behind the time that booting may take.
	same(t, lines(k.runs(t)), []string{"e2c85f1740bd4936a7f05d8c9b613e24 03:27:44 11:47:02 03:12:44 - - on_demand"})
	for _, r := range k.runs(t) {
		if r.InstanceType != "gpu_1x_a10" || r.Region != "us-west-1" || r.Account != "acc" || r.Step != 60 || r.Tags["launched_with_key"] != "3c2b1a09f8e74d6c5b4a39281706f5e4" {
			t.Errorf("run %+v", r)
		}
	}
	if fmt.Sprint(bad) != "[file: instance 5d1f0c8be27a4f63a9d41b7c6e20f358 has no end in this file]" {
		t.Errorf("left out: %v", bad)
	}
	if _, bad, err := decoded(t, bytes.Replace(two, []byte("null\n"), []byte(`"more"`+"\n"), 1), time.Time{}); err != nil || len(bad) != 1 || !strings.Contains(bad[0], "put all pages into one file") {
		t.Errorf("a page that is not the last: %v, %v", bad, err)
	}
}

// A list of one moment names machines and gives them no time.
func TestListsByHand(t *testing.T) {
	t.Parallel()
	k, bad, err := decoded(t, read(t, "lambda_instances.json"), moment)
	must(t, err)
	same(t, lines(k.runs(t)), []string{"5d1f0c8be27a4f63a9d41b7c6e20f358 08:00:00 08:00:00 - - - "})
	for _, r := range k.runs(t) {
		if r.GPUModel != "H100" || r.GPUCount.String() != "8" || fmt.Sprint(r.Tags) != "map[cost-center:1204 project:atlas]" ||
			fmt.Sprint(r.Hosts) != "[5d1f0c8be27a4f63a9d41b7c6e20f358 atlas-pretrain-0 10.19.0.21]" {
			t.Errorf("run %+v", r)
		}
	}
	if len(of[event.Poll](t, k, event.TypeInventoryPoll)) != 0 || len(bad) != 0 {
		t.Error("one list is no poll")
	}
	k, left, err := decoded(t, read(t, "lambda_file_systems.json"), moment)
	if err != nil || len(k.events) != 0 || len(left) != 1 || !strings.Contains(left[0], "1 file systems") {
		t.Errorf("file systems: %v, %v, %d events", err, left, len(k.events))
	}
	k, _, err = decoded(t, read(t, "lambda_instance_types.json"), moment)
	must(t, err)
	if p := of[event.Price](t, k, event.TypeInventoryPrice); len(p) != 3 || p[2].Rate.String() != "23.92" || !p[2].ValidFrom.Equal(moment) || p[2].Source != "src" {
		t.Errorf("prices %+v", p)
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct{ body, want string }{
		"no time of a list":   {string(read(t, "lambda_instances.json")), "data[0]: the answer carries no time: say with --at"},
		"no time of prices":   {string(read(t, "lambda_instance_types.json")), "say with --at"},
		"an error":            {string(read(t, "lambda_error.json")), "reading file, answer 1: it has no data"},
		"nothing":             {"", "reading file, answer 1"},
		"cut off":             {`{"data":[{"id":"a"`, "reading file, answer 1"},
		"something else":      {`{"data":[{"x":1}]}`, "data[0]: is neither an instance"},
		"a text for a number": {`{"data":[{"id":"a","status":"active","instance_type":{"price_cents_per_hour":"free"}}]}`, "data[0]: is no JSON as documented"},
		"a negative price":    {`{"data":{"t":{"instance_type":{"price_cents_per_hour":-1}}}}`, "is negative"},
		"no time of an event": {`{"data":[{"action":"launched","resource_lrns":["lrn:cloud:instance:a"]}]}`, "field event_time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := moment
			if strings.HasPrefix(name, "no time of") {
				at = time.Time{}
			}
			if k, _, err := decoded(t, []byte(x.body), at); err == nil || !strings.Contains(err.Error(), x.want) || len(k.events) != 0 {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
}

// Which event is a launch, and which an end, when nobody says what actions are called.
func TestLivesOfEvents(t *testing.T) {
	t.Parallel()
	watched := at("10:00:00")
	ev := func(action, resource, when, id string) auditEvent {
		return auditEvent{Action: action, Resource: resource, Time: at(when).Format(time.RFC3339), LRNs: []string{instanceLRN + id, "lrn:cloud:ssh_key:k"}}
	}
	l := lives{}
	for _, e := range []auditEvent{
		ev("instance.renamed", "instance", "09:00:00", "old"),                                           // no launch: it was there before
		ev("InstanceLaunch", "instance", "09:30:00", "named"),                                           // says so
		ev("something", "instance", "10:05:00", "new"),                                                  // the first word of a new one
		ev("something else", "instance", "10:07:00", "new"),                                             // not the first
		ev("terminate", "instance", "10:20:00", "new"), ev("terminated", "instance", "10:21:00", "new"), // the last counts
		ev("deleted", "firewall_ruleset", "10:10:00", "named"), // of something else
		ev("deleted", "instance", "10:30:00", "../etc"),        // no id
	} {
		must(t, l.take(e, watched))
	}
	got := []string{}
	for id, x := range l {
		got = append(got, fmt.Sprint(id, " ", clock(&x.Launched), " ", clock(&x.Ended)))
	}
	slices.Sort(got)
	same(t, got, []string{"named 09:30:00 00:00:00", "new 10:05:00 10:21:00", "old 00:00:00 00:00:00"})
}

func FuzzDecode(f *testing.F) {
	for _, n := range []string{
		"lambda_instances.json", "lambda_instance_types.json", "lambda_file_systems.json", "lambda_audit_events_page1.json", "lambda_error.json",
	} {
		f.Add(read(f, n))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		k, bad, err := decoded(t, body, moment)
		if err != nil && !strings.Contains(err.Error(), "file") {
			t.Errorf("%v does not name the file", err)
		}
		for _, b := range bad {
			if !strings.HasPrefix(b, "file: ") {
				t.Errorf("left out without a reason: %q", b)
			}
		}
		for _, r := range k.runs(t) {
			if r.SeenTo == nil || r.SeenTo.Before(r.SeenFrom) || r.StartedAfter != nil && r.StartedAfter.After(r.SeenFrom) {
				t.Errorf("run %+v", r)
			}
		}
	})
}
