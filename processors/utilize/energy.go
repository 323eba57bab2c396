package utilize

import (
	"math"
	"time"
)

// Reasons for which an energy delta is not known.
const (
	DeltaNoReading = "no_reading" // one of the two has no energy
	DeltaReset     = "reset"      // the counter went down: the later value is the new baseline
	DeltaNoTime    = "no_time"    // the later sample is not later
	DeltaTooLarge  = "too_large"  // more than the card can draw
)

// maxWatts is more than any card draws.
const maxWatts = 5000

// EnergyDelta is the energy in joules that one device drew between two readings. It is NaN
// where it is not known, and why says the reason. A counter that went down was reset: that
// is never a wrap around, and what was drawn meanwhile is not known.
func EnergyDelta(earlier, later float64, dt time.Duration, limitW float64) (joules float64, why string) {
	if limitW <= 0 {
		limitW = maxWatts
	}
	switch {
	case !known(earlier) || !known(later):
		return math.NaN(), DeltaNoReading
	case dt <= 0:
		return math.NaN(), DeltaNoTime
	case later < earlier:
		return math.NaN(), DeltaReset
	case later-earlier > limitW*dt.Seconds():
		return math.NaN(), DeltaTooLarge
	}
	return later - earlier, ""
}
