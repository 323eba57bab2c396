package utilize

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// World is what is known beside a card's own samples.
type World struct {
	Policy     Policy
	Like       func(model string) Like
	Jobs       *Jobs
	GPUsOnNode func(node string) int
	// Failed reports whether a fault took a device out of use before the first sample; nil: none.
	Failed func(uuid, instance string) bool
}

// Card is one physical GPU: its samples by MIG instance, "" for the whole card.
type Card struct {
	UUID    string
	Devices map[string][]Sample
}

// Intervals derives the rows of one card within [from, to). Samples from outside that range
// only help to judge what is inside. The result does not depend on the samples' order.
func (w World) Intervals(c Card, from, to time.Time) []Row {
	lo, hi := from.UnixMilli(), to.UnixMilli()
	names := slices.Sorted(maps.Keys(c.Devices))
	prepared := map[string][]Sample{}
	for _, n := range names {
		prepared[n] = prepare(c.Devices[n], w.Policy)
	}
	markInstances(prepared)
	cut := map[string][]slot{}
	for _, n := range names {
		cut[n] = slots(prepared[n])
	}
	separateModes(cut)
	carved := len(names) > 1 || len(names) == 1 && names[0] != ""
	total := uint32(1)
	if carved {
		total = max(cardSlices(prepared), mostSlices(cut))
	}
	var out []Row
	for _, n := range names {
		s := w.splitGaps(c.UUID, cut[n])
		w.judge(c.UUID, s)
		w.refuteByEnergy(s)
		for i := range s { // energy may have taken idleness back
			if s[i].sample != nil && s[i].verdict.class == unknown {
				s[i].cells = w.cells(c.UUID, &s[i])
			}
		}
		w.settle(c.UUID, s)
		w.markUnavailable(s, w.Failed != nil && w.Failed(c.UUID, n))
		part := func(*Sample) weight { return weight{1, 1} }
		if n != "" { // an instance's id may come again with another profile
			part = func(s *Sample) weight { return weight{slicesOf(s.Profile), total} }
		}
		out = append(out, w.rows(c.UUID, n, s, lo, hi, part)...)
	}
	if carved {
		out = append(out, w.remainder(c.UUID, cut, lo, hi, total)...)
	}
	slices.SortStableFunc(out, func(a, b Row) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Instance, b.Instance))
	})
	return out
}

// markInstances notes in each sample whether another instance of the card works within the
// same interval: power and energy are the card's.
func markInstances(prepared map[string][]Sample) {
	for n, own := range prepared {
		for other, theirs := range prepared {
			if other == n || n == "" || other == "" {
				continue
			}
			j := 0
			for i := range own {
				for j < len(theirs) && theirs[j].At < own[i].At-own[i].Interval {
					j++
				}
				for k := j; k < len(theirs) && theirs[k].At <= own[i].At+own[i].Interval; k++ {
					own[i].otherBusy = own[i].otherBusy || theirs[k].work() > 0
				}
			}
		}
	}
}

// separateModes keeps the two modes of a card apart: a whole card has no time while it is
// carved, and an instance none while the card is whole.
func separateModes(cut map[string][]slot) {
	if len(cut) < 2 || cut[""] == nil {
		return
	}
	var whole, parts []slot
	for n, s := range cut {
		for _, x := range s {
			switch {
			case x.sample == nil:
			case n == "":
				whole = append(whole, x)
			default:
				parts = append(parts, x)
			}
		}
	}
	for n, s := range cut {
		others := whole
		if n == "" {
			others = parts
		}
		for i := range s {
			for _, o := range others {
				if s[i].sample != nil && (o.start > s[i].start || o.start == s[i].start && n == "") {
					s[i].end = min(s[i].end, o.start)
				}
			}
		}
		cut[n] = slices.DeleteFunc(s, func(x slot) bool {
			return x.start >= x.end || x.sample == nil &&
				slices.ContainsFunc(others, func(o slot) bool { return o.start < x.end && x.start < o.end })
		})
	}
}

// slicesOf reads the compute slices of a MIG profile such as 3g.40gb or 1c.3g.40gb.
func slicesOf(profile string) uint32 {
	for part := range strings.SplitSeq(profile, ".") {
		if n, ok := strings.CutSuffix(part, "g"); ok {
			if v, err := strconv.ParseUint(n, 10, 8); err == nil && v > 0 {
				return uint32(v)
			}
		}
	}
	return 1
}

// cardSlices is how many slices the card has: 4 for an A30, 7 for the others.
func cardSlices(prepared map[string][]Sample) uint32 {
	for _, s := range prepared {
		if len(s) > 0 && strings.Contains(s[0].Model, "A30") && !strings.Contains(s[0].Model, "A300") {
			return 4
		}
	}
	return 7
}

// change is a moment at which slices begin or end to be carved out.
type change struct {
	at     int64
	slices int64
	seen   int64 // instances with a sample
	any    *Sample
}

func changes(cut map[string][]slot) []change {
	var out []change
	for n, s := range cut {
		if n == "" {
			continue
		}
		for i := range s {
			x, seen := s[i].of(), int64(1)
			if s[i].sample == nil {
				seen = 0
			}
			k := int64(slicesOf(x.Profile))
			out = append(out, change{s[i].start, k, seen, x}, change{s[i].end, -k, -seen, x})
		}
	}
	slices.SortFunc(out, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.slices, b.slices), cmp.Compare(a.any.Event, b.any.Event))
	})
	return out
}

// mostSlices is the largest number of slices carved out at one time. Labels can be wrong: the
// parts of a card never add up to more than the card.
func mostSlices(cut map[string][]slot) uint32 {
	var now, most int64
	for _, c := range changes(cut) {
		now += c.slices
		most = max(most, now)
	}
	return uint32(most) //nolint:gosec // at most 255 per instance
}

// remainder writes the slices that are not carved out: nothing can run there.
func (w World) remainder(uuid string, cut map[string][]slot, from, to int64, total uint32) []Row {
	var out []slot
	var carvedNow, seen int64
	list := changes(cut)
	var parts []weight
	for i, c := range list {
		carvedNow += c.slices
		seen += c.seen
		if i+1 == len(list) || list[i+1].at == c.at {
			continue
		}
		rest := int64(total) - carvedNow
		if carvedNow == 0 || rest <= 0 {
			continue
		}
		s := slot{start: c.at, end: list[i+1].at, last: &Sample{Node: c.any.Node, Model: c.any.Model}}
		s.cells = []cell{{hold: nobody(), class: unknown, state: StateUnknown, cause: CauseGap}}
		if seen > 0 {
			s.cells[0].state, s.cells[0].cause, s.cells[0].coverage = StateUnallocatedIdle, CauseNotCarved, 1
		}
		s.verdict.engine = nan()
		out = append(out, s)
		parts = append(parts, weight{uint32(rest), total}) //nolint:gosec // at most total
	}
	var rows []Row
	for start := 0; start < len(out); {
		end := start + 1
		for end < len(out) && parts[end] == parts[start] {
			end++
		}
		rows = append(rows, w.rows(uuid, "", out[start:end], from, to, func(*Sample) weight { return parts[start] })...)
		start = end
	}
	return rows
}

// TrailingIdle is how long the newest rows of one device have been idle without a break, and
// since when. Rows are in time order; a gap ends a streak.
func TrailingIdle(rows []Row) (since time.Time, length time.Duration) {
	for i := len(rows) - 1; i >= 0; i-- {
		if !idleState(rows[i].State) || i < len(rows)-1 && !rows[i].End.Equal(rows[i+1].Start) {
			break
		}
		since = rows[i].Start
	}
	if since.IsZero() {
		return since, 0
	}
	return since, rows[len(rows)-1].End.Sub(since)
}
