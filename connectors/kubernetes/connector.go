package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

type connector struct {
	source string
	cfg    Config
	api    *server
	owners *owners
	now    func() time.Time
}

func newConnector(source string, cfg Config) *connector {
	if cfg.Cluster == "" {
		cfg.Cluster = source
	}
	api := &server{cfg: cfg}
	return &connector{source: source, cfg: cfg, api: api, owners: newOwners(api), now: time.Now}
}

// pull is one Pull.
type pull struct {
	*connector
	m       *memory
	emit    connectors.Emitter
	at      time.Time
	shared  map[string]bool // nodes whose GPUs are shared
	refused []string
}

// Pull tells what changed of nodes and of pods with GPUs. A pod that is not listed any more
// has ended since the last pull.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	m, err := recall(cur)
	if err != nil {
		return cur, err
	}
	defer c.api.rest()
	c.owners.forgetDenials()
	p := &pull{connector: c, m: m, emit: emit, at: c.now().UTC().Truncate(time.Millisecond), shared: map[string]bool{}}
	if err := m.tellEnds(ctx, emit, c.source); err != nil {
		return cur, err
	}
	if err := p.pullNodes(ctx); err != nil {
		return cur, err
	}
	if err := p.pullPods(ctx); err != nil {
		return cur, err
	}
	return m.cursor()
}

func (p *pull) keep(ctx context.Context) error {
	cur, err := p.m.cursor()
	if err != nil {
		return err
	}
	line := ""
	if len(p.refused) > 0 {
		line = fmt.Sprintf("%d objects were not understood and left out, the first: %s", len(p.refused), p.refused[0])
		p.refused = nil
	}
	return connectors.Keep(ctx, p.emit, cur, line)
}

func (p *pull) pullNodes(ctx context.Context) error {
	if err := p.m.Nodes.Tell(ctx, p.emit, p.source); err != nil {
		return err
	}
	items, err := p.api.list(ctx, "/api/v1/nodes")
	if err != nil {
		return err
	}
	known := func(name string) bool { return p.m.Nodes[p.cfg.Cluster+"\n"+name] != nil }
	var listed []event.Node
	for _, raw := range items {
		n, gpus, err := readNode(raw, p.cfg.Cluster, p.cfg.Resources, known)
		if err != nil {
			p.refused = append(p.refused, err.Error())
			continue
		}
		if gpus {
			listed = append(listed, n)
		}
		if sharing(raw) {
			p.shared[n.Name] = true
		}
	}
	p.m.Nodes.Poll(p.at, listed)
	if err := p.keep(ctx); err != nil {
		return err
	}
	return p.m.Nodes.Tell(ctx, p.emit, p.source)
}

// sharing reports whether a node's GPUs are handed out several times: the device plugin's
// feature discovery labels it.
func sharing(raw json.RawMessage) bool {
	var o struct {
		Metadata meta `json:"metadata"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return false
	}
	s := o.Metadata.Labels["nvidia.com/gpu.sharing-strategy"]
	return s != "" && s != "none"
}

// pods lists all pods that may be read.
func (p *pull) pods(ctx context.Context) ([]json.RawMessage, error) {
	if len(p.cfg.Namespaces) == 0 {
		return p.api.list(ctx, "/api/v1/pods")
	}
	var all []json.RawMessage
	for _, ns := range p.cfg.Namespaces {
		items, err := p.api.list(ctx, "/api/v1/namespaces/"+url.PathEscape(ns)+"/pods")
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// found is a pod with GPUs that was listed.
type found struct {
	hold
	job event.Job
	o   owner
}

// pullPods tells pods in two steps. First it notes which there are and how those ended that
// have; that is kept. Then it tells them. A pod that is gone after a crash in between was
// either not told at all, or its end is.
func (p *pull) pullPods(ctx context.Context) error {
	items, err := p.pods(ctx)
	if err != nil {
		return err
	}
	var list []found
	there := map[string]bool{}
	for _, raw := range items {
		h, err := readPod(raw, p.cfg.Resources, p.shared)
		switch {
		case errors.Is(err, errOther):
			continue
		case err != nil:
			p.refused = append(p.refused, err.Error())
			continue
		}
		there[h.meta.UID] = true
		if was := p.m.Pods[h.meta.UID]; was != nil && was.Job == nil {
			continue // told as ended: nothing changes any more
		}
		f, err := p.note(ctx, h)
		if err != nil {
			return err
		}
		list = append(list, f)
	}
	if err := p.noteVanished(ctx, there); err != nil {
		return err
	}
	if p.at.Sub(p.m.Seen) >= lookStep {
		p.m.Seen = p.at.Truncate(lookStep)
	}
	if err := p.keep(ctx); err != nil {
		return err
	}
	for _, f := range list {
		if err := p.m.tellPod(ctx, p.emit, p.source, f, p.at); err != nil {
			return err
		}
	}
	return p.m.tellEnds(ctx, p.emit, p.source)
}

// note remembers a pod before it is told.
func (p *pull) note(ctx context.Context, h hold) (found, error) {
	if h.finished && h.end.IsZero() {
		h.end = p.between(h.start)
	}
	o, err := p.owners.of(ctx, h.meta)
	if err != nil {
		return found{}, err
	}
	f := found{hold: h, job: h.job(o, p.cfg), o: o}
	s := p.m.Pods[h.meta.UID]
	if s == nil {
		s = &seen{Job: &f.job.JobID}
		p.m.Pods[h.meta.UID] = s
	}
	// What it was told as it stays: owners may come to be readable later.
	f.job.JobID = *s.Job
	s.Owner, s.Batch, s.Hint, s.Delete = o.status, batch(o.kind), h.hint, h.meta.Deleted
	if h.finished {
		s.End, s.Outcome = &h.end, h.outcome
	}
	return f, nil
}

func (p *pull) noteVanished(ctx context.Context, there map[string]bool) error {
	for _, uid := range slices.Sorted(maps.Keys(p.m.Pods)) {
		s := p.m.Pods[uid]
		if there[uid] {
			continue
		}
		if s.Job == nil {
			delete(p.m.Pods, uid) // its end is told
			continue
		}
		if err := p.vanished(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// between is an end of which only this is known: it was after the last list. If that is long
// ago, the time in which nobody looked is not counted as held.
func (p *pull) between(start time.Time) time.Time {
	end := p.at
	if !p.m.Seen.IsZero() && p.at.Sub(p.m.Seen) > 3*lookStep {
		end = p.m.Seen.Add(lookStep)
	}
	if end.Before(start) {
		end = start
	}
	return end
}

// vanished settles the end of a pod that is not listed any more. It is kept before it is told.
func (p *pull) vanished(ctx context.Context, s *seen) error {
	end := p.between(time.Time{})
	if d := s.Delete; d != nil && d.Before(end) {
		end = d.UTC()
	}
	outcome, err := p.howItEnded(ctx, s)
	if err != nil {
		return err
	}
	s.End, s.Outcome = &end, outcome
	return nil
}

// howItEnded asks a pod's owner. A batch job whose pods were deleted with it, or under it, was
// cancelled; a service has no outcome.
func (p *pull) howItEnded(ctx context.Context, s *seen) (string, error) {
	if !s.Batch {
		return s.Hint, nil
	}
	var o struct {
		Status struct {
			Conditions []condition `json:"conditions"`
			JobStatus  string      `json:"jobStatus"` // of a RayJob
		} `json:"status"`
	}
	if s.Owner != "" {
		err := p.api.get(ctx, s.Owner, nil, &o)
		if st := status(err); err != nil && st != http.StatusNotFound && st != http.StatusForbidden {
			return "", err
		}
	}
	for _, c := range o.Status.Conditions {
		if c.Status != "True" {
			continue
		}
		switch c.Type {
		case "Complete", "Completed", "Succeeded", "SuccessCriteriaMet":
			return "COMPLETED", nil
		case "Failed", "FailureTarget":
			if why := outcomeOf(c.Reason); why != "" {
				return why, nil
			}
			return "FAILED", nil
		case "Suspended":
			return "PREEMPTED", nil // Kueue evicts by suspending
		}
	}
	switch {
	case o.Status.JobStatus == "SUCCEEDED":
		return "COMPLETED", nil
	case o.Status.JobStatus == "FAILED":
		return "FAILED", nil
	case s.Hint != "":
		return s.Hint, nil
	}
	return "CANCELLED", nil
}
