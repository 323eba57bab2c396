package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
)

type connector struct {
	source string
	cfg    Config
	slurm  asker
	now    func() time.Time
}

func newConnector(source string, cfg Config) *connector {
	c := &connector{source: source, cfg: cfg, now: time.Now}
	if cfg.Command {
		c.slurm = commands{cluster: cfg.Cluster, timeout: cfg.Timeout, run: execute}
	} else {
		c.slurm = newDaemon(cfg)
	}
	return c
}

// pull is one Pull.
type pull struct {
	*connector
	m       *memory
	emit    connectors.Emitter
	at      time.Time
	uuids   map[string][]string // by job id and start
	tasks   map[string]bool     // seen in an answer, waiting ones too
	refused []string
}

// Pull tells what changed of the nodes, then every job's record of the time since the last
// pull, and of the hours before it, that is new or says something else than before.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	m, err := recall(cur)
	if err != nil {
		return cur, err
	}
	p := &pull{connector: c, m: m, emit: emit, at: c.now().UTC().Truncate(time.Millisecond), tasks: map[string]bool{}}
	if err := p.pullNodes(ctx); err != nil {
		return cur, err
	}
	if err := p.pullUUIDs(ctx); err != nil {
		return cur, err
	}
	from := p.at.Add(-c.cfg.Since)
	if !m.Read.IsZero() {
		from = m.Read.Add(-c.cfg.Overlap)
	}
	if err := p.pullJobs(ctx, from); err != nil {
		return cur, err
	}
	if err := p.lookUp(ctx); err != nil {
		return cur, err
	}
	m.forget(p.tasks)
	return m.cursor()
}

func (p *pull) pullNodes(ctx context.Context) error {
	if err := p.m.Nodes.Tell(ctx, p.emit, p.source); err != nil {
		return err
	}
	a, err := p.slurm.nodes(ctx)
	if err != nil {
		return err
	}
	var listed []event.Node
	for _, raw := range a.Nodes {
		n, err := readNode(raw, p.cluster(a))
		if errors.Is(err, errNoGPUNode) {
			continue
		}
		if err != nil {
			p.refused = append(p.refused, err.Error())
			continue
		}
		if !n.At.IsZero() {
			n.At = bounded(n.At, p.at.Add(-p.cfg.Since), p.at)
		}
		listed = append(listed, n)
	}
	p.m.Nodes.Poll(p.at, listed)
	if err := p.keep(ctx, ""); err != nil {
		return err
	}
	return p.m.Nodes.Tell(ctx, p.emit, p.source)
}

func (p *pull) keep(ctx context.Context, line string) error {
	cur, err := p.m.cursor()
	if err != nil {
		return err
	}
	return connectors.Keep(ctx, p.emit, cur, line)
}

func (p *pull) cluster(a answer) string {
	if p.cfg.Cluster != "" {
		return p.cfg.Cluster
	}
	return a.Meta.Slurm.Cluster
}

// pullUUIDs reads which GPUs running jobs have, where a map says what an index means.
func (p *pull) pullUUIDs(ctx context.Context) error {
	p.uuids = map[string][]string{}
	if len(p.cfg.GRESMap) == 0 {
		return nil
	}
	a, err := p.slurm.running(ctx)
	if err != nil {
		return err
	}
	for _, raw := range a.Jobs {
		var h held
		if json.Unmarshal(raw, &h) != nil {
			continue
		}
		if key, list := h.uuids(p.cfg.GRESMap); len(list) > 0 {
			p.uuids[key] = list
		}
	}
	return nil
}

// window is how much time one question covers; one with too large an answer is halved.
const (
	window    = 24 * time.Hour
	minWindow = time.Minute
)

func (p *pull) pullJobs(ctx context.Context, from time.Time) error {
	step := window
	for from.Before(p.at) {
		to := from.Add(step)
		if to.After(p.at) {
			to = p.at.Add(time.Minute) // what started just now, by another clock
		}
		a, err := p.slurm.jobs(ctx, from, to)
		if errors.Is(err, rest.ErrTooLarge) && step > minWindow {
			step /= 2
			continue
		}
		if err != nil {
			return err
		}
		if err := p.tellAll(ctx, a); err != nil {
			return err
		}
		from = to
		if hour := bounded(to, time.Time{}, p.at).Truncate(time.Hour); hour.After(p.m.Read) {
			p.m.Read = hour
		}
		line := ""
		if len(p.refused) > 0 {
			line = fmt.Sprintf("%d records were not understood and left out, the first: %s", len(p.refused), p.refused[0])
			p.refused = nil
		}
		if err := p.keep(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// tellAll tells what is new in an answer.
func (p *pull) tellAll(ctx context.Context, a answer) error {
	var found []attempt
	for _, raw := range a.Jobs {
		x, err := read(raw, p.cluster(a), p.cfg.Naming, p.at)
		switch {
		case errors.Is(err, errNoGPUs):
			p.waiting(raw, p.cluster(a))
			continue
		case err != nil:
			p.refused = append(p.refused, err.Error())
			continue
		}
		if list := p.uuids[x.raw+"@"+strconv.FormatInt(x.start.Unix(), 10)]; len(list) == x.job.GPUCount && len(list) > 0 {
			x.job.GPUs = list
		}
		p.tasks[x.task] = true
		found = append(found, x)
	}
	p.m.number(found)
	for _, x := range found {
		if err := p.m.tell(ctx, p.emit, p.source, x, p.at); err != nil {
			return err
		}
	}
	return nil
}

// waiting notes a job that waits to be started again.
func (p *pull) waiting(raw json.RawMessage, cluster string) {
	var r record
	if json.Unmarshal(raw, &r) == nil && r.JobID.set {
		if r.Cluster != "" {
			cluster = r.Cluster
		}
		p.tasks[cluster+"/"+strconv.FormatInt(r.JobID.value, 10)] = true
	}
}

// maxLookUps bounds how many lost records one pull asks for.
const maxLookUps = 20

// lookUp asks for records that were open and were in no answer: their end came into
// accounting later than the overlap. A record that is not there any more has ended by now.
func (p *pull) lookUp(ctx context.Context) error {
	starts := map[string]bool{}
	for key, t := range p.m.Told {
		if _, start := cutStart(key); t.Open && !t.seen {
			starts[start] = true
		}
	}
	for i, s := range slices.Sorted(maps.Keys(starts)) {
		if i == maxLookUps {
			return nil
		}
		unix, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			continue
		}
		from := time.Unix(unix, 0).UTC()
		a, err := p.slurm.jobs(ctx, from, from.Add(time.Second))
		if err != nil {
			return err
		}
		if err := p.tellAll(ctx, a); err != nil {
			return err
		}
		if err := p.end(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// end tells that the open records of a start, which accounting does not have any more, are
// over. How they ended nobody knows.
func (p *pull) end(ctx context.Context, start string) error {
	for _, key := range slices.Sorted(maps.Keys(p.m.Told)) {
		t := p.m.Told[key]
		if _, at := cutStart(key); at != start || !t.Open || t.seen || t.Job == nil {
			continue
		}
		at := p.at
		a := attempt{key: key, finished: true, job: event.Job{JobID: *t.Job, End: &at, Evidence: event.EvidenceScheduler}}
		if err := p.m.tell(ctx, p.emit, p.source, a, p.at); err != nil {
			return err
		}
		p.m.Told[key].seen = false
	}
	return nil
}
