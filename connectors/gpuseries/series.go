package gpuseries

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/idlewatt/idlewatt/schema/event"
)

// Label is a label as Prometheus keeps it, its name among them as __name__.
type Label struct{ Name, Value string }

// Series is one time series of a device. It is made once and its samples point to it.
type Series struct {
	Name   string
	ID     uint64 // hash of name and labels, the same in every process
	labels *labels
	why    string // why its labels are not believed; empty if they are
}

// UUID is the device, empty if the labels name none.
func (s *Series) UUID() string { return s.labels.uuid }

// Lane names what one Prometheus scrapes of one target under one job: scrapes of one lane
// follow each other and have the same series until something changes.
func (s *Series) Lane() string {
	return hostKey(s.labels) + "\x00" + s.labels.job + "\x00" + s.labels.origin
}

// Target is the scraped endpoint, empty if the labels name none.
func (s *Series) Target() string { return s.labels.endpoint }

// Host is the host that the labels name, by a node label or the exporter's own.
func (s *Series) Host() string { return cmp.Or(s.labels.node, s.labels.host) }

// Sample is one reading of a series.
type Sample struct {
	Series *Series
	At     int64 // milliseconds since 1970
	Value  float64
}

// Reader makes series out of label sets, which it shares between metrics of one device.
type Reader struct {
	allow  map[string]bool
	nodes  []string
	shared map[string]*labels
}

// NewReader returns a reader that keeps the given pod labels (nil: DefaultLabels) and takes
// the host's name from the first of the node labels that a series has.
func NewReader(keep, nodeLabels []string) *Reader {
	if keep == nil {
		keep = DefaultLabels()
	}
	r := &Reader{allow: map[string]bool{}, nodes: nodeLabels, shared: map[string]*labels{}}
	for _, k := range keep {
		r.allow[k] = true
	}
	return r
}

// maxShared bounds the remembered label sets; pods come and go.
const maxShared = 200_000

// Series reads one label set. It keeps no reference to the slice.
func (r *Reader) Series(set []Label) *Series {
	pairs := make([]pair, 0, len(set))
	s := &Series{}
	for _, l := range set {
		switch {
		case l.Name == "__name__":
			s.Name = strings.Clone(l.Value)
		case l.Value != "": // an empty label is an absent label
			pairs = append(pairs, pair{strings.Clone(l.Name), strings.Clone(l.Value)})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	var key strings.Builder
	for _, p := range pairs {
		key.WriteString(p.name)
		key.WriteByte(0)
		key.WriteString(p.value)
		key.WriteByte(0)
	}
	s.ID = hash(s.Name + "\x00" + key.String())
	l, err := r.share(key.String(), pairs)
	if err != nil {
		s.why = reasonBadLine
		if errors.Is(err, errHostile) {
			s.why = reasonHostile
		}
	}
	s.labels = l
	return s
}

func (r *Reader) share(key string, pairs []pair) (*labels, error) {
	if l, ok := r.shared[key]; ok {
		return l, nil
	}
	l := &labels{}
	if len(pairs) > maxLabels {
		return l, errSyntax
	}
	for i, p := range pairs {
		if i > 0 && pairs[i-1].name == p.name {
			return l, errSyntax
		}
		if err := l.set(p, r.allow); err != nil {
			return l, err
		}
	}
	for _, name := range slices.Backward(r.nodes) {
		i, ok := slices.BinarySearchFunc(pairs, name, func(p pair, name string) int { return cmp.Compare(p.name, name) })
		if ok && printable(pairs[i].value) {
			l.node = pairs[i].value
		}
	}
	if len(r.shared) >= maxShared {
		clear(r.shared)
	}
	r.shared[key] = l
	return l, nil
}

// Memory is what earlier scrapes showed and one scrape alone may not: which jobs rename the
// workload's labels, and that a utilisation counts in percent.
type Memory struct {
	renames map[string]bool
	signs   map[string]signs
}

// NewMemory returns a memory that knows of those jobs.
func NewMemory(renaming []string) *Memory {
	m := &Memory{renames: map[string]bool{}, signs: map[string]signs{}}
	for _, j := range renaming {
		m.renames[j] = true
	}
	return m
}

// Renaming lists the jobs whose series carry exported_ labels, sorted.
func (m *Memory) Renaming() []string {
	out := make([]string, 0, len(m.renames))
	for j := range m.renames {
		out = append(out, j)
	}
	slices.Sort(out)
	return out
}

// maxHosts bounds a memory.
const maxHosts = 100_000

// meet lets a body and the memory learn from each other. Only what is true of a whole target
// is kept: the exporter's generation is read from each scrape anew.
func (m *Memory) meet(b *body) {
	if len(m.signs) > maxHosts || len(m.renames) > maxHosts {
		clear(m.signs)
		clear(m.renames)
	}
	for j := range b.owners.renames {
		m.renames[j] = true
	}
	for j := range m.renames {
		b.owners.renames[j] = true
	}
	for host, g := range b.gen {
		old, was := m.signs[host]
		g.aboveOne = g.aboveOne || old.aboveOne
		g.classicAboveOne = g.classicAboveOne || old.classicAboveOne
		g.classicFraction = g.classicFraction || old.classicFraction
		now := signs{aboveOne: g.aboveOne, classicAboveOne: g.classicAboveOne, classicFraction: g.classicFraction}
		if !was || now != old {
			m.signs[host] = now
		}
	}
}

// Fold states what samples say, one event per host and time. Samples that a text would have
// as equal lines are told as they are: equal ones collapse, others are a conflict.
func Fold(samples []Sample, o Options, m *Memory) []event.GPUSamples {
	b := newBody(!o.Cut)
	for _, s := range samples {
		b.lines++
		if s.Series.why != "" {
			b.families[s.Series.Name] = true
			b.rejected[s.Series.why]++
			continue
		}
		b.take(series{name: s.Series.Name, labels: s.Series.labels, value: s.Value, stamp: s.At})
	}
	if m != nil {
		m.meet(b)
	}
	return b.events(o)
}

// hash is FNV-1a: the same everywhere, for it is kept.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
