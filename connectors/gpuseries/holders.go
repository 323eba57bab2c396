package gpuseries

import (
	"cmp"
	"maps"
	"slices"

	"github.com/idlewatt/idlewatt/schema/event"
)

// holders fills in who holds the device, and how its work divides where that is measured.
func (f *folder) holders(s *event.GPUSample, d *device) {
	byName := map[string]*event.Owner{}
	sets := slices.SortedFunc(maps.Keys(d.labels), func(a, b *labels) int {
		return cmp.Or(cmp.Compare(a.hpcJob, b.hpcJob), cmp.Compare(a.exPod+a.pod, b.exPod+b.pod),
			cmp.Compare(a.exContainer+a.container, b.exContainer+b.container), cmp.Compare(a.podUID, b.podUID))
	})
	jobs := false
	for _, l := range sets {
		o, ok := f.owners.of(l)
		if !ok {
			continue
		}
		jobs = jobs || o.Kind == kindSlurm
		key := o.Kind + "\x00" + o.Name()
		had := byName[key]
		if had == nil {
			byName[key] = &o
			continue
		}
		had.PodUID = cmp.Or(had.PodUID, o.PodUID)
		had.Container = cmp.Or(had.Container, o.Container)
		if len(had.Labels) < len(o.Labels) {
			had.Labels = o.Labels
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byName)) {
		if o := byName[key]; !jobs || o.Kind == kindSlurm {
			s.Owners = append(s.Owners, *o)
		}
	}
	f.divide(s, d)
}

// divide reads per-pod values. They are used only if they agree with the device: an exporter
// that cannot map processes to pods prints 0 for each.
func (f *folder) divide(s *event.GPUSample, d *device) {
	work, hasWork := f.shares(d, utilization)
	memory, hasMemory := f.shares(d, fbUsed)
	if !hasWork && !hasMemory {
		return
	}
	device := maxOf(s.Utilization, s.Engine)
	failed := hasWork && sum(work) == 0 && s.Utilization != nil && *s.Utilization > 0 ||
		hasMemory && sum(memory) == 0 && s.FBUsedMiB != nil && *s.FBUsedMiB > memoryOverhead && device > 0
	if failed {
		s.Findings = append(s.Findings, FindingAttributionFailed)
		for i := range s.Owners {
			s.Owners[i].Confidence = confidenceFailed
		}
		return
	}
	if hasWork && s.Utilization != nil && !agree(sum(work), *s.Utilization) {
		s.Findings = append(s.Findings, FindingSplitDisagrees)
		for i := range s.Owners {
			s.Owners[i].Confidence = confidenceLow
		}
		return
	}
	for i := range s.Owners {
		name := s.Owners[i].Name()
		if v, ok := work[name]; ok && hasWork && s.Utilization != nil {
			s.Owners[i].Engine = ptr(v)
		}
		if v, ok := memory[name]; ok && hasMemory {
			s.Owners[i].FBUsedMiB = ptr(v)
		}
	}
}

// shares sums one quantity per owner; ok only where the device's own value stands beside it.
func (f *folder) shares(d *device, q quantity) (byOwner map[string]float64, ok bool) {
	own, pods := d.perPod(q)
	if len(own) == 0 || len(pods) == 0 || d.conflict[q] {
		return nil, false
	}
	byOwner = map[string]float64{}
	for _, p := range pods {
		if o, stated := f.owners.of(p.labels); stated {
			byOwner[o.Name()] += p.value
		}
	}
	return byOwner, len(byOwner) > 0
}

func sum(m map[string]float64) float64 {
	total := 0.0
	for _, k := range slices.Sorted(maps.Keys(m)) {
		total += m[k]
	}
	return total
}

func agree(pods, device float64) bool {
	diff := pods - device
	if diff < 0 {
		diff = -diff
	}
	return diff <= splitSlack+splitShare*device
}

func maxOf(values ...*float64) float64 {
	best := 0.0
	for _, v := range values {
		if v != nil {
			best = max(best, *v)
		}
	}
	return best
}
