package jobs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/schema/event"
)

// told reads what the schedulers' connectors say of their recorded answers: type and payload,
// one event a line.
func told(t *testing.T, path string) []runtime.Delivered {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	var out []runtime.Delivered
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		typ, data, _ := strings.Cut(line, " ")
		e, err := event.New(typ, "test", line, "1", at(0), json.RawMessage(data))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, runtime.Delivered{Event: e})
	}
	return out
}

// TestSchedulersFactsFoldInAnyOrder: what slurm and kubernetes tell is taken whole, and in
// whatever order and however often it comes, it gives the same rows.
func TestSchedulersFactsFoldInAnyOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	facts := append(told(t, "../../connectors/slurm/testdata/events-24.11.txt"), told(t, "../../connectors/kubernetes/testdata/events.txt")...)
	facts = append(facts, facts...)
	shuffle := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same order every time
	shuffle.Shuffle(len(facts), func(i, j int) { facts[i], facts[j] = facts[j], facts[i] })
	nodes := handle(r.p, insertNodes, nodeRow)
	for _, f := range facts {
		take := r.p.handleJobs
		if f.Type == event.TypeInventoryNode {
			take = nodes
		}
		if err := take(t.Context(), []runtime.Delivered{f})[0]; err != nil {
			t.Errorf("%s: %v", f.Data, err)
		}
	}
	rows, err := r.db.Query(t.Context(), `SELECT concat(JobId, '_', ArrayTask, '/', toString(Attempt), ' ', toString(Nodes), 'x', toString(GpuCount), ' ',
			ifNull(Project, '-'), ' ', formatDateTime(Start, '%H:%i'), '-', ifNull(formatDateTime(End, '%H:%i'), ''), ' ', Outcome)
		FROM idlewatt_store.jobs ORDER BY Scheduler, JobId, ArrayTask, Attempt`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // read only
	var got []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ml/dana-dev_sky-9f1-head.aaaa0006/0 ['gpu-4']x8 - 00:01- ",
		"ml/evicted-1_aaaa0010/0 ['gpu-6']x1 - 00:01-03:30 PREEMPTED",
		"ml/nightly_29361600-p9q8r.aaaa0003/0 ['gpu-2']x4 evals 02:00-03:00 COMPLETED",
		"ml/nightly_29361600-x2x4z.aaaa0002/0 ['gpu-2']x4 evals 00:01-02:00 OUT_OF_MEMORY",
		"ml/notebook-iris_0.aaaa0008/0 []x0 - 00:01- ",
		"ml/pretrain_worker-0.aaaa0001/0 ['gpu-1']x8 llm-train 00:01- ",
		"ml/shared-1_aaaa0009/0 []x0 - 00:01- ",
		"ml/sidecar_aaaa0013/0 ['gpu-6']x4 - 00:01- ",
		"ml/stages_trainer-0-1-k7k7k.aaaa0007/2 ['gpu-5']x8 research 00:01- ",
		"ml/tune_raycluster-abc-gpu-worker-z.aaaa0005/0 ['gpu-3']x2 - 00:01- ",
		"serve/llm_7d9f8c6b5-abcde.aaaa0004/0 ['gpu-3']x2 chat 00:01- ",
		"4711_/0 ['trn-01','trn-02']x16 llm-train 01:00-05:00 COMPLETED",
		"4800_/0 ['trn-03']x8 vision 01:00-02:00 NODE_FAIL",
		"4800_/1 ['trn-04']x8 vision 02:05-03:00 PREEMPTED",
		"4800_/2 ['trn-05']x8 vision 03:02- ",
		"4900_1/0 ['trn-06']x1 default-key 02:00-02:30 FAILED",
		"4900_2/0 ['trn-06']x1 ablation 02:00-02:15 OUT_OF_MEMORY",
		"5002_/0 []x0 vision 01:00-04:00 TIMEOUT",
		"5100_/0 ['trn-07']x8 vision 02:00-03:00 CANCELLED",
		"5100_until-1793498400/0 ['trn-07','trn-08']x16 vision 01:00-02:00 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := r.count("SELECT uniqExact(Name) FROM idlewatt_store.nodes"); n != 16 {
		t.Error(fmt.Sprint(n, " nodes, want 16"))
	}
	// The machines that a scheduler knows the bill's id of are found by every name it gives them.
	for host, id := range map[string]string{"trn-01": "i-0a1b2c3d4e5f60001", "ip-10-0-1-1": "i-0a1b2c3d4e5f60001", "gpu-1": "i-0abc000000000001", "10.0.1.7": "i-0abc000000000001"} {
		if n := r.count(fmt.Sprintf("SELECT count() FROM idlewatt_store.host_resources WHERE Node = '%s' AND ResourceId = '%s'", host, id)); n != 1 {
			t.Errorf("%s does not lead to %s", host, id)
		}
	}
}
