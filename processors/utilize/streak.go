package utilize

import "slices"

// at names one cell of one slot.
type at struct{ slot, cell int }

// settle gives every candidate of idleness its state: a verdict needs a window of one owner's
// time without a gap. Shorter is a pause of its owner's work, or unknown.
func (w World) settle(uuid string, in []slot) {
	byOwner := map[string][]at{}
	var ids []string
	for i := range in {
		for j := range in[i].cells {
			id := in[i].cells[j].hold.id()
			if byOwner[id] == nil {
				ids = append(ids, id)
			}
			byOwner[id] = append(byOwner[id], at{i, j})
		}
	}
	for _, id := range ids {
		w.settleOwner(uuid, in, byOwner[id])
	}
}

func (w World) settleOwner(uuid string, in []slot, cells []at) {
	class := func(a at) class { return in[a.slot].cells[a.cell].class }
	for start := 0; start < len(cells); start++ {
		if class(cells[start]) != idle {
			continue
		}
		end := start + 1
		for end < len(cells) && class(cells[end]) == idle && cells[end].slot == cells[end-1].slot+1 {
			end++
		}
		beside := start > 0 && cells[start-1].slot == cells[start].slot-1 && class(cells[start-1]) == work ||
			end < len(cells) && cells[end].slot == cells[end-1].slot+1 && class(cells[end]) == work
		w.settleRun(uuid, in, cells[start:end], beside)
		start = end - 1
	}
}

// settleRun decides one stretch of one owner. beside says that the owner's work adjoins it.
func (w World) settleRun(uuid string, in []slot, run []at, beside bool) {
	first, last := in[run[0].slot], in[run[len(run)-1].slot]
	var expected, length int64
	for _, a := range run {
		s := in[a.slot]
		expected += min(s.sample.Interval, s.end-s.start)
		length += s.end - s.start
	}
	coverage := float64(expected) / float64(length)
	state, cause := StateUnknown, CauseShortIdle
	owned := first.cells[run[0].cell].hold.owner != ""
	switch {
	case last.end-first.start >= w.Policy.IdleWindow.Milliseconds() && coverage >= w.Policy.MinCoverage:
		state = StateUnallocatedIdle
		if owned {
			state = StateAllocatedIdle
		}
	case last.end-first.start >= w.Policy.IdleWindow.Milliseconds():
		cause = CauseLowCoverage
	case owned && beside:
		state, cause = StateBusy, CauseShortPause
	}
	job := ""
	if state == StateUnallocatedIdle {
		if j := w.Jobs.lastEnded(first.sample.Node, uuid, first.start+first.sample.Interval); j != nil {
			_, job = j.owner()
		}
	}
	for _, a := range run {
		c := &in[a.slot].cells[a.cell]
		c.state, c.cause, c.coverage, c.lastJob = state, cause, coverage, job
		switch state {
		case StateAllocatedIdle:
			c.cause = heldCause(in[a.slot].sample, w.Policy)
		case StateUnallocatedIdle:
			c.cause = freeCause(c.hold, job)
		}
	}
}

func heldCause(s *Sample, p Policy) string {
	switch held, isKnown := s.resident(p); {
	case !isKnown:
		return CauseHeldNoWork
	case held:
		return CauseResidentNoWork
	}
	return CauseHeldNoProcess
}

func freeCause(h hold, lastJob string) string {
	switch {
	case h.partial:
		return CausePartialHold
	case lastJob != "":
		return CauseAfterJobEnd
	}
	return CauseNoOwner
}

// idleStates reports whether a state carries waste.
func idleState(state string) bool {
	return slices.Contains([]string{StateAllocatedIdle, StateUnallocatedIdle}, state)
}
