package kubernetes

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// memory is the cursor.
type memory struct {
	// Seen is when pods were last listed, in steps of lookStep.
	Seen  time.Time        `json:"seen,omitzero"`
	Nodes connectors.Nodes `json:"nodes,omitempty"`
	Pods  map[string]*seen `json:"pods,omitempty"` // by UID
}

const lookStep = 5 * time.Minute

// seen is what the bus has of one pod.
type seen struct {
	Hash string `json:"h,omitempty"` // empty: it is to be told
	// Of a pod that was not told as ended:
	Job    *event.JobID `json:"j,omitempty"`
	Owner  string       `json:"o,omitempty"` // who is asked how it ended
	Batch  bool         `json:"b,omitempty"`
	Hint   string       `json:"w,omitempty"`
	Delete *time.Time   `json:"d,omitempty"`
	// An end that was kept and not told yet:
	End     *time.Time `json:"e,omitempty"`
	Outcome string     `json:"r,omitempty"`
}

func recall(cur connectors.Cursor) (*memory, error) {
	m := &memory{}
	if err := connectors.Unpack(cur, m); err != nil {
		return nil, err
	}
	if m.Nodes == nil {
		m.Nodes = connectors.Nodes{}
	}
	if m.Pods == nil {
		m.Pods = map[string]*seen{}
	}
	return m, nil
}

func (m *memory) cursor() (connectors.Cursor, error) { return connectors.Pack(m) }

type fact struct {
	typ string
	job event.Job
}

// tell publishes facts of one pod under a version.
func tell(ctx context.Context, emit connectors.Emitter, source, uid, version string, at time.Time, facts []fact) error {
	for _, f := range facts {
		e, err := event.New(f.typ, "idlewatt/"+source, f.typ+"/"+uid, version, at, f.job)
		if err != nil {
			return err
		}
		if err := emit.Event(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// tellPod publishes a pod's facts if there is news in them.
func (m *memory) tellPod(ctx context.Context, emit connectors.Emitter, source string, f found, at time.Time) error {
	facts := f.facts()
	b, err := json.Marshal([]event.Job{facts[0].job, facts[len(facts)-1].job})
	if err != nil {
		return err
	}
	s := m.Pods[f.meta.UID]
	hash := event.ID(string(b), "", "")[:12]
	if s.Hash != hash {
		version := hash
		if s.Hash != "" {
			version += "<" + s.Hash
		}
		if err := tell(ctx, emit, source, f.meta.UID, version, at, facts); err != nil {
			return err
		}
		s.Hash = hash
	}
	if f.finished {
		m.Pods[f.meta.UID] = &seen{Hash: hash}
	}
	return nil
}

// facts divides what is known of a pod: who began, where it runs, how it ended.
func (f found) facts() []fact {
	j := f.job
	started := j
	started.Nodes = nil
	out := []fact{{event.TypeJobStarted, started}}
	if len(j.Nodes) > 0 {
		out = append(out, fact{event.TypeJobPlaced, event.Job{
			JobID: j.JobID, Nodes: j.Nodes, GPUCount: j.GPUCount, Namespace: j.Namespace, Pods: j.Pods, Evidence: j.Evidence,
		}})
	}
	if f.finished {
		out = append(out, fact{event.TypeJobFinished, event.Job{JobID: j.JobID, End: &f.end, Outcome: f.outcome, ExitCode: f.exit, Evidence: j.Evidence}})
	}
	return out
}

// tellEnds publishes the ends that were kept, and forgets their pods.
func (m *memory) tellEnds(ctx context.Context, emit connectors.Emitter, source string) error {
	for _, uid := range slices.Sorted(maps.Keys(m.Pods)) {
		s := m.Pods[uid]
		if s.End == nil || s.Job == nil {
			continue
		}
		j := event.Job{JobID: *s.Job, End: s.End, Outcome: s.Outcome, Evidence: event.EvidenceScheduler}
		if err := tell(ctx, emit, source, uid, "gone<"+s.Hash, *s.End, []fact{{event.TypeJobFinished, j}}); err != nil {
			return err
		}
		delete(m.Pods, uid)
	}
	return nil
}
