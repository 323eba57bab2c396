// Package rate estimates what running resources cost until their bill has come: observed time
// at the provider's own rate, else at what the account paid lately, else at the list price.
//
// It works on levels, not on events: it computes each (source, day) whose inputs differ from
// those of its last commit, and shows the estimates that no bill covers as charges of dataset
// estimate, by load, as bills are shown. Storing inventory, prices and polls is
// processors/jobs, loading bills processors/normalize, splitting charges processors/attribute.
package rate

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/idlewatt/idlewatt/processors/store"
)

// Options are what a Processor needs.
type Options struct {
	DB    *store.DB
	Loads *store.Loads
	Now   func() time.Time
	Log   *slog.Logger
	// Every is how often Run looks for changes. 0: 2 s.
	Every time.Duration
	// Patience is how long a poll alone, without another fact, may wait until Run takes it in.
	// 0: 5 minutes.
	Patience time.Duration
	// Dimensions gives the tag sets of loads from..to their project, team and environment,
	// before they are shown; nil does nothing.
	Dimensions func(ctx context.Context, from, to uint64) error
	// Pause lies between writing charges and committing them, as in processors/normalize. 0: 1 s;
	// negative: none.
	Pause time.Duration
}

// Processor computes and shows estimates.
type Processor struct {
	Options
	// bills is the state of the bills at the last pass that ended well.
	bills string
}

// New returns a processor; it opens nothing.
func New(o Options) *Processor {
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = 5 * time.Minute
	}
	if o.Pause == 0 {
		o.Pause = time.Second
	}
	return &Processor{Options: o}
}

// fullEvery is how often Run looks at days before yesterday too: facts about them come late,
// and looking at all of them costs more than at two.
const fullEvery = 5 * time.Minute

// sweepEvery is how often Run removes superseded estimates.
const sweepEvery = time.Hour

// Run computes what differs, again and again, until ctx ends. A failed pass is logged and
// tried again at the next one: nothing is lost, since the inputs are still there.
func (p *Processor) Run(ctx context.Context) error {
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	var seen string
	var full, swept, late time.Time
	for {
		err := func() error {
			state, err := p.state(ctx)
			now := p.Now()
			whole := now.Sub(full) >= fullEvery
			// Without a new fact, only a poll that had to wait may be due.
			if err != nil || state == seen && !whole && now.Sub(late) < p.Patience/5 {
				return err
			}
			from := now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)
			if whole {
				from = beginning
			}
			if _, err := p.pass(ctx, from, p.Patience); err != nil {
				return err
			}
			seen, late = state, now
			if whole {
				full = now
			}
			if now.Sub(swept) >= sweepEvery {
				swept = now
				return p.Sweep(ctx)
			}
			return nil
		}()
		if err != nil && ctx.Err() == nil {
			p.Log.WarnContext(ctx, "estimating charges", slog.String("error", store.ErrorText(err)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// beginning is before every run.
var beginning = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)

// Once computes every (source, day) whose inputs differ from those of its last commit, shows
// what should be shown, and returns how many were written.
func (p *Processor) Once(ctx context.Context) (int, error) { return p.pass(ctx, beginning, 0) }

func (p *Processor) pass(ctx context.Context, from time.Time, patience time.Duration) (int, error) {
	nothing, err := p.text(ctx, "looking for runs", "SELECT toString((SELECT count() FROM idlewatt_store.instances) + (SELECT count() FROM idlewatt_store.estimate_commits))")
	if err != nil || nothing == "0" { // nobody has an inventory: the rest costs a second
		return 0, err
	}
	bills, err := p.completeThrough(ctx)
	if err != nil {
		return 0, err
	}
	computed, err := p.estimate(ctx, from, patience)
	if err != nil {
		return computed, err
	}
	// A bill moves any day, and an invoice all those of its period.
	invoices, err := p.text(ctx, "looking for invoices", "SELECT toString(count()) FROM idlewatt_store.invoices WHERE BillingPeriodEnd > toDateTime64('"+
		from.UTC().Format(sqlTime)+"', 3, 'UTC') OR BillingPeriodEnd <= BillingPeriodStart")
	if err != nil {
		return computed, err
	}
	if bills != p.bills || invoices != "0" {
		from = beginning
	}
	shown, err := p.show(ctx, from)
	if err == nil {
		p.bills = bills
	}
	return computed + shown, err
}

// stateSQL changes whenever an input does, and costs next to nothing.
const stateSQL = `SELECT toString((
    (SELECT (count(), max(ReceivedAt)) FROM idlewatt_store.instances),
    (SELECT (count(), max(ReceivedAt)) FROM idlewatt_store.polls),
    (SELECT (count(), max(ReceivedAt)) FROM idlewatt_store.prices),
    (SELECT (count(), max(x_ReceivedAt)) FROM idlewatt_store.invoices),
    (SELECT (count(), max(CommittedAt)) FROM idlewatt_store.commits WHERE Dataset != 'estimate')))`

func (p *Processor) state(ctx context.Context) (string, error) {
	return p.text(ctx, "looking for new facts", stateSQL)
}

func (p *Processor) text(ctx context.Context, what, sql string) (string, error) {
	var s string
	if err := p.DB.QueryRow(ctx, sql).Scan(&s); err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return s, nil
}

// completeThrough notes until when bills are whole, if there are other bills than last time,
// and returns what tells the bills there are now from those.
func (p *Processor) completeThrough(ctx context.Context) (string, error) {
	bills, err := p.text(ctx, "looking for new bills", `SELECT toString((count(), max(CommittedAt))) FROM idlewatt_store.commits WHERE Dataset != 'estimate'`)
	if err != nil || bills == p.bills {
		return bills, err
	}
	if err := p.DB.Exec(ctx, statement("through.sql")); err != nil {
		return "", fmt.Errorf("reading until when bills are whole: %w", err)
	}
	return bills, nil
}
