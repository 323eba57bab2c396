package demo_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/deploy/demo"
	"github.com/idlewatt/idlewatt/schema/event"
)

func TestScrapesShowTheIdleWeekend(t *testing.T) {
	t.Parallel()
	m := month.Month
	count, failed, blanks, largest := map[string]int{}, map[string]int{}, 0, 0
	var last time.Time
	err := demo.Scrapes(func(node string, at time.Time, body []byte) error {
		if at.Before(last) {
			t.Fatalf("%s at %s comes after %s", node, at, last)
		}
		last = at
		count[node]++
		largest = max(largest, len(body))
		if body == nil {
			failed[node]++
			return nil
		}
		blanks += bytes.Count(body, []byte("140737488355328"))
		if node == m.Weekend.Node {
			idle := !at.Before(m.Weekend.From) && at.Before(m.Weekend.To)
			if owned := bytes.Contains(body, []byte(`hpc_job="`+m.Weekend.LastJob+`"`)); owned == idle {
				t.Fatalf("%s at %s: held by the job %v, idle %v", node, at, owned, idle)
			}
			if works := !bytes.Contains(body, []byte(`Hostname="trn-07"} 0.000000`)); works == idle {
				t.Fatalf("%s at %s: works %v, idle %v", node, at, works, idle)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	minutes := int(m.ScrapeEnd.Sub(m.ScrapeStart) / time.Minute)
	for node, n := range count {
		if n != minutes {
			t.Errorf("%s: %d scrapes, want %d", node, n, minutes)
		}
	}
	if len(count) != 5 || len(failed) != 1 || failed["trn-08"] != 25 || blanks != 1 || largest > 9_500 {
		t.Errorf("nodes %v, failed %v, blanks %d, largest body %d bytes", count, failed, blanks, largest)
	}
	t.Logf("%d minutes, largest body %d bytes, weekend costs %s", minutes, largest, m.Weekend.Cost)
}

func TestScrapesStopAtAnError(t *testing.T) {
	t.Parallel()
	want := errors.New("enough")
	n := 0
	if err := demo.Scrapes(func(string, time.Time, []byte) error { n++; return want }); !errors.Is(err, want) || n != 1 {
		t.Errorf("%d calls, %v", n, err)
	}
}

// TestEventsAreEvents reads the events back and checks that jobs, machines and GPUs agree.
func TestEventsAreEvents(t *testing.T) {
	t.Parallel()
	m := month.Month
	f, err := os.Open(m.Jobs)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read only
	ids, hosts, gpus := map[string]bool{}, map[string]string{}, map[string]bool{}
	outcomes, projects := map[string]int{}, map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		e, err := event.ParseJSON(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if ids[e.ID] {
			t.Errorf("id %s comes twice (%s)", e.ID, e.Subject)
		}
		ids[e.ID] = true
		if e.Type == event.TypeInventoryInstance {
			var i event.Instance
			if err := e.Decode(&i); err != nil {
				t.Fatal(err)
			}
			hosts[i.Hosts[0]] = i.ResourceID
			for _, g := range i.GPUs {
				gpus[g] = true
			}
			continue
		}
		checkJob(t, e, hosts, gpus, outcomes, projects)
	}
	if hosts[m.Weekend.Node] != m.Weekend.ResourceID || len(projects) != 3 {
		t.Errorf("hosts %v, projects %v", hosts, projects)
	}
	for _, o := range []string{"COMPLETED", "FAILED", "PREEMPTED", "NODE_FAIL"} {
		if outcomes[o] == 0 {
			t.Errorf("no job ended %s: %v", o, outcomes)
		}
	}
}

func checkJob(t *testing.T, e event.Event, hosts map[string]string, gpus map[string]bool, outcomes map[string]int, projects map[string]bool) {
	t.Helper()
	var j event.Job
	if err := e.Decode(&j); err != nil {
		t.Fatal(err)
	}
	if j.Evidence != event.EvidenceScheduler || j.ID == "" || !strings.HasPrefix(e.Type, "job.") {
		t.Errorf("%s %s: %+v", e.Type, e.ID, j)
	}
	for _, n := range j.Nodes {
		if hosts[n] == "" {
			t.Errorf("job %s runs on unknown node %s", j.ID, n)
		}
	}
	for _, g := range j.GPUs {
		if !gpus[g] {
			t.Errorf("job %s holds unknown GPU %s", j.ID, g)
		}
	}
	if j.Outcome != "" {
		outcomes[j.Outcome]++
	}
	if j.Project != "" {
		projects[j.Project] = true
	}
}
