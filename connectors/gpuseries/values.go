package gpuseries

import (
	"math"
	"strconv"
)

// Reasons for which a value or a line is not believed; keys of event.GPUSamples.Rejected.
const (
	reasonBadLine     = "bad_line"
	reasonHostile     = "hostile_label"
	reasonUnknownName = "unknown_name"
	reasonNoUUID      = "no_uuid"
	reasonSentinel    = "sentinel"
	reasonBounds      = "out_of_bounds"
	reasonNaN         = "not_a_number"
	reasonUnit        = "unit_unknown"
	reasonConflict    = "conflict"
)

// Bounds. Out of bounds is unknown, never clipped; only a small overshoot of a profiling
// ratio is clamped, and counted.
const (
	profilingOvershoot = 1.05
	maxWatts           = 5000
	maxJoules          = 1e12
	maxMiB             = 2e6
	maxXID             = 1e6
)

// DCGM's blanks: not a number but "no data", of three widths. After conversion to float64
// the four 64-bit ones are all 2^63.
const (
	blank32      = 2147483632.0
	blank64      = 1 << 62
	blankFP64    = 140737488355328.0
	blanks       = 3
	percentScale = 100
)

func sentinel(v float64, u unit) bool {
	switch {
	case v >= blank64:
		return true
	case v >= blankFP64 && v <= blankFP64+blanks, // also multiplied by 100 by a converter
		v >= blankFP64*percentScale*(1-1e-9) && v <= (blankFP64+blanks)*percentScale*(1+1e-9):
		return true
	case u == millijoules || u == joules:
		return false // a counter passes through every number
	}
	return v >= blank32 && v <= blank32+blanks
}

// parseValue reads a printed number.
func parseValue(text string) (float64, bool) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(v, 0) {
		return 0, false
	}
	return v, true
}

// canonical turns a printed number into canonical units: ratios 0..1, watts, joules, MiB.
// why is empty if the value is believed.
func canonical(v float64, u unit) (out float64, clamped bool, why string) {
	switch {
	case math.IsNaN(v):
		return 0, false, reasonNaN
	case sentinel(v, u):
		return 0, false, reasonSentinel
	case u == profiling && v > 1 && v <= profilingOvershoot:
		return 1, true, ""
	}
	limit := 0.0
	switch u {
	case percent:
		v, limit = v/percentScale, 1
	case ratio, profiling:
		limit = 1
	case watts:
		limit = maxWatts
	case millijoules:
		v, limit = v/1000, maxJoules
	case joules:
		limit = maxJoules
	case bytes:
		v, limit = v/(1<<20), maxMiB
	case mebibytes:
		limit = maxMiB
	case number:
		limit = maxXID
	default:
		return 0, false, reasonUnit
	}
	if v < 0 || v > limit {
		return 0, false, reasonBounds
	}
	return v, false, ""
}
