package utilize

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
)

// Options are what a Processor needs.
type Options struct {
	DB     *store.DB
	JS     jetstream.JetStream // used by Run alone
	Loads  *store.Loads
	Now    func() time.Time
	Log    *slog.Logger
	Policy Policy // zero: DefaultPolicy
	// Every is the shortest time between two derivations of a running instance. 0: 20 s.
	Every time.Duration
	// Pause lies between writing rows and committing them where that replaces rows that
	// readers see: without it they may see neither. 0: 1 s; negative: none.
	Pause time.Duration
	// Observe is told of every stored scrape: how it went and the readings that were refused,
	// by reason. nil: nobody.
	Observe func(outcome string, rejected map[string]int)
}

// Outcomes of a scrape.
const (
	OutcomeOK         = "ok"
	OutcomeIncomplete = "incomplete"
	OutcomeFailed     = "failed"
)

// Processor stores samples and derives intervals.
type Processor struct {
	Options
	deriving sync.Mutex
	likes    likeDays // guarded by deriving

	mu    sync.Mutex
	dirty map[time.Time]bool // days with new samples
}

// New returns a processor; it opens nothing.
func New(o Options) (*Processor, error) {
	if o.Policy.IdleWindow == 0 {
		o.Policy = DefaultPolicy()
	}
	if err := o.Policy.Validate(); err != nil {
		return nil, fmt.Errorf("checking the idle policy: %w", err)
	}
	if o.Every == 0 {
		o.Every = 20 * time.Second
	}
	if o.Pause == 0 {
		o.Pause = time.Second
	}
	return &Processor{Options: o, likes: likeDays{}, dirty: map[time.Time]bool{}}, nil
}

// Consumer returns the durable consumer that stores samples. An event is acknowledged when its
// rows are in the store.
func (p *Processor) Consumer() runtime.Consumer {
	return runtime.Consumer{Stream: bus.RawGPU, Durable: "utilize", Batch: 500, MaxDeliver: 100_000, Handle: p.handle}
}

// Run stores samples as they come and keeps the intervals up to date until ctx ends.
func (p *Processor) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stored := make(chan error, 1)
	go func() {
		defer cancel()
		stored <- runtime.Run(ctx, p.JS, p.Consumer(), p.Log)
	}()
	p.keepDerived(ctx)
	return <-stored
}

// sweepEvery is how often rows that nobody can see any more are deleted.
const sweepEvery = time.Hour

// restShare bounds the time spent on deriving: a derivation rests this many times its own
// length, so that a large fleet is brought up to date less often instead of all the time.
const restShare = 2

// keepDerived derives everything once and then what changes. A failure is tried again: the
// fingerprints still differ.
func (p *Processor) keepDerived(ctx context.Context) {
	var jobs jobMark
	swept := p.Now()
	whole := true
	for ctx.Err() == nil {
		began := p.Now()
		if err := p.catchUp(ctx, whole, &jobs); err != nil && ctx.Err() == nil {
			p.Log.WarnContext(ctx, "deriving intervals", slog.String("error", err.Error()))
		} else {
			whole = false
		}
		if p.Now().Sub(swept) >= sweepEvery {
			swept = p.Now()
			if err := p.Sweep(ctx); err != nil && ctx.Err() == nil {
				p.Log.WarnContext(ctx, "sweeping replaced intervals", slog.String("error", err.Error()))
			}
		}
		rest := time.NewTimer(max(p.Every, restShare*p.Now().Sub(began)))
		select {
		case <-ctx.Done():
		case <-rest.C:
		}
		rest.Stop()
	}
}

// catchUp derives everything, or the days that new samples or jobs touch.
func (p *Processor) catchUp(ctx context.Context, whole bool, jobs *jobMark) error {
	mark, touched, err := p.newJobs(ctx, *jobs)
	if err != nil {
		return err
	}
	days := p.takeDirty()
	for _, d := range touched {
		days[d] = true
	}
	if whole {
		_, err = p.Derive(ctx)
	} else if len(days) > 0 {
		_, err = p.deriveDays(ctx, days)
	}
	if err != nil {
		p.markDirty(days)
		return err
	}
	*jobs = mark
	return nil
}

// markDirty notes days for the next derivation.
func (p *Processor) markDirty(days map[time.Time]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for d := range days {
		p.dirty[d] = true
	}
}

func (p *Processor) takeDirty() map[time.Time]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	days := p.dirty
	p.dirty = map[time.Time]bool{}
	return days
}

// touch notes which days a sample at a time may change.
func touch(days map[time.Time]bool, at time.Time) {
	for _, t := range []time.Time{at.Add(-margin), at, at.Add(margin)} {
		days[startOfDay(t)] = true
	}
}

func startOfDay(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

const oneDay = 24 * time.Hour

// Sweep deletes intervals and commits that newer ones replaced more than an hour ago, and
// rows that no commit ever named.
func (p *Processor) Sweep(ctx context.Context) error {
	var oldest uint64
	err := p.DB.QueryRow(ctx, `SELECT minIf(Load, At > now64(6) - INTERVAL 1 HOUR) FROM idlewatt_store.interval_commits`).Scan(&oldest)
	if err != nil {
		return fmt.Errorf("reading commits: %w", err)
	}
	if oldest == 0 {
		if err := p.DB.QueryRow(ctx, "SELECT max(Load) FROM idlewatt_store.interval_commits").Scan(&oldest); err != nil {
			return fmt.Errorf("reading commits: %w", err)
		}
	}
	const live = "(SELECT max(Load) FROM idlewatt_store.interval_commits GROUP BY Uuid, Instance, Day)"
	return errors.Join(
		p.DB.Exec(ctx, "DELETE FROM idlewatt_store.gpu_intervals WHERE Load < ? AND Load NOT IN "+live, oldest),
		p.DB.Exec(ctx, "DELETE FROM idlewatt_store.interval_commits WHERE Load < ? AND Load NOT IN "+live, oldest),
	)
}
