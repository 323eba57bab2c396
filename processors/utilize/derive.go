package utilize

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Stats says what one derivation did.
type Stats struct {
	Checked int // card days whose fingerprint was compared
	Derived int // card days that were derived
	Rows    int
	Took    time.Duration
}

// Derive derives every (device, day) whose inputs differ from those of its live rows, and
// returns when nothing differs.
func (p *Processor) Derive(ctx context.Context) (Stats, error) {
	var first, last time.Time
	var n uint64
	err := p.DB.QueryRow(ctx, "SELECT min(At), max(At), count() FROM idlewatt_store.gpu_samples").Scan(&first, &last, &n)
	if err != nil {
		return Stats{}, fmt.Errorf("reading the range of samples: %w", err)
	}
	var oldest, newest time.Time
	var commits uint64
	err = p.DB.QueryRow(ctx, "SELECT min(Day), max(Day), count() FROM idlewatt_store.interval_commits").Scan(&oldest, &newest, &commits)
	if err != nil {
		return Stats{}, fmt.Errorf("reading the range of commits: %w", err)
	}
	if n == 0 && commits == 0 {
		return Stats{}, nil
	}
	if n == 0 {
		first, last = oldest, newest
	}
	if commits > 0 && oldest.Before(first) {
		first = oldest
	}
	days := map[time.Time]bool{}
	for d := startOfDay(first); !d.After(startOfDay(last.Add(margin))); d = d.Add(oneDay) {
		days[d] = true
	}
	return p.deriveDays(ctx, days)
}

// windowDays is how many days are compared and derived at a time: it bounds memory.
const windowDays = 31

// deriveDays compares and derives the given days, oldest first.
func (p *Processor) deriveDays(ctx context.Context, days map[time.Time]bool) (Stats, error) {
	p.deriving.Lock()
	defer p.deriving.Unlock()
	began := p.Now()
	var total Stats
	p.likes.forget(days)
	sorted := slices.SortedFunc(maps.Keys(days), time.Time.Compare)
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n].Sub(sorted[0]) < windowDays*oneDay {
			n++
		}
		s, err := p.deriveWindow(ctx, sorted[:n])
		total.Checked, total.Derived, total.Rows = total.Checked+s.Checked, total.Derived+s.Derived, total.Rows+s.Rows
		if err != nil {
			return total, err
		}
		sorted = sorted[n:]
	}
	total.Took = p.Now().Sub(began)
	return total, nil
}

// queryCards is how many cards one query names.
const queryCards = 2000

// cardDay is the unit of derivation: all instances of one card on one UTC day.
type cardDay struct {
	uuid string
	day  time.Time
}

func (p *Processor) deriveWindow(ctx context.Context, days []time.Time) (Stats, error) {
	in, err := p.inputs(ctx, days)
	if err != nil {
		return Stats{}, err
	}
	var s Stats
	w := writer{p: p}
	for _, day := range days {
		due := in.due(day)
		s.Checked += due.checked
		if len(due.cards) == 0 {
			continue
		}
		world := in.world(day)
		for uuids := range slices.Chunk(slices.Sorted(maps.Keys(due.cards)), queryCards) {
			err := p.cards(ctx, day, uuids, in.interval, func(c Card) error {
				rows := world.Intervals(c, day, day.Add(oneDay))
				s.Derived++
				s.Rows += len(rows)
				fp := due.cards[c.UUID]
				delete(due.cards, c.UUID)
				return w.add(ctx, c.UUID, day, fp, rows, in.committed[cardDay{c.UUID, day}].instances)
			})
			if err != nil {
				return s, err
			}
		}
		for uuid, fp := range due.cards { // nothing is left of these: their old rows go
			s.Derived++
			if err := w.add(ctx, uuid, day, fp, nil, in.committed[cardDay{uuid, day}].instances); err != nil {
				return s, err
			}
		}
	}
	return s, w.close(ctx)
}
