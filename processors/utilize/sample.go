package utilize

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Sample is one reading of one device, ready for the verdict. Readings that are not known
// are NaN.
type Sample struct {
	At       int64 // milliseconds since 1970
	Interval int64 // expected milliseconds to the next sample of its target; 0 if not known
	Complete bool  // false: the scrape was cut, idleness does not follow from it

	Utilization, Engine, SM, Tensor, DRAM float64
	PowerW, EnergyJ                       float64
	FBUsedMiB, FBUsedRatio                float64
	XID                                   int64

	Node, Model, Profile string
	Owners               *Owners   // nil: the scrape states no owner
	OwnerEngines         []float64 // per owner, where measured; nil if not
	Findings             []string
	Event                string

	stale     bool
	otherBusy bool // another instance of the same card works: its power is theirs too
}

// Owners is who holds a device according to the scrape.
type Owners struct {
	Kind       string // pod or slurm
	Names      []string
	Labels     map[string]string
	Confidence string
}

// UnknownSample is a sample at a time with nothing known.
func UnknownSample(at time.Time) Sample {
	nan := math.NaN()
	return Sample{
		At: at.UnixMilli(), Complete: true, Utilization: nan, Engine: nan, SM: nan, Tensor: nan, DRAM: nan,
		PowerW: nan, EnergyJ: nan, FBUsedMiB: nan, FBUsedRatio: nan,
	}
}

func known(v float64) bool { return !math.IsNaN(v) }

// orZero is v, or 0 if it is not known.
func orZero(v float64) float64 {
	if known(v) {
		return v
	}
	return 0
}

// prepare brings one device's samples into the form that everything else relies on: in time
// order, one per instant, each with its interval, frozen ones marked, owner labels without
// drop-outs. It does not depend on the order in which they came.
func prepare(in []Sample, p Policy) []Sample {
	s := slices.Clone(in)
	slices.SortFunc(s, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.At, b.At), -cmp.Compare(a.work(), b.work()), cmp.Compare(a.Event, b.Event))
	})
	// Two readings of one instant: what shows more work stands.
	s = slices.CompactFunc(s, func(a, b Sample) bool { return a.At == b.At })
	typical := typicalInterval(s, p)
	for i := range s {
		if s[i].Interval <= 0 {
			s[i].Interval = typical
		}
		s[i].Interval = min(s[i].Interval, p.MaxInterval.Milliseconds())
	}
	markStale(s, p)
	bridgeOwners(s)
	return s
}

func (s Sample) work() float64 { return max(orZero(s.Engine), orZero(s.Utilization)) }

// typicalInterval is the median step between samples.
func typicalInterval(s []Sample, p Policy) int64 {
	if len(s) < 2 {
		return p.DefaultInterval.Milliseconds()
	}
	steps := make([]int64, 0, len(s)-1)
	for i := 1; i < len(s); i++ {
		steps = append(steps, s[i].At-s[i-1].At)
	}
	slices.Sort(steps)
	return max(1, steps[(len(steps)-1)/2])
}

// Frozen values without an energy counter: so many readings, over this long, with the same
// fractional watts.
const (
	frozenSamples = 30
	frozenAfter   = 15 * time.Minute
)

// markStale marks samples of stretches in which the device's values stand still. A powered
// GPU draws tens of watts, so a flat energy counter means frozen values, not idleness.
func markStale(s []Sample, p Policy) {
	runs(s, func(a, b Sample) bool { return a.EnergyJ == b.EnergyJ }, func(run []Sample) {
		if run[len(run)-1].At-run[0].At < p.StaleAfter.Milliseconds() || run[0].PowerW == 0 {
			return
		}
		for i := range run {
			run[i].stale = true
		}
	})
	frozen := func(a, b Sample) bool {
		return !known(a.EnergyJ) && !known(b.EnergyJ) && a.PowerW == b.PowerW && a.PowerW != math.Trunc(a.PowerW) &&
			a.work() == b.work()
	}
	runs(s, frozen, func(run []Sample) {
		if len(run) < frozenSamples || run[len(run)-1].At-run[0].At < frozenAfter.Milliseconds() {
			return
		}
		for i := range run {
			run[i].stale = true
		}
	})
}

// runs calls f with every stretch of two or more neighbours that are alike.
func runs(s []Sample, alike func(a, b Sample) bool, f func([]Sample)) {
	for start := 0; start < len(s); {
		end := start + 1
		for end < len(s) && alike(s[end-1], s[end]) {
			end++
		}
		if end-start > 1 {
			f(s[start:end])
		}
		start = end
	}
}

// Drop-outs of owner labels that are bridged: the exporter prints series without pod labels
// when it cannot reach the kubelet.
const (
	bridgeSamples = 3
	bridgeTime    = 5 * time.Minute
)

// bridgeOwners gives a short stretch without owner between two stretches of one owner to
// that owner, with low confidence. Only who holds the device is bridged, never what it did.
func bridgeOwners(s []Sample) {
	for i := 1; i < len(s); i++ {
		if s[i].Owners != nil || s[i-1].Owners == nil {
			continue
		}
		end := i
		for end < len(s) && s[end].Owners == nil {
			end++
		}
		if end < len(s) && end-i <= bridgeSamples && s[end].At-s[i-1].At <= bridgeTime.Milliseconds() &&
			sameOwners(s[i-1].Owners, s[end].Owners) {
			held := *s[i-1].Owners
			held.Confidence = confidenceLow
			for j := i; j < end; j++ {
				s[j].Owners = &held
			}
		}
		i = end
	}
}

func sameOwners(a, b *Owners) bool {
	return a == b || a != nil && b != nil && a.Kind == b.Kind && slices.Equal(a.Names, b.Names)
}
