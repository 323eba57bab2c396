package utilize

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Row is one interval of one device, as idlewatt_store.gpu_intervals holds it. Its GPU time
// is (End - Start) x ShareNum / ShareDen.
type Row struct {
	UUID, Instance     string
	Start, End         time.Time
	ShareNum, ShareDen uint32
	State, Cause       string
	Node, Model        string
	Resident           bool
	OwnerKind, Owner   string
	OwnerConfidence    string
	Job                *Job
	Project            *string
	Team               *string
	Environment        *string
	LastJobID          string
	Coverage           float64
	MeanPowerW         float64 // NaN if not known
	EngineMax          float64 // NaN if not known
	EngineMean         float64 // NaN if not known
	Findings           []string
}

// GPUTime is the row's part of the device's time.
func (r Row) GPUTime() time.Duration {
	return r.End.Sub(r.Start) * time.Duration(r.ShareNum) / time.Duration(r.ShareDen)
}

// signature is what must not change within a row.
type signature struct {
	state, cause, node, model         string
	kind, owner, confidence, job      string
	project, team, environment        string
	hasProject, hasTeam, hasEnv, held bool
	lastJob                           string
	num, den                          uint32
}

// builder grows one row.
type builder struct {
	row                          Row
	sig                          signature
	start, end                   int64
	covered, powerTime, workTime int64
	suspectTime                  int64
	power, engine                float64
	coverage, coverTime          float64
	findings                     map[string]bool
}

const hour = int64(time.Hour / time.Millisecond)

// of is the sample that a slot speaks of: in a gap the one before it.
func (s *slot) of() *Sample {
	if s.sample == nil {
		return s.last
	}
	return s.sample
}

// weight is a device's part of its card, in slices; 1 of 1 for a whole card.
type weight struct{ num, den uint32 }

// rows writes settled slots as rows within [from, to), cut at the hour.
func (w World) rows(uuid, instance string, in []slot, from, to int64, part func(*Sample) weight) []Row {
	growing := map[signature]*builder{}
	var done []*builder
	for i := range in {
		s := &in[i]
		start, end := max(s.start, from), min(s.end, to)
		for start < end {
			cut := min(end, (start/hour+1)*hour)
			for j := range s.cells {
				sig := w.signature(s, &s.cells[j], part(s.of()))
				b := growing[sig]
				if b == nil || b.end != start || start%hour == 0 {
					b = &builder{sig: sig, start: start, findings: map[string]bool{}}
					b.row = sig.row(uuid, instance, s.cells[j].hold.job)
					growing[sig] = b
					done = append(done, b)
				}
				b.add(s, &s.cells[j], start, cut)
			}
			start = cut
		}
	}
	out := make([]Row, len(done))
	for i, b := range done {
		out[i] = b.finish(w.Policy)
	}
	slices.SortStableFunc(out, func(a, b Row) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.State, b.State))
	})
	return out
}

func (w World) signature(s *slot, c *cell, part weight) signature {
	of := s.of()
	n := uint32(len(s.cells)) //nolint:gosec // a handful of owners
	sig := signature{
		state: c.state, cause: c.cause, node: of.Node, model: of.Model,
		kind: c.hold.kind, owner: c.hold.owner, confidence: c.hold.confidence, lastJob: c.lastJob,
		project: c.hold.project, team: c.hold.team, environment: c.hold.environment,
		hasProject: c.hold.hasProject, hasTeam: c.hold.hasTeam, hasEnv: c.hold.hasEnviroment,
		num: part.num, den: part.den * n,
	}
	if c.hold.job != nil {
		sig.job = c.hold.job.key()
	}
	if s.sample != nil && c.state != StateUnknown {
		sig.held, _ = s.sample.resident(w.Policy)
	}
	return sig
}

func (sig signature) row(uuid, instance string, job *Job) Row {
	opt := func(v string, ok bool) *string {
		if !ok {
			return nil
		}
		return &v
	}
	return Row{
		UUID: uuid, Instance: instance, ShareNum: sig.num, ShareDen: sig.den, State: sig.state, Cause: sig.cause,
		Node: sig.node, Model: sig.model, Resident: sig.held, OwnerKind: sig.kind, Owner: sig.owner,
		OwnerConfidence: sig.confidence, Job: job, Project: opt(sig.project, sig.hasProject),
		Team: opt(sig.team, sig.hasTeam), Environment: opt(sig.environment, sig.hasEnv), LastJobID: sig.lastJob,
		EngineMax: nan(),
	}
}

// add takes [start, end) of a slot into the row.
func (b *builder) add(s *slot, c *cell, start, end int64) {
	b.end = end
	d := end - start
	for _, f := range s.verdict.findings {
		b.findings[f] = true
	}
	if c.hold.conflict {
		b.findings[FindingConflict] = true
	}
	if len(s.cells) > 1 {
		b.findings[FindingEqualSplit] = true
	}
	b.coverage += c.coverage * float64(d)
	b.coverTime += float64(d)
	if s.sample == nil {
		return
	}
	if known(s.sample.PowerW) && !s.sample.stale {
		b.power += s.sample.PowerW * float64(d)
		b.powerTime += d
	}
	if c.class == unknown {
		return
	}
	b.covered += min(d, max(0, s.start+s.sample.Interval-start))
	e := s.verdict.engine
	if known(c.hold.engine) {
		e = c.hold.engine
	}
	if !known(b.row.EngineMax) || e > b.row.EngineMax {
		b.row.EngineMax = e
	}
	b.engine += e * float64(d)
	b.workTime += d
	if s.verdict.suspect {
		b.suspectTime += d
	}
}

func (b *builder) finish(p Policy) Row {
	r := b.row
	r.Start, r.End = time.UnixMilli(b.start).UTC(), time.UnixMilli(b.end).UTC()
	r.MeanPowerW, r.EngineMean = nan(), nan()
	if b.powerTime > 0 {
		r.MeanPowerW = b.power / float64(b.powerTime)
	}
	if b.workTime > 0 {
		r.EngineMean = b.engine / float64(b.workTime)
	}
	r.Coverage = float64(b.covered) / float64(b.end-b.start)
	if idleState(r.State) {
		r.Coverage = b.coverage / b.coverTime
	}
	if r.State == StateBusy || r.State == StateBusyUnowned {
		if r.EngineMean < p.Efficiency {
			b.findings[FindingLow] = true
		}
		if 2*b.suspectTime >= b.end-b.start {
			b.findings[FindingSuspect] = true
		}
	}
	r.Findings = slices.Sorted(maps.Keys(b.findings))
	return r
}
