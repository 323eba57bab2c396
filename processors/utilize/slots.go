package utilize

// slot is a stretch of time with one sample, or with none: a gap.
type slot struct {
	start, end int64
	sample     *Sample // nil in a gap
	last       *Sample // the sample before a gap
	verdict    verdict
	cells      []cell
}

// cell is one owner's part of a slot.
type cell struct {
	hold     hold
	class    class
	state    string
	cause    string
	coverage float64 // of an idle stretch; 0 elsewhere
	lastJob  string
}

// standing is how much longer than its interval a sample may stand until the next one.
const standing = 1.5

// slots cuts the time of one device's prepared samples. A sample stands until the next one,
// if that comes in time, else for its interval; the rest until the next is a gap.
func slots(s []Sample) []slot {
	var out []slot
	for i := range s {
		end := s[i].At + s[i].Interval
		if i == len(s)-1 {
			out = append(out, slot{start: s[i].At, end: end, sample: &s[i]})
			break
		}
		next := s[i+1].At
		if float64(next-s[i].At) <= standing*float64(s[i].Interval) {
			end = next
		}
		out = append(out, slot{start: s[i].At, end: end, sample: &s[i]})
		if end < next {
			out = append(out, slot{start: end, end: next, last: &s[i]})
		}
	}
	return out
}

// splitGaps divides gaps where the scheduler's record changes hands.
func (w World) splitGaps(uuid string, in []slot) []slot {
	var out []slot
	for _, s := range in {
		if s.sample == nil {
			for _, t := range w.Jobs.edges(s.last.Node, uuid, s.start, s.end) {
				head := s
				head.end = t
				out = append(out, head)
				s.start = t
			}
		}
		out = append(out, s)
	}
	return out
}

// judge fills in what each slot shows and who holds it.
func (w World) judge(uuid string, in []slot) {
	for i := range in {
		s := &in[i]
		if s.sample == nil {
			s.verdict = verdict{cause: CauseGap, engine: nan()}
			s.cells = w.gapCells(uuid, s)
			continue
		}
		s.verdict = classify(s.sample, w.Like(s.sample.Model), w.Policy)
		s.cells = w.cells(uuid, s)
	}
}

// gapCells names the holder of a gap by the scheduler's record only: a label is no evidence
// for a time without a scrape.
func (w World) gapCells(uuid string, s *slot) []cell {
	claimed, _ := w.Jobs.claims(s.last.Node, uuid, s.start, w.GPUsOnNode(s.last.Node))
	holders := w.claimed(claimed)
	if len(holders) == 0 {
		holders = []hold{nobody()}
	}
	cells := make([]cell, len(holders))
	for i, h := range holders {
		cells[i] = cell{hold: h, class: unknown, state: StateUnknown, cause: CauseGap}
	}
	return cells
}

func (w World) cells(uuid string, s *slot) []cell {
	holders := w.holds(uuid, s.sample)
	v := s.verdict
	if v.class == work && s.sample.Owners != nil && s.sample.Owners.Confidence == confidenceFailed {
		h := nobody()
		h.confidence = confidenceFailed
		return []cell{{hold: h, class: work, state: StateBusyUnowned, cause: CauseAttribution}}
	}
	cells := make([]cell, len(holders))
	for i, h := range holders {
		c := cell{hold: h, class: v.class, cause: v.cause}
		if v.class == work && len(holders) > 1 && h.engine == 0 && s.sample.Complete {
			c.class = idle // measured per process, and the sum agrees with the device
		}
		if v.class == idle && h.engine > 0 {
			c.class = work
		}
		switch {
		case c.class == unknown:
			c.state = StateUnknown
		case c.class == work && h.owner == "":
			c.state = StateBusyUnowned
		case c.class == work:
			c.state = StateBusy
		}
		cells[i] = c
	}
	return cells
}

// Energy is checked over chunks of this length, starting a little after the last work: the
// counter is read by the exporter up to 40 s before the scrape.
const (
	energyChunk = 5 * 60 * 1000
	energyDelay = 60 * 1000
)

// refuteByEnergy takes idle samples back between which the card drew more than an idle one
// does: point samples at 0 do not exclude bursts, energy does.
func (w World) refuteByEnergy(in []slot) {
	for start := 0; start < len(in); start++ {
		if in[start].verdict.class != idle {
			continue
		}
		end := start
		for end < len(in) && in[end].verdict.class == idle {
			end++
		}
		w.refuteRun(in[start:end])
		start = end
	}
}

func (w World) refuteRun(run []slot) {
	base := -1
	for i := range run {
		s := run[i].sample
		switch {
		case s.otherBusy || !known(s.EnergyJ):
			base = -1
			continue
		case base < 0 && s.At >= run[0].start+energyDelay:
			base = i
			continue
		case base < 0 || s.At-run[base].sample.At < energyChunk:
			continue
		}
		from := run[base].sample
		seconds := float64(s.At-from.At) / 1000
		if drawn := s.EnergyJ - from.EnergyJ; drawn > w.Like(s.Model).limit()*seconds && drawn <= maxWatts*seconds {
			for j := base; j < i; j++ {
				run[j].verdict.note(FindingEnergy, 0)
				run[j].verdict = run[j].verdict.unknown(CauseContradiction)
			}
		}
		base = i
	}
}
