package slurm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// memory is the cursor.
type memory struct {
	// Read is how far accounting was read, by the hour.
	Read time.Time `json:"read,omitzero"`
	// Told are the records that were told, by cluster, id and start.
	Told  map[string]*told `json:"told,omitempty"`
	Nodes connectors.Nodes `json:"nodes,omitempty"`
}

// told is what the bus has of one record.
type told struct {
	Hash    string       `json:"h"`
	Attempt int          `json:"a,omitempty"`
	Open    bool         `json:"o,omitempty"` // it was not told as finished
	Job     *event.JobID `json:"j,omitempty"` // of an open one
	seen    bool         // in this pull
}

// maxTold bounds the cursor, which has to fit a message. What is forgotten is told again with
// the same ids.
const maxTold = 8000

func recall(cur connectors.Cursor) (*memory, error) {
	m := &memory{}
	if err := connectors.Unpack(cur, m); err != nil {
		return nil, err
	}
	if m.Told == nil {
		m.Told = map[string]*told{}
	}
	if m.Nodes == nil {
		m.Nodes = connectors.Nodes{}
	}
	return m, nil
}

func (m *memory) cursor() (connectors.Cursor, error) { return connectors.Pack(m) }

// number says which attempt each record is: Slurm's own count of restarts, or, before Slurm
// 24.11, which does not say it, one more than the attempt before it that is known.
func (m *memory) number(in []attempt) {
	next := map[string]int{}
	for key, t := range m.Told {
		task, _ := cutStart(key)
		next[task] = max(next[task], t.Attempt+1)
	}
	slices.SortFunc(in, func(a, b attempt) int { return cmp.Or(cmp.Compare(a.task, b.task), a.start.Compare(b.start)) })
	for i := range in {
		a := &in[i]
		t := m.Told[a.key]
		switch {
		case a.restarts != nil:
			a.job.Attempt = *a.restarts
		case t != nil:
			a.job.Attempt = t.Attempt
		default:
			a.job.Attempt = next[a.task]
		}
		a.job.Attempt = min(max(a.job.Attempt, 0), 65535)
		next[a.task] = max(next[a.task], a.job.Attempt+1)
	}
}

func cutStart(key string) (task, start string) {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] == '@' {
			return key[:i], key[i+1:]
		}
	}
	return key, ""
}

// tell publishes the facts of an attempt if there is news in it.
func (m *memory) tell(ctx context.Context, emit connectors.Emitter, source string, a attempt, at time.Time) error {
	b, err := json.Marshal(a.job)
	if err != nil {
		return err
	}
	hash := event.ID(string(b), "", "")[:12]
	was := m.Told[a.key]
	if was != nil && was.Hash == hash {
		was.seen = true
		return nil
	}
	version := hash
	if was != nil {
		version += "<" + was.Hash
	}
	for _, f := range facts(a) {
		key := fmt.Sprintf("%s/%s/%s_%s/%d", f.typ, a.job.Cluster, a.job.ID, a.job.ArrayTask, a.job.Attempt)
		e, err := event.New(f.typ, "idlewatt/"+source, key, version, at, f.job)
		if err != nil {
			return err
		}
		if err := emit.Event(ctx, e); err != nil {
			return err
		}
	}
	is := &told{Hash: hash, Attempt: a.job.Attempt, Open: !a.finished, seen: true}
	if is.Open {
		is.Job = &a.job.JobID
	}
	m.Told[a.key] = is
	return nil
}

type fact struct {
	typ string
	job event.Job
}

// facts divides what is known of an attempt: who began, where it ran, how it ended.
func facts(a attempt) []fact {
	started := a.job
	started.Nodes, started.GPUs, started.End, started.Outcome, started.ExitCode = nil, nil, nil, "", nil
	var out []fact
	if started.Start != nil {
		out = append(out, fact{event.TypeJobStarted, started})
	}
	if len(a.job.Nodes)+len(a.job.GPUs) > 0 {
		out = append(out, fact{event.TypeJobPlaced, event.Job{
			JobID: a.job.JobID, Nodes: a.job.Nodes, GPUs: a.job.GPUs, GPUCount: a.job.GPUCount, Evidence: a.job.Evidence,
		}})
	}
	if a.finished {
		out = append(out, fact{event.TypeJobFinished, event.Job{
			JobID: a.job.JobID, End: a.job.End, Outcome: a.job.Outcome, ExitCode: a.job.ExitCode, Evidence: a.job.Evidence,
		}})
	}
	return out
}

// forget drops records that ended and were not in this pull's answers, unless the same task
// still is: the number of its next attempt depends on them.
func (m *memory) forget(tasks map[string]bool) {
	for key, t := range m.Told {
		if task, _ := cutStart(key); !t.seen && !t.Open && !tasks[task] {
			delete(m.Told, key)
		}
	}
	if len(m.Told) <= maxTold {
		return
	}
	keys := slices.SortedFunc(maps.Keys(m.Told), func(a, b string) int {
		_, x := cutStart(a)
		_, y := cutStart(b)
		return cmp.Or(cmp.Compare(len(y), len(x)), cmp.Compare(y, x), cmp.Compare(a, b))
	})
	for _, k := range keys[maxTold:] {
		if !m.Told[k].Open {
			delete(m.Told, k)
		}
	}
}
