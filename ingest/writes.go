package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/connectors/prometheus"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Writes reads what WriteDoor kept and publishes the scrapes that it makes. Of one bus only
// one may run: several would each see all series and delete under each other.
type Writes struct {
	Publisher
	Assembly prometheus.Assembly
	Log      *slog.Logger
	// Observe is told what was put together; may be nil.
	Observe func(prometheus.Assembled)
}

// Figures of the loop.
const (
	lookEvery = 250 * time.Millisecond
	saveEvery = 5 * time.Second
	// maxWaiting samples wait for the rest of their scrapes in memory; beyond that the bus holds
	// the rest.
	maxWaiting = 4_000_000
	// writesKey has a character that no source's key has.
	writesKey = "=remote-write"
)

// Run works until ctx ends. What a process leaves unfinished at its end, of whatever kind, is
// on the bus, and the next one begins with it.
func (w Writes) Run(ctx context.Context) error {
	pause := time.Second
	for ctx.Err() == nil {
		began := w.Now()
		err := w.run(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end was asked for
		}
		if w.Now().Sub(began) > time.Minute {
			pause = time.Second
		}
		w.Log.WarnContext(ctx, "putting scrapes together", slog.Duration("next_try_in", pause), slog.String("error", err.Error()))
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
		case <-t.C:
		}
		pause = min(2*pause, time.Minute)
	}
	return nil
}

// run is one life of the assembler: any error ends it, and the next begins at the checkpoint.
func (w Writes) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kv, err := w.JS.KeyValue(ctx, bus.BucketCursors)
	if err != nil {
		return fmt.Errorf("opening cursors: %w", err)
	}
	var saved []byte
	entry, err := kv.Get(ctx, writesKey)
	switch {
	case err == nil:
		saved = entry.Value()
	case !errors.Is(err, jetstream.ErrKeyNotFound):
		return fmt.Errorf("reading the assembler's checkpoint: %w", err)
	}
	a, err := prometheus.NewAssembler(w.Assembly, saved)
	if err != nil {
		return err
	}
	stream, err := w.JS.Stream(ctx, bus.RawWrite)
	if err != nil {
		return fmt.Errorf("opening stream %s: %w", bus.RawWrite, err)
	}
	messages, err := w.messages(ctx, stream)
	if err != nil {
		return err
	}
	l := writesLoop{Writes: w, a: a, kv: kv, stream: stream, messages: messages}
	return l.run(ctx)
}

// messages reads the stream from its first message on, until ctx ends.
func (w Writes) messages(ctx context.Context, stream jetstream.Stream) (<-chan jetstream.Msg, error) {
	c, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return nil, fmt.Errorf("reading stream %s: %w", bus.RawWrite, err)
	}
	it, err := c.Messages(jetstream.PullMaxMessages(128))
	if err != nil {
		return nil, fmt.Errorf("reading stream %s: %w", bus.RawWrite, err)
	}
	context.AfterFunc(ctx, it.Stop)
	out := make(chan jetstream.Msg, 64)
	go func() {
		defer close(out)
		for {
			m, err := it.Next()
			if err != nil {
				return
			}
			select {
			case out <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

type writesLoop struct {
	Writes
	a        *prometheus.Assembler
	kv       jetstream.KeyValue
	stream   jetstream.Stream
	messages <-chan jetstream.Msg
	kept     uint64 // messages before it are deleted
}

var errStreamEnded = errors.New("reading the stream of written series ended")

func (l *writesLoop) run(ctx context.Context) error {
	look, save := time.NewTicker(lookEvery), time.NewTicker(saveEvery)
	defer look.Stop()
	defer save.Stop()
	for {
		from := l.messages
		if l.a.Waiting() > maxWaiting {
			from = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m, ok := <-from:
			if !ok {
				return errStreamEnded
			}
			if err := l.take(ctx, m); err != nil {
				return err
			}
		case <-look.C:
			if err := l.publish(ctx); err != nil {
				return err
			}
		case <-save.C:
			if err := l.save(ctx); err != nil {
				return err
			}
		}
	}
}

func (l *writesLoop) take(ctx context.Context, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("reading stream %s: %w", bus.RawWrite, err)
	}
	e, err := event.FromMessage(m.Headers(), m.Data())
	var p event.GPUWrite
	if err == nil {
		err = e.Decode(&p)
	}
	if err == nil {
		err = l.a.Add(meta.Sequence.Stream, p.Part, l.Now())
	}
	if err != nil { // the door lets none of these in
		return l.PutAside(ctx, "remote-write", m.Data(), err)
	}
	return nil
}

// publish tells what there is to tell. Only when the bus has it may messages go.
func (l *writesLoop) publish(ctx context.Context) error {
	out, err := l.a.Due(l.Now())
	if err != nil {
		return err
	}
	if err := bus.PublishAll(ctx, l.JS, out.Events); err != nil {
		return err
	}
	for _, e := range out.Late {
		err := l.PutAside(ctx, "remote-write", e.Data, errLate)
		if err != nil {
			return err
		}
	}
	if l.Observe != nil {
		l.Observe(out)
	}
	return nil
}

var errLate = errors.New("a part of a scrape came after the scrape was done; it would have replaced a better reading")

// save keeps the checkpoint and then deletes the messages that it makes superfluous.
func (l *writesLoop) save(ctx context.Context) error {
	if err := l.publish(ctx); err != nil {
		return err
	}
	lowest := l.a.Lowest()
	if lowest == l.kept {
		return nil
	}
	b, err := l.a.Checkpoint(l.Now())
	if err != nil {
		return err
	}
	if _, err := l.kv.Put(ctx, writesKey, b); err != nil {
		return fmt.Errorf("saving the assembler's checkpoint: %w", err)
	}
	if err := l.stream.Purge(ctx, jetstream.WithPurgeSequence(lowest)); err != nil {
		return fmt.Errorf("emptying stream %s: %w", bus.RawWrite, err)
	}
	l.kept = lowest
	return nil
}
