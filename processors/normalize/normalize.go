// Package normalize loads deliveries of bills: it reads the archived objects with the SQL of
// their format, checks what was loaded and commits it, so that a delivery is live whole or
// not at all.
//
// Formats and their SQL are in schema/normalize, tables in schema/migrations. Splitting a
// charge over jobs is processors/attribute.
package normalize

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// Options are what a Processor needs.
type Options struct {
	DB      *store.DB
	JS      jetstream.JetStream
	Loads   *store.Loads
	Archive string // root of the object archive
	// SharedDisk says that ClickHouse sees the archive under the same path; else the bytes
	// are streamed to it through HTTPURL.
	SharedDisk bool
	HTTP       store.HTTP
	Now        func() time.Time
	Log        *slog.Logger
	// Progress is told how many rows of a delivery are read so far; may be nil.
	Progress func(delivery string, rows uint64)
	Rules    Rules
	// Pause is how long a load settles before its commit; zero is the default, below zero is none.
	Pause time.Duration
}

// Processor loads deliveries.
type Processor struct {
	Options
	db     *store.DB
	leases leases
	shapes map[string][]string // format -> columns its SQL makes
}

// Statuses of a delivery.
const (
	Live      = "live"      // committed: its scopes show it now
	Unchanged = "unchanged" // equal to what is live; only the version was recorded
	Older     = "older"     // a newer version is live: not loaded
	Held      = "held"      // another source delivers the same money
	Refused   = "refused"   // incomplete, malformed or not adding up
)

// Outcome is what became of a delivery.
type Outcome struct {
	Delivery    string
	Status      string
	Message     string
	Scopes      []Scope
	Rows        uint64
	Billed      map[string]money.Decimal // by currency
	RoundedRows uint64
	Defects     map[string]uint64
	Took        time.Duration
}

// New returns a processor; it opens nothing.
func New(ctx context.Context, o Options) (*Processor, error) {
	kv, err := o.JS.KeyValue(ctx, bus.BucketLeases)
	if err != nil {
		return nil, fmt.Errorf("opening bucket %s: %w", bus.BucketLeases, err)
	}
	if o.Pause == 0 {
		o.Pause = settleTime
	}
	return &Processor{
		Options: o, db: o.DB, leases: leases{kv: kv, now: o.Now}, shapes: map[string][]string{},
	}, nil
}

// Consumer returns the durable consumer that loads deliveries one at a time.
func (p *Processor) Consumer() runtime.Consumer {
	return runtime.Consumer{
		Stream: bus.RawBilling, Durable: "normalize", Subjects: []string{"raw.billing.delivery"}, Batch: 1,
		MaxDeliver: maxDeliver, Handle: p.handle,
	}
}

func (p *Processor) handle(ctx context.Context, batch []runtime.Delivered) []error {
	errs := make([]error, len(batch))
	for i, d := range batch {
		var del event.BillingDelivery
		if err := d.Decode(&del); err != nil {
			errs[i] = runtime.Permanent(err)
			continue
		}
		_, errs[i] = p.Deliver(ctx, del)
		if errs[i] != nil && d.Tries >= maxDeliver {
			errs[i] = errors.Join(errs[i], p.record(ctx, del, Outcome{Delivery: del.Delivery, Status: Refused, Message: errs[i].Error()}))
		}
	}
	return errs
}

// maxDeliver is how often a delivery is tried before it is put aside: for longer than a
// store's restart takes.
const maxDeliver = 8

// Deliver loads one delivery and says what became of it. The error is permanent (see
// runtime.PermanentError) where trying again cannot help; the previous live load stays then.
func (p *Processor) Deliver(ctx context.Context, d event.BillingDelivery) (Outcome, error) {
	began := p.Now()
	out, err := p.deliver(ctx, d)
	out.Delivery, out.Took = d.Delivery, p.Now().Sub(began)
	var perm runtime.PermanentError
	if errors.As(err, &perm) {
		if out.Status == "" {
			out.Status = Refused
		}
		out.Message = err.Error()
	} else if err != nil {
		return out, err
	}
	if lerr := p.record(ctx, d, out); lerr != nil {
		return out, errors.Join(err, lerr)
	}
	return out, err
}

func (p *Processor) deliver(ctx context.Context, d event.BillingDelivery) (Outcome, error) {
	f, ok := normalize.Find(d.Format)
	if !ok {
		return Outcome{}, runtime.Permanent(fmt.Errorf("unknown format %q: want one of %v", d.Format, normalize.Names()))
	}
	if err := CheckAssumptions(d.Assume); err != nil {
		return Outcome{}, runtime.Permanent(err)
	}
	a := &attempt{p: p, d: d, format: f, version: SortVersion(d.Version), hash: contentHash(d)}
	if out, done, err := a.unchanged(ctx); done || err != nil {
		return out, err
	}
	if err := a.open(); err != nil {
		return Outcome{}, runtime.Permanent(err)
	}
	if err := a.write(ctx); err != nil {
		a.sweep(ctx)
		return Outcome{}, err
	}
	out, err := a.commit(ctx)
	a.sweep(ctx) // does nothing to a load that was committed
	return out, err
}
