package utilize

import (
	"slices"
	"strconv"

	"github.com/idlewatt/idlewatt/schema/event"
)

// States of an interval: the glossary of the whole product.
const (
	StateBusy            = "busy"
	StateBusyUnowned     = "busy_unowned"
	StateAllocatedIdle   = "allocated_idle"
	StateUnallocatedIdle = "unallocated_idle"
	StateUnavailable     = "unavailable" // out of use: nobody's waste
	StateUnknown         = "unknown"
)

// Causes: why an interval has its state.
const (
	CauseHeldNoProcess  = "held_no_process"   // held, nothing runs on it
	CauseResidentNoWork = "resident_no_work"  // held, a process keeps memory and does nothing
	CauseHeldNoWork     = "held_no_work"      // held, memory not known
	CauseAfterJobEnd    = "after_job_end"     // nobody's since a job ended
	CauseNoOwner        = "no_owner"          // nobody's
	CausePartialHold    = "partial_hold"      // a job holds some GPUs of the node, which is not known
	CauseNotCarved      = "not_carved"        // MIG slices without an instance
	CauseShortPause     = "short_pause"       // no work for less than the window, between its owner's work
	CauseShortIdle      = "short_idle"        // no work for less than the window
	CauseGap            = "gap"               // no sample
	CauseNoSignal       = "no_signal"         // a sample without an engine signal
	CauseStale          = "stale"             // values frozen
	CauseContradiction  = "contradiction"     // signals contradict each other
	CauseIncomplete     = "incomplete_scrape" // a cut scrape proves no absence
	CauseLowCoverage    = "low_coverage"      // too few samples for a verdict
	CauseAttribution    = "attribution_failed"
	CauseCordoned       = "cordoned"    // unavailable: the scheduler gives the node no new work
	CauseDrained        = "drained"     // unavailable: the scheduler gives the node no work
	CauseMaintenance    = "maintenance" // unavailable: reserved for maintenance
	CauseFailed         = "failed"      // unavailable: the node is down or unfit
	CauseXID            = "xid"         // unavailable: the driver said that the GPU failed
)

// Findings about a device or an interval.
const (
	FindingLow        = "low"
	FindingSuspect    = "busy_suspect"
	FindingProfiling  = "profiling_contradicts"
	FindingPower      = "power_contradicts"
	FindingEnergy     = "energy_contradicts"
	FindingSkew       = "clock_skew"
	FindingEqualSplit = "equal_split"
	FindingConflict   = "owner_conflict"
)

// Confidences of an owner.
const (
	confidenceHigh   = "high"
	confidenceLow    = "low"
	confidenceFailed = "failed"
)

// class is what one sample shows.
type class int

const (
	unknown class = iota
	idle          // no work: a candidate, a verdict needs a window
	work
)

// verdict is the reading of one sample, without its owner.
type verdict struct {
	class    class
	cause    string // of unknown
	engine   float64
	suspect  bool
	findings []string
}

// loud is activity that is more than noise: a rival of the engine signal that shows so much
// contradicts it.
const loud = 0.05

// Limits of "useful work near zero" beside a high engine signal.
const (
	suspectEngine = 0.5
	nearZeroSM    = 0.1
	nearZeroPipe  = 0.01
	nearZeroDRAM  = 0.05
)

// classify reads one sample. Whatever speaks against idleness wins.
func classify(s *Sample, like Like, p Policy) verdict {
	power := s.PowerW
	if s.otherBusy {
		power = nan()
	}
	hot := known(power) && power > like.limit()
	threshold := 0.0
	if known(power) && like.FloorW > 0 && !hot {
		threshold = p.IdleThreshold
	}
	v := verdict{engine: s.Engine, findings: slices.Clone(s.Findings)}
	switch {
	case s.stale:
		return verdict{cause: CauseStale, engine: nan(), findings: v.findings}
	case !known(s.Engine) && !known(s.Utilization):
		return verdict{cause: CauseNoSignal, engine: nan(), findings: v.findings}
	case s.Engine == 0 && s.Utilization > loud && hot:
		v.engine = s.Utilization // profiling is rejected, its rival and the power agree
		v.note(FindingProfiling, s.XID)
	case s.Engine == 0 && s.Utilization > loud:
		v.note(FindingProfiling, s.XID)
		return v.unknown(CauseContradiction)
	case !known(s.Engine):
		v.engine = s.Utilization
	}
	if v.engine > threshold || s.Utilization > threshold {
		v.class = work
		v.suspect = v.engine >= suspectEngine && suspect(s, power, like)
		return v
	}
	switch {
	case hot:
		v.note(FindingPower, s.XID)
		return v.unknown(CauseContradiction)
	case s.SM > loud || s.Tensor > loud || s.DRAM > loud:
		v.note(FindingProfiling, s.XID)
		return v.unknown(CauseContradiction)
	case !s.Complete:
		return v.unknown(CauseIncomplete)
	}
	v.class = idle
	return v
}

func (v *verdict) note(finding string, xid int64) {
	v.findings = append(v.findings, finding)
	if xid > 0 {
		v.findings = append(v.findings, "xid_"+strconv.FormatInt(xid, 10))
	}
}

func (v verdict) unknown(cause string) verdict {
	v.class, v.cause = unknown, cause
	return v
}

// suspect reports a device that says busy while nothing useful happens: stalled or spinning,
// as a hung collective looks like.
func suspect(s *Sample, power float64, like Like) bool {
	if !known(s.SM) {
		return false
	}
	for _, m := range []struct{ value, nearZero float64 }{
		{s.SM, nearZeroSM}, {s.Tensor, nearZeroPipe}, {s.DRAM, nearZeroDRAM},
	} {
		if known(m.value) && m.value > m.nearZero {
			return false
		}
	}
	return known(power) && like.CeilingW > 0 && power < suspectShare*like.CeilingW
}

// resident reports whether a process holds memory on the device; known is false without a reading.
func (s *Sample) resident(p Policy) (held, isKnown bool) {
	const residentRatio = 0.005
	switch {
	case known(s.FBUsedMiB):
		return s.FBUsedMiB > p.ResidentMiB, true
	case known(s.FBUsedRatio):
		return s.FBUsedRatio > residentRatio, true
	}
	return false, false
}

// Words for the reading of a single scrape. One scrape never proves idleness: the idle ones
// are candidates.
const (
	ReadingBusy            = "busy"
	ReadingSuspect         = "busy_suspect"
	ReadingLow             = "low"
	ReadingAllocatedIdle   = "allocated_idle"
	ReadingIdleEmpty       = "idle_empty"
	ReadingUnallocatedIdle = "unallocated_idle"
	ReadingBusyUnowned     = "busy_unowned"
	ReadingUnknown         = "unknown"
)

// Readings says what one scrape shows of each of its devices, in their order. Its idle words
// need an engine signal of exactly 0.
func Readings(e event.GPUSamples, p Policy) []string {
	p.IdleThreshold = 0
	samples := make([]Sample, len(e.GPUs))
	likes := map[string]Like{}
	for i, g := range e.GPUs {
		samples[i] = fromEvent(e, g)
		likes[g.Model] = likes[g.Model].learn(samples[i])
	}
	markOtherBusy(samples, func(i int) string { return e.GPUs[i].UUID })
	out := make([]string, len(e.GPUs))
	for i := range samples {
		out[i] = reading(&samples[i], likes[e.GPUs[i].Model], p)
	}
	return out
}

func reading(s *Sample, like Like, p Policy) string {
	v := classify(s, like, p)
	owned := s.Owners != nil && s.Owners.Confidence != confidenceFailed
	switch {
	case v.class == unknown:
		return ReadingUnknown
	case v.class == idle && !owned:
		return ReadingUnallocatedIdle
	case v.class == idle:
		if held, isKnown := s.resident(p); isKnown && !held {
			return ReadingIdleEmpty
		}
		return ReadingAllocatedIdle
	case v.suspect:
		return ReadingSuspect
	case !owned:
		return ReadingBusyUnowned
	case v.engine < p.Efficiency:
		return ReadingLow
	}
	return ReadingBusy
}

// learn widens what is known of a model by one sample.
func (l Like) learn(s Sample) Like {
	if !known(s.PowerW) {
		return l
	}
	if s.work() == 0 && (known(s.Engine) || known(s.Utilization)) && s.PowerW > 0 && (l.FloorW == 0 || s.PowerW < l.FloorW) {
		l.FloorW = s.PowerW
	}
	l.CeilingW = max(l.CeilingW, s.PowerW)
	return l
}

// markOtherBusy notes for samples of one instant where another instance of the same card works.
func markOtherBusy(s []Sample, card func(int) string) {
	busy := map[string]int{}
	for i := range s {
		if s[i].work() > 0 {
			busy[card(i)]++
		}
	}
	for i := range s {
		n := busy[card(i)]
		if s[i].work() > 0 {
			n--
		}
		s[i].otherBusy = n > 0
	}
}
