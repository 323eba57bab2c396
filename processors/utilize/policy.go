package utilize

import (
	"errors"
	"fmt"
	"time"
)

// Policy holds the thresholds of the verdict. A changed policy changes the fingerprint of
// every derived day.
type Policy struct {
	// IdleWindow is how long a device must be without work before that counts as idle.
	IdleWindow time.Duration `yaml:"idle_window"`
	// MinCoverage is the share of expected samples that an idle stretch needs.
	MinCoverage float64 `yaml:"min_coverage"`
	// IdleThreshold is the highest engine activity that may still be idle, where power near
	// the idle floor confirms it. Without that only exactly 0 may. The default is below the
	// smallest step of GPU_UTIL: a service with little traffic is not idle.
	IdleThreshold float64 `yaml:"idle_threshold"`
	// Efficiency is the mean engine activity below which busy time gets the finding "low".
	Efficiency float64 `yaml:"efficiency"`
	// DefaultInterval is the time a sample stands for where scrapes are too few to tell;
	// MaxInterval is the longest time any sample stands for.
	DefaultInterval time.Duration `yaml:"default_interval"`
	MaxInterval     time.Duration `yaml:"max_interval"`
	// StaleAfter is how long an energy counter may stand still before its device's values
	// count as frozen.
	StaleAfter time.Duration `yaml:"stale_after"`
	// ResidentMiB is the framebuffer use above which a context is held.
	ResidentMiB float64 `yaml:"resident_mib"`
	// MaxSkew is the largest believed difference between a sample's own time and the time it
	// was received.
	MaxSkew time.Duration `yaml:"max_skew"`
	// ProjectLabels, TeamLabels and EnvironmentLabels are pod labels that name the payer,
	// the first present one counts. A job record comes before them.
	ProjectLabels     []string `yaml:"project_labels"`
	TeamLabels        []string `yaml:"team_labels"`
	EnvironmentLabels []string `yaml:"environment_labels"`
}

// DefaultPolicy returns the documented defaults.
func DefaultPolicy() Policy {
	return Policy{
		IdleWindow: 15 * time.Minute, MinCoverage: 0.9, IdleThreshold: 0.005, Efficiency: 0.25,
		DefaultInterval: time.Minute, MaxInterval: 10 * time.Minute, StaleAfter: 5 * time.Minute,
		ResidentMiB: 100, MaxSkew: 5 * time.Minute,
		ProjectLabels: []string{"project"}, TeamLabels: []string{"team"},
		EnvironmentLabels: []string{"environment", "env"},
	}
}

// margin is how far beyond a day its derivation looks on both sides: more than an idle
// window, so that a stretch across midnight gets one verdict.
const margin = time.Hour

// Validate reports everything that is wrong.
func (p Policy) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(p.IdleWindow > 0 && p.IdleWindow < margin, "idle_window: %v is not between 0 and %v", p.IdleWindow, margin)
	bad(p.MinCoverage > 0 && p.MinCoverage <= 1, "min_coverage: %v is not between 0 and 1", p.MinCoverage)
	bad(p.IdleThreshold >= 0 && p.IdleThreshold < 0.5, "idle_threshold: %v is not between 0 and 0.5", p.IdleThreshold)
	bad(p.Efficiency >= 0 && p.Efficiency <= 1, "efficiency: %v is not between 0 and 1", p.Efficiency)
	bad(p.DefaultInterval > 0 && p.DefaultInterval <= p.MaxInterval, "default_interval: %v is not between 0 and max_interval", p.DefaultInterval)
	bad(p.MaxInterval <= p.IdleWindow, "max_interval: %v is longer than idle_window", p.MaxInterval)
	bad(p.StaleAfter > 0, "stale_after: must be positive")
	bad(p.ResidentMiB >= 0, "resident_mib: must not be negative")
	bad(p.MaxSkew > 0, "max_skew: must be positive")
	return errors.Join(errs...)
}

// Like is what the fleet shows of a GPU model: the idle floor is the fleet's own minimum.
type Like struct {
	FloorW   float64 // lowest power without work; 0 if unknown
	CeilingW float64 // highest power; 0 if unknown
}

// Bounds of the power veto.
const (
	absoluteIdleW  = 150 // used where the model's floor is unknown
	maxFloorW      = 120 // a fleet that never idles must not teach a high floor
	minMarginW     = 40
	leastMarginW   = 15
	shareOfRange   = 0.35
	suspectShare   = 0.4
	usefulRangeMin = 1.5
)

// limit is the power above which a device is not idle: its model's floor and a margin, which
// for small cards is a share of their whole range.
func (l Like) limit() float64 {
	if l.FloorW <= 0 {
		return absoluteIdleW
	}
	floor := min(l.FloorW, maxFloorW)
	m := max(minMarginW, floor)
	if l.CeilingW > usefulRangeMin*floor {
		m = max(leastMarginW, min(m, shareOfRange*(l.CeilingW-floor)))
	}
	return floor + m
}
