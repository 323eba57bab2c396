package runpod

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Kinds of resources in the memory, the beginning of their key.
const (
	whatPod        = "pod"
	whatServerless = "serverless"
	whatVolume     = "volume"
	whatCluster    = "cluster"
)

// memory is the cursor: what ran, under which name and with which GPUs, for as long as the
// bill may still speak of it. RunPod's bill names no GPU, and a deleted pod leaves every list.
type memory struct {
	Runs   connectors.Runs   `json:"runs"`
	Things map[string]*thing `json:"things,omitempty"` // by kind/id
	// GPUs are the catalogue's prices by GPU type, as of Priced.
	GPUs   map[string]offer `json:"gpus,omitempty"`
	Priced time.Time        `json:"priced,omitzero"`
	// Billed is when the bill was last read. Through is the first day (YYYY-MM-DD) not yet
	// read to its end; Since is the configuration's first day that was heeded.
	Billed  time.Time `json:"billed,omitzero"`
	Through string    `json:"through,omitempty"`
	Since   string    `json:"since,omitempty"`
	Sent    string    `json:"sent,omitempty"` // hash of the window's last lines: the same is not sent again
}

// thing is what the bill does not say of a resource.
type thing struct {
	Name   string            `json:"name,omitempty"`
	GPU    string            `json:"gpu,omitempty"`   // RunPod's id of the GPU type; CPU flavour if CPU is set
	Count  int64             `json:"count,omitempty"` // GPUs: of the pod, of a worker, of the whole cluster
	CPU    bool              `json:"cpu,omitempty"`
	Cloud  string            `json:"cloud,omitempty"` // SECURE or COMMUNITY
	Region string            `json:"region,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
	Rate   *money.Decimal    `json:"rate,omitempty"` // last USD per hour that was not 0
	Max    int64             `json:"max,omitempty"`  // workers at most; serverless
	Spans  []span            `json:"spans,omitempty"`
	Last   time.Time         `json:"last"` // last poll that listed it
}

// span is a time in which polls saw a machine run, at one rate. From is the provider's word or
// the first sight; before it, back to After, it may have run.
type span struct {
	From  time.Time      `json:"f"`
	To    time.Time      `json:"t"`
	After *time.Time     `json:"a,omitempty"`
	Until *time.Time     `json:"u,omitempty"` // the first poll that did not see it
	Rate  *money.Decimal `json:"r,omitempty"`
}

// largest is how much of a cursor is kept, below what the bus takes in one message.
const largest = 700 << 10

func remember(cur connectors.Cursor) (*memory, error) {
	m := &memory{}
	if cur != nil {
		if err := json.Unmarshal(cur, m); err != nil {
			return nil, connectors.Permanent(fmt.Errorf("reading cursor: %w", err))
		}
	}
	if m.Things == nil {
		m.Things = map[string]*thing{}
	}
	if m.GPUs == nil {
		m.GPUs = map[string]offer{}
	}
	return m, nil
}

// cursor writes the memory. What is gone for longer than keep is forgotten, and if that does
// not do, what is gone longest.
func (m *memory) cursor(now time.Time, keep time.Duration) (connectors.Cursor, error) {
	old := now.Add(-keep)
	maps.DeleteFunc(m.Things, func(_ string, t *thing) bool { return t.Last.Before(old) })
	for _, t := range m.Things {
		t.Spans = slices.DeleteFunc(t.Spans, func(s span) bool { return s.To.Before(old) })
	}
	for {
		b, err := json.Marshal(m)
		if err != nil || len(b) <= largest || !m.forget() {
			return b, err
		}
	}
}

// forget drops a tenth of what is in no list any more; false if there is nothing to drop.
func (m *memory) forget() bool {
	gone := slices.DeleteFunc(slices.Collect(maps.Keys(m.Things)), func(k string) bool { return !m.Things[k].Last.Before(m.Runs.Seen) })
	slices.SortFunc(gone, func(a, b string) int { return m.Things[a].Last.Compare(m.Things[b].Last) })
	for _, k := range gone[:(len(gone)+9)/10] {
		delete(m.Things, k)
	}
	return len(gone) > 0
}

// see notes that a poll listed a resource and, unless running is nil, saw it run.
func (m *memory) see(key string, is thing, at time.Time, running *span) {
	was := m.Things[key]
	if was != nil {
		is.Spans = was.Spans
		if is.Rate == nil && !strings.HasPrefix(key, whatServerless) && is.GPU == was.GPU && is.Count == was.Count && is.Cloud == was.Cloud {
			is.Rate = was.Rate // a stopped pod costs 0
		}
		if is.GPU == "" {
			is.GPU, is.Count, is.CPU = was.GPU, was.Count, was.CPU // a stopped cluster lists no members
		}
	}
	is.Last = at
	m.Things[key] = &is
	if running == nil {
		return
	}
	if n := len(is.Spans); n > 0 && is.Spans[n-1].Until == nil && same(is.Spans[n-1].Rate, running.Rate) && !running.restarted(is.Spans[n-1]) {
		is.Spans[n-1].To = at
		return
	}
	is.close(at)
	running.To = at
	is.Spans = append(is.Spans, *running)
}

// restarted reports whether the provider says that this run began after the last sight of the
// one before it.
func (s *span) restarted(was span) bool { return s.After == nil && s.From.After(was.To) }

// close ends the last span: this poll did not see it go on.
func (t *thing) close(at time.Time) {
	if n := len(t.Spans); n > 0 && t.Spans[n-1].Until == nil && t.Spans[n-1].To.Before(at) {
		t.Spans[n-1].Until = &at
	}
}

// closeAll ends what this poll did not see run.
func (m *memory) closeAll(at time.Time) {
	for _, t := range m.Things {
		t.close(at)
	}
}

func same(a, b *money.Decimal) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// looseEnds is how much of a bucket may be unsure before snapshots claim no hours.
const looseEnds = 6 * time.Minute

// seenHours is how long polls saw the thing run in a period; false if they do not know.
func (t *thing) seenHours(from, to time.Time) (money.Decimal, bool) {
	var sure, loose time.Duration
	for _, s := range t.Spans {
		sure += overlap(s.From, s.To, from, to)
		if s.After != nil {
			loose += overlap(*s.After, s.From, from, to)
		}
		until := to
		if s.Until != nil {
			until = *s.Until
		}
		loose += overlap(s.To, until, from, to)
	}
	if sure <= 0 || loose > looseEnds {
		return money.Decimal{}, false
	}
	return hours(sure), true
}

// rateIn is the rate of a period, if one rate is known for all of it.
func (t *thing) rateIn(from, to time.Time) *money.Decimal {
	var found *money.Decimal
	for _, s := range t.Spans {
		if overlap(s.From, s.To, from, to) <= 0 {
			continue
		}
		if s.Rate == nil || found != nil && !found.Equal(*s.Rate) {
			return nil
		}
		found = s.Rate
	}
	if found == nil {
		return t.Rate
	}
	return found
}

func overlap(a, b, from, to time.Time) time.Duration {
	if a.Before(from) {
		a = from
	}
	if b.After(to) {
		b = to
	}
	return max(0, b.Sub(a))
}

// hourDigits are the fractional digits of hours: a third of an hour has no end.
const hourDigits = 12

func hours(d time.Duration) money.Decimal {
	return decimal.NewFromInt(int64(d)).DivRound(decimal.NewFromInt(int64(time.Hour)), hourDigits)
}
