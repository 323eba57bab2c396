package utilize

import (
	"math"

	"github.com/idlewatt/idlewatt/schema/event"
)

func nan() float64 { return math.NaN() }

func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// fromEvent is one reading as the verdict wants it.
func fromEvent(e event.GPUSamples, g event.GPUSample) Sample {
	s := Sample{
		At: e.At.UnixMilli(), Complete: e.Complete, Utilization: value(g.Utilization), Engine: value(g.Engine),
		SM: value(g.SM), Tensor: value(g.Tensor), DRAM: value(g.DRAM), PowerW: value(g.PowerW),
		EnergyJ: value(g.EnergyJ), FBUsedMiB: value(g.FBUsedMiB), FBUsedRatio: value(g.FBUsedRatio),
		Node: e.Node, Model: g.Model, Profile: g.Profile, Findings: g.Findings,
	}
	if g.XID != nil {
		s.XID = *g.XID
	}
	s.Owners, s.OwnerEngines = ownersOf(g)
	return s
}

// ownersOf folds the owners of a device. Labels of a shared device count where all agree.
func ownersOf(g event.GPUSample) (*Owners, []float64) {
	if len(g.Owners) == 0 {
		return nil, nil
	}
	o := &Owners{Kind: g.Owners[0].Kind, Confidence: confidenceHigh, Labels: map[string]string{}}
	engines, measured := make([]float64, len(g.Owners)), false
	for i, w := range g.Owners {
		o.Names = append(o.Names, w.Name())
		o.Confidence = lower(o.Confidence, w.Confidence)
		engines[i] = value(w.Engine)
		measured = measured || w.Engine != nil
		for k, v := range w.Labels {
			if i == 0 {
				o.Labels[k] = v
			}
		}
		for k, v := range o.Labels {
			if w.Labels[k] != v {
				delete(o.Labels, k)
			}
		}
	}
	if !measured {
		engines = nil
	}
	return o, engines
}

// lower is the lesser of two confidences.
func lower(a, b string) string {
	rank := map[string]int{confidenceFailed: 0, confidenceLow: 1, confidenceHigh: 2, "": 2}
	if rank[b] < rank[a] {
		return b
	}
	return a
}
