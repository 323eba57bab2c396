package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

type worker struct {
	Consumer
	js  jetstream.JetStream
	log *slog.Logger
}

func (c Consumer) batch() int { return max(c.Batch, 1) }

func (c Consumer) maxDeliver() int {
	if c.MaxDeliver > 0 {
		return c.MaxDeliver
	}
	return 5
}

func (c Consumer) backoff(tries int) time.Duration {
	if len(c.Backoff) == 0 {
		return min(time.Duration(tries)*2*time.Second, time.Minute)
	}
	return c.Backoff[min(tries, len(c.Backoff))-1]
}

// once pulls one batch, handles it and settles every message of it.
func (w worker) once(ctx context.Context, cons jetstream.Consumer) error {
	batch, err := w.pull(ctx, cons)
	if err != nil || len(batch) == 0 {
		return err
	}
	good := batch[:0:0]
	for _, d := range batch {
		if d.ID == "" { // headers or body do not make an event
			w.settle(ctx, d, Permanent(errors.New("message is not a CloudEvent in binary mode")))
			continue
		}
		good = append(good, d)
	}
	if len(good) == 0 {
		return nil
	}
	stop := w.keepAlive(ctx, good)
	errs := w.Handle(ctx, good)
	stop()
	for i, d := range good {
		var e error
		if i < len(errs) {
			e = errs[i]
		}
		w.settle(ctx, d, e)
	}
	return nil
}

func (w worker) pull(ctx context.Context, cons jetstream.Consumer) ([]Delivered, error) {
	wait := w.MaxWait
	if wait == 0 {
		wait = 200 * time.Millisecond
	}
	first, err := cons.Fetch(w.batch(), jetstream.FetchMaxWait(wait))
	if err != nil {
		return nil, fmt.Errorf("fetching: %w", err)
	}
	var out []Delivered
	for m := range first.Messages() {
		out = append(out, read(m))
	}
	if err := first.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return out, fmt.Errorf("fetching: %w", err)
	}
	return out, nil
}

func read(m jetstream.Msg) Delivered {
	d := Delivered{msg: m, Tries: 1}
	if meta, err := m.Metadata(); err == nil {
		d.Sequence, d.Stored, d.Tries = meta.Sequence.Stream, meta.Timestamp.UTC(), int(meta.NumDelivered)
	}
	if e, err := event.FromMessage(m.Headers(), m.Data()); err == nil {
		d.Event = e
	}
	return d
}

// keepAlive tells the server every few seconds that the batch is still in work.
func (w worker) keepAlive(ctx context.Context, batch []Delivered) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				for _, d := range batch {
					if err := d.InProgress(); err != nil {
						w.log.DebugContext(ctx, "extending work", slog.String("error", err.Error()))
					}
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// settle acknowledges what is stored, puts aside what can never be, and asks for the rest
// again later; a store that is down never makes an event a dead letter. A dead letter is stored before its message is given up.
func (w worker) settle(ctx context.Context, d Delivered, err error) {
	stopping := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime) // also when stopping: it is settled or comes again
	defer cancel()
	var perm PermanentError
	switch {
	case err == nil:
		w.report(ctx, d, d.msg.Ack())
	case stopping && !errors.As(err, &perm): // it comes again
		w.report(ctx, d, d.msg.Nak())
	case errors.As(err, &perm) || d.Tries >= w.maxDeliver() && !store.Unavailable(err):
		w.log.WarnContext(ctx, "putting event aside", slog.String("event", d.ID), slog.String("error", err.Error()))
		if e := bus.PutAside(ctx, w.js, w.letter(d, err)); e != nil {
			w.log.ErrorContext(ctx, "storing dead letter", slog.String("error", e.Error()))
			w.report(ctx, d, d.msg.NakWithDelay(w.backoff(d.Tries)))
			return
		}
		w.report(ctx, d, d.msg.TermWithReason("put aside"))
	default:
		w.log.InfoContext(ctx, "trying event again later", slog.String("event", d.ID), slog.Int("tries", d.Tries), slog.String("error", err.Error()))
		w.report(ctx, d, d.msg.NakWithDelay(w.backoff(d.Tries)))
	}
}

// settleTime is long enough to store a dead letter while the process ends.
const settleTime = 10 * time.Second

func (w worker) report(ctx context.Context, d Delivered, err error) {
	if err != nil && ctx.Err() == nil {
		w.log.DebugContext(ctx, "answering the stream", slog.String("event", d.ID), slog.String("error", err.Error()))
	}
}

func (w worker) letter(d Delivered, err error) bus.DeadLetter {
	l := bus.DeadLetter{
		Stream: w.Stream, Sequence: d.Sequence, Refused: w.Durable, Tries: d.Tries, Reason: err.Error(),
		At: d.Stored, Headers: d.msg.Headers(), Type: d.Type,
	}
	if body := d.msg.Data(); json.Valid(body) {
		l.Data = body
	} else {
		l.Raw = body
	}
	return l
}
