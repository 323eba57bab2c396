package prometheus

import (
	"maps"
	"time"

	"github.com/idlewatt/idlewatt/connectors/gpuseries"
)

// set is a number of series as a number: how many, and the sum of their hashes. Equal sets
// are equal series, but for an accident of 2^-64.
type set struct {
	Count int    `json:"n"`
	Sum   uint64 `json:"sum,string"`
}

func (s set) with(id uint64) set    { return set{s.Count + 1, s.Sum + id} }
func (s set) without(id uint64) set { return set{s.Count - 1, s.Sum - id} }

// roster is which series a lane's scrapes have, by hash, with the card of each. It is never
// changed, only replaced, since scrapes that are done keep the one they were compared with.
type roster map[uint64]string

// card is a GPU and when something about its series last changed.
type card struct {
	uuid    string
	changed int64 // milliseconds since 1970; 0: not since the start
}

// member is a series and its place in its lane.
type member struct {
	*gpuseries.Series
	lane       *lane
	card       *card
	in         bool  // it is expected in every scrape
	seen, gone int64 // its last sample, and its last end
}

// lane is one target as one Prometheus sees it under one job. Prometheus sends each series of
// a scrape either with a value or, once, with the mark that it has ended. So what a scrape
// must have is known: every series that was there and has not ended. A series that is new is
// not known of until it comes; a card whose series changed is therefore watched for a while
// before a scrape of it is held to be whole.
type lane struct {
	key, target, node string
	watch             int64 // milliseconds; see Assembly.Watch

	members map[uint64]*member
	cards   map[string]*card
	set     set    // of the members that are in
	changed int64  // the latest change of any card
	top     int64  // the latest sample
	roster  roster // of the members that are in; nil until asked for
	open    map[int64]*group
	done    int64            // the latest scrape that is done
	doneAt  map[int64]roster // scrapes that are done, of the last hour; nil: before the start

	// What the process before left: until a scrape shows the same series again, and whether
	// scrapes up to a time, and of those the ones of which it had more, were done.
	restored  *set
	saved     int64
	again     map[int64]bool
	forgotten bool
}

const (
	// forgetting is how long a series without a sample and without an end is still expected.
	forgetting = 15 * 60_000
	// remembering is for how long scrapes that are done are told from new ones.
	remembering = 60 * 60_000
)

func newLane(key, target string, watch time.Duration) *lane {
	return &lane{
		key: key, target: target, watch: watch.Milliseconds(), members: map[uint64]*member{}, cards: map[string]*card{},
		open: map[int64]*group{}, doneAt: map[int64]roster{}, again: map[int64]bool{},
	}
}

func (l *lane) member(s *gpuseries.Series) *member {
	m := l.members[s.ID]
	if m == nil {
		c := l.cards[s.UUID()]
		if c == nil {
			c = &card{uuid: s.UUID()}
			l.cards[s.UUID()] = c
		}
		m = &member{Series: s, lane: l, card: c}
		l.members[s.ID] = m
	}
	return m
}

// note learns from one sample, as soon as it comes.
func (l *lane) note(s sample) {
	m := s.member
	l.top = max(l.top, s.at)
	if s.ended() {
		m.gone = max(m.gone, s.at)
		if m.in && m.gone > m.seen {
			l.put(m, false)
		}
		return
	}
	m.seen = max(m.seen, s.at)
	if !m.in && m.seen > m.gone {
		l.put(m, true)
	}
}

func (l *lane) put(m *member, in bool) {
	m.in, l.roster = in, nil
	if in {
		l.members[m.ID], l.cards[m.card.uuid] = m, m.card // it may have been forgotten
		l.set = l.set.with(m.ID)
	} else {
		l.set = l.set.without(m.ID)
	}
	if l.restored == nil || !in {
		l.change(m.card)
	}
}

func (l *lane) change(c *card) {
	c.changed, l.changed = l.top, l.top
}

// settled reports whether a scrape at that time comes after a change, and enough has come
// since to know what belongs to it.
func (l *lane) settled(changed, at int64) bool {
	return changed == 0 || at > changed && l.top-changed > l.watch
}

// giveUp starts to watch anew a lane that is not as the process before left it.
func (l *lane) giveUp() {
	if l.restored == nil {
		return
	}
	l.restored = nil
	for _, c := range l.cards {
		l.change(c)
	}
}

// confirm takes the lane for what the process before left, since a scrape shows it whole.
// Series that it does not have came since.
func (l *lane) confirm(g *group) {
	if l.restored == nil {
		return
	}
	l.restored = nil
	for id, m := range l.members {
		if _, here := g.have[id]; m.in && !here {
			l.change(m.card)
		}
	}
}

// series is the lane's roster as it is now.
func (l *lane) series() roster {
	if l.roster == nil {
		l.roster = make(roster, l.set.Count)
		for id, m := range l.members {
			if m.in {
				l.roster[id] = m.card.uuid
			}
		}
	}
	return l.roster
}

// close ends a scrape: what comes of it now is late.
func (l *lane) close(g *group) {
	delete(l.open, g.at)
	r := l.series()
	if g.set != l.set {
		r = make(roster, len(g.have))
		for id, i := range g.have {
			r[id] = g.samples[i].card.uuid
		}
	}
	l.doneAt[g.at] = r
	l.done = max(l.done, g.at)
	if len(l.open) > 0 {
		return
	}
	maps.DeleteFunc(l.doneAt, func(at int64, _ roster) bool { return at < l.done-remembering })
	if len(l.members) > 2*l.set.Count {
		maps.DeleteFunc(l.members, func(_ uint64, m *member) bool { return !m.in && max(m.seen, m.gone) < l.top-remembering })
	}
}

// group is one scrape while its series come in.
type group struct {
	lane     *lane
	at       int64 // milliseconds since 1970
	samples  []sample
	have     map[uint64]int // series to its place in samples
	ended    map[uint64]*card
	set      set // of have
	messages map[uint64]bool
	last     int64 // milliseconds on our clock when the last part came
	changed  bool  // since it was stated
	stated   bool
	late     bool // it was done before
}

// take adds a sample to the scrape. It reports whether anything changed.
func (g *group) take(s sample) bool {
	id := s.ID
	if s.ended() {
		if g.ended == nil {
			g.ended = map[uint64]*card{}
		}
		_, had := g.ended[id]
		g.ended[id] = s.card
		return !had
	}
	if i, ok := g.have[id]; ok {
		if same(g.samples[i].value, s.value) {
			return false // Prometheus repeats what it was not thanked for
		}
		for _, x := range g.samples {
			if x.ID == id && same(x.value, s.value) {
				return false
			}
		}
		g.samples = append(g.samples, s) // two values of one moment: a conflict, for the reader to see
		return true
	}
	g.have[id] = len(g.samples)
	g.samples = append(g.samples, s)
	g.set = g.set.with(id)
	return true
}

// whole reports whether the scrape has just the series that its lane always has.
func (g *group) whole() bool {
	if len(g.ended) > 0 || g.set.Count == 0 {
		return false
	}
	if g.lane.restored != nil {
		return g.set == *g.lane.restored
	}
	return g.set == g.lane.set && g.lane.settled(g.lane.changed, g.at)
}

// missing says which cards of the scrape are not whole.
func (g *group) missing() map[string]bool {
	out := map[string]bool{}
	l := g.lane
	for id, m := range l.members {
		if _, here := g.have[id]; here || !m.in {
			continue
		}
		if l.top-m.seen > forgetting {
			l.put(m, false)
		}
		out[m.card.uuid] = true
	}
	for _, c := range g.ended {
		out[c.uuid] = true
	}
	for _, s := range g.samples {
		if !s.in || !l.settled(s.card.changed, g.at) {
			out[s.card.uuid] = true
		}
	}
	return out
}
