package gpuseries

import (
	"math"
	"strings"
)

// signs are what one host's text shows about its exporter's generation, gathered before any
// value is converted: one name, DCGM_FI_DEV_GPU_UTIL_RATIO, has two units.
type signs struct {
	gen                generation
	bytesNames         bool // 4.7 companions: *_FB_*_BYTES
	newDriver          bool
	oldDriver          bool
	aboveOne           bool // a utilisation above 1
	point              bool // a DEV_GPU_UTIL_RATIO printed with a decimal point
	behind             bool // read through Prometheus, which reprints numbers
	classicOne         bool // a classic GPU_UTIL of exactly 1
	classicFraction    bool // a classic GPU_UTIL that is no integer
	classicAboveOne    bool
	classicUtilization bool
}

// sign notes what one line shows.
func (b *body) sign(s series, f field) {
	v, key := s.value, hostKey(s.labels)
	g := b.gen[key]
	if g == nil {
		g = &signs{}
		b.gen[key] = g
	}
	g.gen = max(g.gen, f.gen)
	g.newDriver = g.newDriver || s.labels.newDriver
	g.oldDriver = g.oldDriver || s.labels.oldDriver
	g.bytesNames = g.bytesNames || f.unit == bytes
	g.behind = g.behind || s.stamp != 0 || s.labels.endpoint != ""
	if f.quantity != utilization || math.IsNaN(v) || sentinel(v, percent) || v > percentScale {
		return
	}
	if f.unit == unclear {
		g.aboveOne = g.aboveOne || v > 1
		g.point = g.point || strings.ContainsAny(s.text, ".eE")
		return
	}
	g.classicUtilization = true
	g.classicAboveOne = g.classicAboveOne || v > 1
	g.classicOne = g.classicOne || v == 1
	g.classicFraction = g.classicFraction || v != math.Trunc(v)
}

func (g *signs) generation() generation {
	if g.newDriver || g.bytesNames {
		return genSeven
	}
	return g.gen
}

// unit decides what a line's number means. Nothing fits: the unit is unknown, and so is the value.
func (g *signs) unit(f field, v float64) unit {
	switch {
	case f.unit == unclear && (g.bytesNames || g.newDriver):
		return ratio
	case f.unit == unclear && (g.oldDriver || g.aboveOne):
		return percent
	case f.unit == unclear && g.behind:
		return unclear
	case f.unit == unclear && g.point:
		return ratio
	case f.unit == unclear:
		return percent
	case f.quantity == utilization && v != 0 && g.behind && g.rewritten():
		return unclear
	}
	return f.unit
}

// rewritten reports whether something between the exporter and us may have turned the
// classic percentage into a ratio: it never exceeds 1 there. Zero is zero either way.
func (g *signs) rewritten() bool {
	return g.classicUtilization && !g.classicAboveOne && (g.classicOne || g.classicFraction)
}
