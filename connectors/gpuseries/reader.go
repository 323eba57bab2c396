package gpuseries

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
)

// Options say what the text itself does not.
type Options struct {
	Target     string    // what was scraped
	Node       string    // configured name of the host, if any
	At         time.Time // time of lines that carry none; zero if unknown
	ReceivedAt time.Time // zero for an import: its own time counts
	Labels     []string  // pod labels to keep; nil keeps DefaultLabels
	Cut        bool      // the transport says that the body ended early
}

// DefaultLabels are the pod labels kept when the configuration names none.
func DefaultLabels() []string {
	return []string{
		"app", "team", "project", "environment", "env", "cost_center", "kueue_x_k8s_io_queue_name",
		"ray_io_cluster", "ray_io_group", "volcano_sh_job_name", "volcano_sh_queue_name",
		"scheduling_k8s_io_group_name",
	}
}

// record is a believed line, not yet in canonical units.
type record struct {
	field  field
	labels *labels
	value  float64
	stamp  int64
}

// body is a parsed text before it is divided by host and time.
type body struct {
	records  []record
	rejected map[string]int
	families map[string]bool
	lines    int // of samples
	bad      []BadLine
	complete bool
	owners   owners
	gen      map[string]*signs // by host, see hostKey
}

// maxBadKept bounds how many refused lines are kept for the dead letters.
const maxBadKept = 100

// BadLine is a line that was refused.
type BadLine struct {
	Number int // from 1
	Text   string
	Err    error
}

// Read states what one exposition says, one event per host and sample time. A body without
// any series of a GPU is one event with OK false: no data, not "no GPUs".
func Read(text []byte, o Options) []event.GPUSamples {
	events, _ := ReadLines(text, o)
	return events
}

// ReadLines is Read that also returns the refused lines, up to a hundred of them.
func ReadLines(text []byte, o Options) ([]event.GPUSamples, []BadLine) {
	if o.Labels == nil {
		o.Labels = DefaultLabels()
	}
	b := parseBody(string(text), o.Labels)
	b.complete = b.complete && !o.Cut
	return b.events(o), b.bad
}

// events states what a body says; without any series of a GPU it is one event with OK false.
func (b *body) events(o Options) []event.GPUSamples {
	groups := b.split()
	if len(groups) == 0 {
		e := o.stamp(event.GPUSamples{Error: "body has no GPU series", Complete: b.complete}, 0)
		if b.lines == 0 {
			e.Error = "empty body"
		}
		e.Rejected, e.Lines, e.Families = b.rejected, b.lines, len(b.families)
		return []event.GPUSamples{e}
	}
	out := make([]event.GPUSamples, 0, len(groups))
	for i, g := range groups {
		e := g.event(b)
		if i == 0 { // what belongs to no host is told once
			for why, n := range b.rejected {
				e.Rejected[why] += n
			}
		}
		if len(e.Rejected) == 0 {
			e.Rejected = nil
		}
		e.Target = targetName(o, g, groups)
		e.Node = cmp.Or(o.Node, g.node(), e.Target)
		out = append(out, o.stamp(e, g.stamp))
	}
	return out
}

func (o Options) stamp(e event.GPUSamples, ms int64) event.GPUSamples {
	e.At, e.ReceivedAt = o.At, o.ReceivedAt
	if ms != 0 {
		e.At = time.UnixMilli(ms)
	}
	e.At, e.ReceivedAt = e.At.UTC(), e.ReceivedAt.UTC()
	if o.ReceivedAt.IsZero() {
		e.ReceivedAt = e.At
	}
	if e.Target == "" {
		e.Target, e.Node = o.Target, cmp.Or(o.Node, o.Target)
	}
	return e
}

// Failed is the event of a scrape that brought nothing: a gap, told by a fact.
func (o Options) Failed(err error, node string) event.GPUSamples {
	return o.stamp(event.GPUSamples{Error: err.Error(), Node: node}, 0)
}

// targetName keeps the series of different hosts apart: behind Prometheus every exporter is
// a target of its own.
func targetName(o Options, g *group, all []*group) string {
	if g.endpoint != "" {
		return g.endpoint
	}
	for _, other := range all {
		if other.host != g.host && g.host != "" {
			return o.Target + "/" + g.host
		}
	}
	return o.Target
}

func newBody(complete bool) *body {
	return &body{
		rejected: map[string]int{}, families: map[string]bool{}, gen: map[string]*signs{}, complete: complete, owners: newOwners(),
	}
}

func parseBody(text string, allow []string) *body {
	keep := make(map[string]bool, len(allow))
	for _, name := range allow {
		keep[name] = true
	}
	b := newBody(strings.HasSuffix(text, "\n"))
	r := newLineReader(keep)
	comment := false
	for number := 1; len(text) > 0; number++ {
		line, rest, whole := strings.Cut(text, "\n")
		text = rest
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if comment = line[0] == '#'; comment {
			comment = line != "# EOF"
			continue
		}
		b.line(r, line, number, whole)
	}
	// An exporter writes no HELP or TYPE without a sample: the body was cut at a line's end.
	b.complete = b.complete && !comment
	return b
}

func (b *body) line(r *lineReader, line string, number int, whole bool) {
	b.lines++
	if !whole {
		b.refuse(line, number, errCut)
		return
	}
	s, err := r.parse(line)
	if err != nil {
		b.refuse(line, number, err)
		return
	}
	b.take(s)
}

// take keeps one series' reading, if it is one of a device.
func (b *body) take(s series) {
	b.families[s.name] = true
	f, known := lookup(s.name)
	switch {
	case !known:
		b.rejected[reasonUnknownName]++
		return
	case s.labels.uuid == "":
		if f.quantity != other {
			b.rejected[reasonNoUUID]++
		}
		return
	}
	b.owners.see(s.labels)
	b.sign(s, f)
	b.records = append(b.records, record{field: f, labels: s.labels, value: s.value, stamp: s.stamp})
}

func (b *body) refuse(line string, number int, err error) {
	why := reasonBadLine
	if errors.Is(err, errHostile) {
		why = reasonHostile
	}
	b.rejected[why]++
	if len(b.bad) < maxBadKept {
		b.bad = append(b.bad, BadLine{Number: number, Text: line, Err: err})
	}
}

// group is the part of a body that speaks of one host at one time.
type group struct {
	endpoint, host string
	stamp          int64
	records        []record
}

// split divides the records by scraped endpoint (or else by host label) and time.
func (b *body) split() []*group {
	type key struct {
		host  string
		stamp int64
	}
	byKey := map[key]*group{}
	for _, r := range b.records {
		k := key{hostKey(r.labels), r.stamp}
		g := byKey[k]
		if g == nil {
			g = &group{endpoint: r.labels.endpoint, stamp: r.stamp}
			if g.endpoint == "" {
				g.host = r.labels.host
			}
			byKey[k] = g
		}
		g.records = append(g.records, r)
	}
	groups := slices.Collect(maps.Values(byKey))
	slices.SortFunc(groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.endpoint, b.endpoint), cmp.Compare(a.host, b.host))
	})
	return groups
}

func hostKey(l *labels) string {
	if l.endpoint != "" {
		return "instance\x00" + l.endpoint
	}
	return l.host
}

// node is the host as the text names it. The label is a hint: a remote host engine says
// "localhost" for every host.
func (g *group) node() string {
	name := ""
	for _, r := range g.records {
		h := cmp.Or(r.labels.node, r.labels.host)
		if h == "" || h == "localhost" {
			continue
		}
		if name != "" && h != name {
			return ""
		}
		name = h
	}
	return name
}

func (g *group) event(b *body) event.GPUSamples {
	f := folder{
		signs: b.gen[hostKey(g.records[0].labels)], owners: b.owners, devices: map[deviceKey]*device{},
		rejected: map[string]int{}, doubtful: !b.complete || b.rejected[reasonBadLine]+b.rejected[reasonHostile] > 0,
	}
	for _, r := range g.records {
		f.add(r)
	}
	e := event.GPUSamples{
		OK: true, Complete: b.complete, Generation: f.signs.generation().String(), GPUs: f.finish(),
		Rejected: f.rejected, Clamped: f.clamped, Duplicates: f.duplicates, Lines: b.lines, Families: len(b.families),
	}
	return e
}
