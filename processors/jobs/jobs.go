package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Options are what a Processor needs.
type Options struct {
	DB  *store.DB
	Now func() time.Time
	Log *slog.Logger
}

// Processor stores facts about jobs and machines. Storing the same fact again changes nothing.
type Processor struct{ Options }

// New returns a processor; it opens nothing.
func New(o Options) *Processor { return &Processor{Options: o} }

// batch bounds one insert; tries outlasts a long outage of the store, since what can never be
// stored is told apart before it gets there.
const (
	batch = 500
	tries = 100_000
)

// Consumers returns the durable consumers: one for jobs, one for each kind of inventory.
func (p *Processor) Consumers() []runtime.Consumer {
	out := []runtime.Consumer{{Stream: bus.RawJob, Durable: "jobs", Batch: batch, MaxDeliver: tries, Handle: p.handleJobs}}
	for _, c := range []struct {
		durable, subject string
		handle           func(context.Context, []runtime.Delivered) []error
	}{
		{"inventory", "raw.inventory.instance", handle(p, insertInstances, instanceRow)},
		{"prices", "raw.inventory.price", handle(p, insertPrices, priceRow)},
		{"polls", "raw.inventory.poll", handle(p, insertPolls, pollRow)},
		{"nodes", "raw.inventory.node", handle(p, insertNodes, nodeRow)},
		{"wallets", "raw.inventory.wallet", handle(p, insertWallets, walletRow)},
	} {
		out = append(out, runtime.Consumer{
			Stream: bus.RawInventory, Durable: c.durable, Subjects: []string{c.subject}, Batch: batch, MaxDeliver: tries, Handle: c.handle,
		})
	}
	return out
}

// handle stores events of one payload by one statement.
func handle[T any](p *Processor, stmt string, row func(runtime.Delivered, T, time.Time) ([]any, error)) func(context.Context, []runtime.Delivered) []error {
	return func(ctx context.Context, in []runtime.Delivered) []error {
		return p.store(ctx, in, stmt, func(d runtime.Delivered) ([]any, error) {
			var v T
			if err := d.Decode(&v); err != nil {
				return nil, err
			}
			return row(d, v, p.known(d))
		})
	}
}

func (p *Processor) handleJobs(ctx context.Context, in []runtime.Delivered) []error {
	return p.store(ctx, in, insertJobs, func(d runtime.Delivered) ([]any, error) {
		var j event.Job
		if err := d.Decode(&j); err != nil {
			return nil, err
		}
		return jobRow(d, j, p.known(d))
	})
}

// known is when the stream took the event, so that a copy that comes late does not look newer.
func (p *Processor) known(d runtime.Delivered) time.Time {
	if d.Stored.IsZero() {
		return p.Now().UTC()
	}
	return d.Stored
}

// store inserts the rows of a batch. It returns only after the store has confirmed them, with
// one error per event: a bad one neither loses nor blocks the others.
func (p *Processor) store(
	ctx context.Context, in []runtime.Delivered, stmt string, row func(runtime.Delivered) ([]any, error),
) []error {
	errs := make([]error, len(in))
	var rows [][]any
	var of []int
	for i, d := range in {
		r, err := row(d)
		if err != nil {
			errs[i] = runtime.Permanent(err)
			continue
		}
		rows, of = append(rows, r), append(of, i)
	}
	for k, err := range p.insertAll(ctx, stmt, rows) {
		if errs[of[k]] = err; err != nil && !temporary(err) && in[of[k]].Tries >= refusals {
			errs[of[k]] = runtime.Permanent(err)
		}
	}
	return errs
}

// refusals is how often the store may refuse one event, for a reason that does not look
// momentary, before it is put aside.
const refusals = 20

func temporary(err error) bool {
	var perm runtime.PermanentError
	return store.Temporary(err) && !errors.As(err, &perm)
}

// insertAll inserts rows together and, if something among them is refused, one by one. A row
// that is refused while others are taken is at fault itself.
func (p *Processor) insertAll(ctx context.Context, stmt string, rows [][]any) []error {
	errs := make([]error, len(rows))
	err := p.insert(ctx, stmt, rows)
	if err == nil {
		return errs
	}
	taken := false
	for k := range rows {
		if errs[k] = err; !temporary(err) && len(rows) > 1 {
			errs[k] = p.insert(ctx, stmt, rows[k:k+1])
			taken = taken || errs[k] == nil
		}
	}
	for k := range errs {
		if taken && errs[k] != nil && !temporary(errs[k]) {
			errs[k] = runtime.Permanent(errs[k])
		}
	}
	return errs
}

func (p *Processor) insert(ctx context.Context, stmt string, rows [][]any) (err error) {
	if len(rows) == 0 {
		return nil
	}
	b, err := p.DB.PrepareBatch(ctx, stmt, driver.WithReleaseConnection())
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := b.Append(r...); err != nil {
			return runtime.Permanent(err)
		}
	}
	return b.Send()
}
