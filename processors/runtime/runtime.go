// Package runtime runs processors on JetStream: it pulls, hands events over, acknowledges
// only what the processor has stored, and puts aside what can never be processed.
//
// What an event means is each processor's own matter.
package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/schema/event"
)

// PermanentError marks an event that can never be processed: it goes to the dead letters at
// once. Every other error is tried again, up to the consumer's limit.
type PermanentError struct{ Err error }

func (e PermanentError) Error() string { return e.Err.Error() }
func (e PermanentError) Unwrap() error { return e.Err }

// Permanent wraps err as a PermanentError; nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return PermanentError{Err: err}
}

// Consumer is one durable consumer and what it does with a batch of events.
type Consumer struct {
	Stream   string
	Durable  string
	Subjects []string // filter within the stream; empty takes all
	// Handle stores a batch and returns one error per event (nil: stored). It may return nil
	// for "all stored". It is called by one goroutine and gets events in stream order, except
	// those that come again.
	Handle func(ctx context.Context, batch []Delivered) []error
	// Batch is the largest batch; 1 for long work. MaxWait is how long to wait for more.
	Batch   int
	MaxWait time.Duration
	// MaxDeliver is how often an event is tried before it is put aside.
	MaxDeliver int
	// Backoff is the pause before the next try, by number of tries so far.
	Backoff []time.Duration
}

// Delivered is an event with what the stream knows about it.
type Delivered struct {
	event.Event
	Sequence uint64
	Stored   time.Time // when the stream took it: the known-at time of a fact
	Tries    int
	msg      jetstream.Msg
}

// InProgress tells the stream that long work on this event goes on.
func (d Delivered) InProgress() error { return d.msg.InProgress() }

// progressEvery is how often an event in work is kept from being delivered again.
const progressEvery = 10 * time.Second

// ackWait is how long the server waits for a sign of life before it delivers again.
const ackWait = 30 * time.Second

// Run pulls and handles until ctx ends; it returns nil then. Errors of single events are
// not errors of Run: they are tried again or put aside.
func Run(ctx context.Context, js jetstream.JetStream, c Consumer, log *slog.Logger) error {
	cons, err := c.ensure(ctx, js)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // stopped before it began
	}
	if err != nil {
		return err
	}
	return c.loop(ctx, js, cons, log)
}

// ensure creates or updates the durable consumer.
func (c Consumer) ensure(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	cons, err := js.CreateOrUpdateConsumer(ctx, c.Stream, jetstream.ConsumerConfig{
		Durable: c.Durable, FilterSubjects: c.Subjects, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: ackWait, MaxAckPending: max(c.batch()*2, 16), MaxDeliver: -1,
	})
	if err != nil {
		return nil, fmt.Errorf("creating consumer %s: %w", c.Durable, err)
	}
	return cons, nil
}

func (c Consumer) loop(ctx context.Context, js jetstream.JetStream, cons jetstream.Consumer, log *slog.Logger) error {
	w := worker{Consumer: c, js: js, log: log.With("consumer", c.Durable)}
	for ctx.Err() == nil {
		if err := w.once(ctx, cons); err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "pulling from stream", slog.String("error", err.Error()))
			pause(ctx, time.Second)
		}
	}
	return nil
}

// Drain handles everything that is waiting now and returns when nothing is left or under
// way. It serves commands that run the processors for their own duration.
func Drain(ctx context.Context, js jetstream.JetStream, c Consumer, log *slog.Logger) error {
	cons, err := c.ensure(ctx, js)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, c.Stream)
	if err != nil {
		return fmt.Errorf("opening stream %s: %w", c.Stream, err)
	}
	last := stream.CachedInfo().State.LastSeq
	run, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- c.loop(run, js, cons, log) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			log.WarnContext(ctx, "draining", slog.String("error", err.Error()))
		}
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := cons.Info(ctx)
		if err != nil {
			return fmt.Errorf("asking for consumer %s: %w", c.Durable, err)
		}
		// Nothing waits and nothing is under way. A consumer that was made just now may not
		// have counted yet: what it has seen must reach the end of the stream, as it was.
		idle := info.NumPending == 0 && info.NumAckPending == 0
		if idle && (len(c.Subjects) > 0 || info.Delivered.Stream >= last) && info.TimeStamp.After(info.Created) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
