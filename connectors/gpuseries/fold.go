package gpuseries

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/idlewatt/idlewatt/schema/event"
)

// Findings about a device that a scrape shows by itself.
const (
	FindingAttributionFailed = "attribution_failed" // pods say 0, the device works
	FindingSplitDisagrees    = "split_disagrees"    // pods do not add up to the device
	FindingConflict          = "replicas_disagree"  // one fact, several values
)

// Tolerances between replicas of one device value, and between pods and their device.
const (
	ratioRounding  = 0.011
	memoryRounding = 0.01
	memoryOverhead = 64 // MiB that a device holds with nobody on it
	splitSlack     = 0.05
	splitShare     = 0.1
)

type deviceKey struct{ uuid, instance string }

// seen is one believed value and the labels it stood under.
type seen struct {
	labels *labels
	value  float64
}

// device gathers what the lines of one device or MIG instance say.
type device struct {
	seen     [quantities][]seen
	conflict [quantities]bool
	raw      *float64 // engine as printed, where clamped
	labels   map[*labels]bool
}

// folder folds the lines of one host at one time into devices.
type folder struct {
	signs      *signs
	owners     owners
	doubtful   bool // lines are missing from this body
	devices    map[deviceKey]*device
	rejected   map[string]int
	clamped    int
	duplicates int
}

func (f *folder) add(r record) {
	k := deviceKey{r.labels.uuid, r.labels.instance}
	d := f.devices[k]
	if d == nil {
		d = &device{labels: map[*labels]bool{}}
		f.devices[k] = d
	}
	if r.field.quantity == other {
		d.labels[r.labels] = true
		return
	}
	d.labels[r.labels] = true
	v, clamped, why := canonical(r.value, f.signs.unit(r.field, r.value))
	if why != "" {
		f.rejected[why]++
		return
	}
	if clamped {
		f.clamped++
		if r.field.quantity == engine {
			d.raw = ptr(r.value)
		}
	}
	q := r.field.quantity
	for _, s := range d.seen[q] {
		if s.labels != r.labels {
			continue
		}
		if s.value == v {
			f.duplicates++
			return
		}
		d.conflict[q] = true
		return
	}
	d.seen[q] = append(d.seen[q], seen{r.labels, v})
}

// finish returns the devices in a fixed order. Under MIG the card itself is no device: its
// power and energy are stated on each of its instances.
func (f *folder) finish() []event.GPUSample {
	keys := slices.SortedFunc(maps.Keys(f.devices), func(a, b deviceKey) int {
		return cmp.Or(cmp.Compare(a.uuid, b.uuid), cmp.Compare(a.instance, b.instance))
	})
	cards := map[string][]deviceKey{}
	mig := map[string]bool{}
	for _, k := range keys {
		cards[k.uuid] = append(cards[k.uuid], k)
		mig[k.uuid] = mig[k.uuid] || k.instance != ""
	}
	var out []event.GPUSample
	for _, k := range keys {
		if mig[k.uuid] && k.instance == "" {
			continue
		}
		s := f.sample(k)
		if mig[k.uuid] {
			s.Utilization = nil // not measured there; older exporters print 0
			s.PowerW = f.highest(cards[k.uuid], power)
			s.EnergyJ = f.highest(cards[k.uuid], energy)
		}
		out = append(out, s)
	}
	return out
}

func (f *folder) highest(keys []deviceKey, q quantity) *float64 {
	var best *float64
	for _, k := range keys {
		for _, s := range f.devices[k].seen[q] {
			if best == nil || s.value > *best {
				best = ptr(s.value)
			}
		}
	}
	return best
}

func (f *folder) sample(k deviceKey) event.GPUSample {
	d := f.devices[k]
	s := event.GPUSample{UUID: k.uuid, Instance: k.instance}
	for l := range d.labels {
		s.Profile = max(s.Profile, l.profile)
		s.Model = max(s.Model, l.model)
		s.Node = max(s.Node, l.host)
	}
	take := func(q quantity) *float64 {
		v, ok := f.value(d, q)
		if !ok && (len(d.seen[q]) > 0 || d.conflict[q]) {
			f.rejected[reasonConflict]++
			if !slices.Contains(s.Findings, FindingConflict) {
				s.Findings = append(s.Findings, FindingConflict)
			}
		}
		return v
	}
	s.Utilization, s.Engine, s.SM, s.Tensor, s.DRAM = take(utilization), take(engine), take(sm), take(tensor), take(dram)
	s.PowerW, s.EnergyJ = take(power), take(energy)
	if s.Engine != nil && *s.Engine == 1 {
		s.EngineRaw = d.raw
	}
	f.memory(&s, take)
	if v := take(xid); v != nil && *v > 0 { // 0 says that there was none
		s.XID = ptr(int64(*v))
	}
	f.holders(&s, d)
	return s
}

// memory fills in the framebuffer; what is used cannot be more than there is.
func (f *folder) memory(s *event.GPUSample, take func(quantity) *float64) {
	s.FBUsedMiB, s.FBTotalMiB, s.FBUsedRatio = take(fbUsed), take(fbTotal), take(fbRatio)
	free, reserved := take(fbFree), take(fbReserved)
	if s.FBTotalMiB == nil && s.FBUsedMiB != nil && free != nil {
		total := *s.FBUsedMiB + *free
		if reserved != nil {
			total += *reserved
		}
		s.FBTotalMiB = &total
	}
	if s.FBTotalMiB != nil && *s.FBTotalMiB <= 0 {
		s.FBTotalMiB = nil
	}
	if s.FBUsedMiB != nil && s.FBTotalMiB != nil && *s.FBUsedMiB > *s.FBTotalMiB {
		s.FBUsedMiB = nil
		f.rejected[reasonBounds]++
	}
	if s.FBUsedMiB == nil && s.FBUsedRatio != nil && s.FBTotalMiB != nil {
		s.FBUsedMiB = ptr(*s.FBUsedRatio * *s.FBTotalMiB)
	}
	if s.FBUsedMiB != nil {
		s.FBUsedRatio = nil
	}
}

// value is the device's own reading, counted once however often it is repeated.
func (f *folder) value(d *device, q quantity) (v *float64, ok bool) {
	if d.conflict[q] {
		return nil, false
	}
	own, pods := d.perPod(q)
	if len(own) == 0 {
		own = pods
		// Repeated per pod and all zero: the device's own line may be one of those that are lost.
		if q == utilization && len(pods) > 0 && f.doubtful && !anyAbove(pods, 0) {
			return nil, true
		}
	}
	if len(own) == 0 {
		return nil, true
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, s := range own {
		lo, hi = min(lo, s.value), max(hi, s.value)
	}
	switch q {
	case power, energy, xid: // read one after the other, so slightly different
	case fbUsed, fbFree, fbReserved, fbTotal:
		if hi-lo > 1+memoryRounding*hi {
			return nil, false
		}
	default:
		if hi-lo > ratioRounding {
			return nil, false
		}
	}
	return ptr(hi), true
}

// perPod divides what was seen into the device's own values and those measured per pod,
// which only GPU_UTIL and FB_USED have, and only beside a value of the device.
func (d *device) perPod(q quantity) (own, pods []seen) {
	for _, s := range d.seen[q] {
		if s.labels.vgpu != "" && (q == utilization || q == fbUsed) {
			pods = append(pods, s)
		} else {
			own = append(own, s)
		}
	}
	return own, pods
}

func anyAbove(values []seen, limit float64) bool {
	return slices.ContainsFunc(values, func(s seen) bool { return s.value > limit })
}

func ptr[T any](v T) *T { return &v }
