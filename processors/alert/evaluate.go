package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
)

// Options make an Evaluator.
type Options struct {
	JS    jetstream.JetStream
	Facts Facts
	Rules Rules
	// Notifiers by channel name: one for every channel of the rules.
	Notifiers map[string]notify.Notifier
	Now       func() time.Time
	Log       *slog.Logger
	// Preview names another bucket to remember in, and publishes nothing: to see what would
	// be sent without touching what was. Empty for the real thing.
	Preview string
}

// Evaluator runs the rules. Several may run on one cluster: each alert is written by one of
// them, and by one only.
type Evaluator struct {
	js        jetstream.JetStream
	keep      keep
	facts     Facts
	rules     Rules
	notifiers map[string]notify.Notifier
	now       func() time.Time
	log       *slog.Logger
	preview   bool

	sending sync.Mutex // one delivery round at a time
}

// New opens the alerts' memory. Streams and buckets must exist (bus.Ensure).
func New(ctx context.Context, o Options) (*Evaluator, error) {
	if o.JS == nil || o.Facts == nil || o.Now == nil {
		return nil, errors.New("making alert evaluator: JS, Facts and Now are required")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Rules.Channels)) {
		if o.Notifiers[name] == nil {
			return nil, fmt.Errorf("making alert evaluator: no notifier for channel %s", name)
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Rules.Zone == nil {
		o.Rules.Zone = time.UTC
	}
	k, err := openKeep(ctx, o.JS, o.Preview)
	if err != nil {
		return nil, err
	}
	return &Evaluator{js: o.JS, keep: k, facts: o.Facts, rules: o.Rules, notifiers: o.Notifiers, now: o.Now, log: o.Log, preview: o.Preview != ""}, nil
}

// Run evaluates every interval until ctx ends; it returns nil then. A pass that fails is
// logged and tried again by the next. Sending goes on beside it, so that a channel that asks
// to wait holds up no rule.
func (e *Evaluator) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-wake:
				if err := e.Deliver(ctx, e.now()); err != nil && ctx.Err() == nil {
					e.log.WarnContext(ctx, "delivering alerts", slog.String("error", err.Error()))
				}
			}
		}
	})
	defer done.Wait()
	tick := time.NewTicker(max(e.rules.Interval, time.Second))
	defer tick.Stop()
	for {
		if err := e.Judge(ctx, e.now()); err != nil && ctx.Err() == nil {
			e.log.WarnContext(ctx, "evaluating alert rules", slog.String("error", err.Error()))
		}
		select {
		case wake <- struct{}{}:
		default:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Evaluate makes one pass: it judges every rule at now, stores what changed, then publishes
// and sends what is not sent yet.
func (e *Evaluator) Evaluate(ctx context.Context, now time.Time) error {
	return errors.Join(e.Judge(ctx, now), e.Deliver(ctx, now))
}

// Judge moves every alert by what the views say at now, and stores it. A rule that fails
// does not keep the others from being judged.
func (e *Evaluator) Judge(ctx context.Context, now time.Time) error {
	known, err := e.keep.all(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if len(e.rules.Idle) > 0 {
		facts, err := e.facts.Idle(ctx, now)
		errs = append(errs, err)
		for _, r := range e.rules.Idle {
			if err == nil {
				errs = append(errs, inRule(r.Name, e.judgeIdle(ctx, r, facts, known, now)))
			}
		}
	}
	for _, r := range e.rules.Budgets {
		errs = append(errs, inRule(r.Name, e.judgeBudget(ctx, r, known, now)))
	}
	errs = append(errs, e.retire(ctx, known, now))
	return errors.Join(errs...)
}

func inRule(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("judging rule %s: %w", name, err)
}

// retire ends the alerts of rules that are no longer there.
func (e *Evaluator) retire(ctx context.Context, known map[string]stored, now time.Time) error {
	live := map[[2]string]bool{}
	for _, r := range e.rules.Idle {
		live[[2]string{KindIdle, r.Name}] = true
	}
	for _, r := range e.rules.Budgets {
		live[[2]string{KindBudget, r.Name}] = true
	}
	var changed []stored
	for _, s := range known {
		if !live[[2]string{s.Kind, s.Rule}] {
			changed = append(changed, s.endQuietly(now))
		}
	}
	return e.store(ctx, changed, known)
}

// find returns the stored alert of the same key, or the new one.
func find(known map[string]stored, fresh Instance) stored {
	if s, ok := known[fresh.Key()]; ok {
		return s
	}
	return stored{Instance: fresh}
}

// store writes the alerts that differ from what is known. One that another evaluator, or a
// delivery, wrote meanwhile is left for the next pass.
func (e *Evaluator) store(ctx context.Context, changed []stored, known map[string]stored) error {
	var errs []error
	for _, s := range changed {
		if same, err := unchanged(s, known); same || err != nil {
			errs = append(errs, err)
			continue
		}
		err := e.keep.put(ctx, s)
		if errors.Is(err, errTaken) {
			e.log.DebugContext(ctx, "alert was written by another", slog.String("alert", s.Key()))
			continue
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// unchanged compares what would be written: times and amounts have several forms in memory.
func unchanged(s stored, known map[string]stored) (bool, error) {
	old, ok := known[s.Key()]
	if !ok {
		return s.State == "", nil
	}
	a, errA := json.Marshal(old.Instance)
	b, errB := json.Marshal(s.Instance)
	return bytes.Equal(a, b), errors.Join(errA, errB)
}

// List returns every alert that is remembered, newest first.
func (e *Evaluator) List(ctx context.Context) ([]Instance, error) { return e.keep.list(ctx) }

// Remembered returns every alert that the bus remembers, newest first, without any rules.
func Remembered(ctx context.Context, js jetstream.JetStream) ([]Instance, error) {
	k, err := openKeep(ctx, js, "")
	if err != nil {
		return nil, err
	}
	return k.list(ctx)
}

func (k keep) list(ctx context.Context) ([]Instance, error) {
	known, err := k.all(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Instance, 0, len(known))
	for _, s := range known {
		out = append(out, s.Instance)
	}
	slices.SortFunc(out, func(a, b Instance) int {
		if c := b.Since.Compare(a.Since); c != 0 {
			return c
		}
		return compareText(a.Key(), b.Key())
	})
	return out, nil
}

// sorted walks a map in the order of its keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
