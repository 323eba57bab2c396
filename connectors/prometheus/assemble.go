package prometheus

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/idlewatt/idlewatt/connectors/gpuseries"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Assembler puts scrapes together that remote write tore apart: Prometheus spreads the series
// of one scrape over its queues, and each sends when it likes. A scrape is stated as complete
// only when it has every series that its target had before, so that no idleness comes of one
// that is still under way. What comes later is stated again, with what came first.
//
// It belongs to one goroutine and takes its clock from its callers. Everything that it holds
// can be had again from the messages that it has not released: see Lowest and Checkpoint.
type Assembler struct {
	o      Assembly
	reader *gpuseries.Reader
	memory *gpuseries.Memory
	series map[string]*member // by the bytes of their labels
	lanes  map[string]*lane
	work   map[*lane]bool // lanes with open scrapes
	held   map[uint64]int // messages by how many open scrapes need them
	read   uint64         // the last message
	inOpen int            // samples in open scrapes
	saved  saved          // by the process before
	out    Assembled
}

// Assembly is how an Assembler works.
type Assembly struct {
	Source     string
	Labels     []string // pod labels to keep; nil: the default ones
	NodeLabels []string // labels that name the host, the first that is there counts
	// Quiet is how long nothing of a scrape must have come before it is stated though it is
	// not whole; Keep for how long after that what is missing is waited for.
	Quiet, Keep time.Duration
	// Watch is how long a card whose series are new or changed is watched before a scrape of it
	// is held to be whole. Queues of one Prometheus must never be that far apart: one that
	// stands still soon stops them all.
	Watch time.Duration
}

// DefaultAssembly waits twice as long as Prometheus lets a queue wait to fill a request.
func DefaultAssembly() Assembly {
	return Assembly{Source: "remote-write", Quiet: 10 * time.Second, Keep: 5 * time.Minute, Watch: time.Minute}
}

// Assembled is what came of the messages so far.
type Assembled struct {
	// Events are gpu.samples to publish, in order.
	Events []event.Event
	// Late are parts of scrapes that were done before: they would replace what is better.
	Late []event.Event
	// Scrapes and Incomplete count what was stated, Samples what it was made of.
	Scrapes, Incomplete, Samples int

	err error
}

// sample is one reading of a series of a lane.
type sample struct {
	*member
	at    int64 // milliseconds since 1970
	value float64
}

func (s sample) ended() bool { return point{value: s.value}.stale() }

func (s sample) reading() gpuseries.Sample {
	return gpuseries.Sample{Series: s.Series, At: s.at, Value: s.value}
}

// same is equality under which a NaN equals itself.
func same(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// NewAssembler returns an assembler that goes on from a checkpoint; nil begins anew.
func NewAssembler(o Assembly, checkpoint []byte) (*Assembler, error) {
	a := &Assembler{
		o: o, reader: gpuseries.NewReader(o.Labels, o.NodeLabels), series: map[string]*member{},
		lanes: map[string]*lane{}, work: map[*lane]bool{}, held: map[uint64]int{},
	}
	if err := a.saved.read(checkpoint); err != nil {
		return nil, err
	}
	a.read = a.saved.Read
	a.memory = gpuseries.NewMemory(a.saved.Renaming)
	return a, nil
}

// maxKnown bounds the remembered series: pods come and go, and each brings new ones.
const maxKnown = 1_000_000

// Add takes one part (see Written.Parts), stored on the bus under this number. Numbers grow.
func (a *Assembler) Add(number uint64, part []byte, now time.Time) error {
	a.read = max(a.read, number)
	if len(a.series) > maxKnown {
		clear(a.series)
	}
	return readPart(part, func(ts *wireSeries) error {
		m := a.series[string(ts.labels)]
		if m == nil || m.lane.forgotten {
			s, err := seriesOf(a.reader, ts.labels)
			if err != nil {
				return err
			}
			m = a.lane(s).member(s)
			a.series[string(ts.labels)] = m
		}
		for _, p := range ts.points {
			a.take(number, sample{member: m, at: p.at, value: p.value}, now)
		}
		return nil
	})
}

func (a *Assembler) lane(s *gpuseries.Series) *lane {
	key := s.Lane()
	l := a.lanes[key]
	if l == nil {
		l = newLane(key, cmp.Or(s.Target(), a.o.Source+"/"+s.Host()), a.o.Watch)
		a.lanes[key] = l
		a.saved.restore(l)
	}
	return l
}

func (a *Assembler) take(number uint64, s sample, now time.Time) {
	l := s.lane
	g := l.open[s.at]
	if g == nil || g.late {
		r, done := l.doneAt[s.at]
		done = done || s.at <= l.saved
		if done && r == nil && number <= a.saved.Read && !l.again[s.at] { // the process before did it
			return
		}
		if _, had := r[s.ID]; had {
			return
		}
		if g == nil {
			g = &group{lane: l, at: s.at, late: done, have: map[uint64]int{}, messages: map[uint64]bool{}}
			l.open[s.at] = g
			a.work[l] = true
		}
	}
	l.note(s)
	before := len(g.samples)
	if !g.take(s) {
		return
	}
	a.inOpen += len(g.samples) - before
	g.last, g.changed = now.UnixMilli(), true
	if !g.messages[number] {
		g.messages[number] = true
		a.held[number]++
	}
	if !g.late && g.whole() {
		a.state(g, nil, now)
		a.close(g)
	}
}

// Due states scrapes that were waited for long enough and returns all that came of the
// messages since it was asked before.
func (a *Assembler) Due(now time.Time) (Assembled, error) {
	lanes := slices.SortedFunc(maps.Keys(a.work), func(x, y *lane) int { return cmp.Compare(x.key, y.key) })
	for _, l := range lanes {
		for _, at := range slices.Sorted(maps.Keys(l.open)) {
			a.settle(l.open[at], now)
		}
		if len(l.open) == 0 {
			delete(a.work, l)
		}
	}
	out := a.out
	a.out = Assembled{}
	return out, out.err
}

func (a *Assembler) settle(g *group, now time.Time) {
	waited := now.UnixMilli() - g.last
	switch {
	case !g.late && g.whole():
		a.state(g, nil, now)
		a.close(g)
	case g.late && waited >= a.o.Quiet.Milliseconds():
		a.settleLate(g, now)
		a.close(g)
	case g.changed && waited >= a.o.Quiet.Milliseconds():
		g.lane.giveUp()
		missing := g.missing()
		a.state(g, missing, now)
		if len(missing) == 0 {
			a.close(g)
		}
	case g.stated && waited >= a.o.Keep.Milliseconds():
		a.close(g)
	}
}

// settleLate states the cards of a late part that the scrape did not have before. Those that
// it had are better known: they are put aside.
func (a *Assembler) settleLate(g *group, now time.Time) {
	had, sure := map[string]bool{}, false
	for _, card := range g.lane.doneAt[g.at] {
		had[card], sure = true, true
	}
	missing := g.missing()
	var fresh, stray []gpuseries.Sample
	for _, s := range g.samples {
		if had[s.card.uuid] || !sure && missing[s.card.uuid] {
			stray = append(stray, s.reading())
		} else {
			fresh = append(fresh, s.reading())
		}
	}
	a.publish(g, fresh, 2, 2, missing, now, &a.out.Events)
	a.publish(g, stray, 2, 2, missing, now, &a.out.Late)
}

// state publishes what is known of a scrape: whole cards, and those that lack something, which
// prove no idleness.
func (a *Assembler) state(g *group, missing map[string]bool, now time.Time) {
	g.changed, g.stated = false, true
	a.out.Scrapes++
	a.out.Samples += len(g.samples)
	if len(g.samples) == 0 {
		a.ended(g)
	} else {
		var whole, partial []gpuseries.Sample
		for _, s := range g.samples {
			if missing[s.card.uuid] {
				partial = append(partial, s.reading())
			} else {
				whole = append(whole, s.reading())
			}
		}
		if len(missing) > 0 {
			a.out.Incomplete++
		}
		parts := 0
		if len(whole) > 0 && len(partial) > 0 {
			parts = 2
		}
		a.publish(g, whole, min(parts, 1), parts, nil, now, &a.out.Events)
		a.publish(g, partial, parts, parts, missing, now, &a.out.Events)
	}
	if missing == nil {
		g.lane.confirm(g)
	}
}

// ended tells of a scrape in which every series had ended: Prometheus could not scrape the
// target, or has it no more.
func (a *Assembler) ended(g *group) {
	o := gpuseries.Options{Target: g.lane.target, At: time.UnixMilli(g.at)}
	failed := o.Failed(errors.New("Prometheus says that every series of this target has ended"), cmp.Or(g.lane.node, g.lane.target)) //nolint:staticcheck // a name
	a.emit(failed, "ended", &a.out.Events)
}

func (a *Assembler) publish(g *group, samples []gpuseries.Sample, part, parts int, missing map[string]bool, now time.Time, to *[]event.Event) {
	if len(samples) == 0 {
		return
	}
	version := uint64(len(samples))
	for _, s := range samples {
		version += (s.Series.ID ^ math.Float64bits(s.Value)) * 0x9e3779b97f4a7c15 // in any order
	}
	o := gpuseries.Options{Target: g.lane.target, Cut: len(missing) > 0}
	if at := time.UnixMilli(g.at); at.After(now) {
		o.ReceivedAt = now // a clock ahead of ours shows; a sample that waited is no skew
	}
	for _, e := range gpuseries.Fold(samples, o, a.memory) {
		e.Part, e.Parts = part, parts
		if e.OK {
			g.lane.node = e.Node
		}
		a.emit(e, fmt.Sprintf("%x-%t", version, e.Complete), to)
	}
}

func (a *Assembler) emit(e event.GPUSamples, version string, to *[]event.Event) {
	events, err := gpuseries.Events(a.o.Source, version, e)
	if err != nil {
		a.out.err = errors.Join(a.out.err, err)
		return
	}
	*to = append(*to, events...)
}

func (a *Assembler) close(g *group) {
	g.lane.close(g)
	a.inOpen -= len(g.samples)
	for number := range g.messages {
		if a.held[number]--; a.held[number] == 0 {
			delete(a.held, number)
		}
	}
}

// Lowest is the first message that is still needed; those before it may be deleted once
// everything stated so far is published and the checkpoint is saved.
func (a *Assembler) Lowest() uint64 {
	lowest := a.read + 1
	for number := range a.held {
		lowest = min(lowest, number)
	}
	return lowest
}

// Waiting is how many samples wait for the rest of their scrape.
func (a *Assembler) Waiting() int { return a.inOpen }
