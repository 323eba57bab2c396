package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/bus"
)

// Source is a configured connector and when to ask it.
type Source struct {
	Name      string
	Every     time.Duration
	Connector connectors.Connector
}

// Puller runs connectors and keeps their cursors.
type Puller struct {
	Publisher
	Log *slog.Logger
	// Observe is told how each pull went; may be nil.
	Observe func(source string, took time.Duration, err error)
	// Progress is told what a long pull has just done, in one line; may be nil.
	Progress func(source, line string)
}

// maxBackoff is the longest pause after repeated failures.
const maxBackoff = 15 * time.Minute

// Run pulls every source at its interval until ctx ends. A source that fails is tried again
// with growing pauses, or when its provider said, and holds up no other.
func (p Puller) Run(ctx context.Context, sources []Source) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range sources {
		g.Go(func() error { return p.loop(ctx, s) })
	}
	return g.Wait()
}

func (p Puller) loop(ctx context.Context, s Source) error {
	failures := 0
	for ctx.Err() == nil {
		began := p.Now()
		err := p.Once(ctx, s)
		if p.Observe != nil {
			p.Observe(s.Name, p.Now().Sub(began), err)
		}
		pause := s.Every - p.Now().Sub(began)
		switch {
		case err == nil:
			failures = 0
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end was asked for
		default:
			if _, asked := connectors.RetryAfter(err); !asked { // being asked to wait is no failure
				failures++
			}
			pause = p.pauseAfter(s, failures, err)
			p.Log.WarnContext(ctx, "pulling source", slog.String("source", s.Name), slog.Duration("next_try_in", pause), slog.String("error", err.Error()))
		}
		if pause <= 0 {
			continue
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
		case <-t.C:
		}
	}
	return nil
}

func (p Puller) pauseAfter(s Source, failures int, err error) time.Duration {
	if after, ok := connectors.RetryAfter(err); ok {
		return after
	}
	if connectors.IsPermanent(err) {
		return max(s.Every, maxBackoff)
	}
	return min(maxBackoff, time.Second<<min(failures, 10))
}

// Once pulls one source and then saves its cursor: a crash in between repeats facts with the
// same ids, and skips none. A long pull saves where it is on its way, see connectors.Keep.
func (p Puller) Once(ctx context.Context, s Source) error {
	kv, err := p.JS.KeyValue(ctx, bus.BucketCursors)
	if err != nil {
		return fmt.Errorf("opening cursors: %w", err)
	}
	key := cursorKey(s.Name)
	var cur connectors.Cursor
	entry, err := kv.Get(ctx, key)
	switch {
	case err == nil:
		cur = entry.Value()
	case !errors.Is(err, jetstream.ErrKeyNotFound):
		return fmt.Errorf("reading cursor of %s: %w", s.Name, err)
	}
	k := &keeper{emitter: emitter{p.Publisher}, p: p, source: s.Name, kv: kv, saved: cur}
	next, err := s.Connector.Pull(ctx, cur, k)
	if err != nil {
		return fmt.Errorf("pulling %s: %w", s.Name, err)
	}
	return k.Save(ctx, next)
}

// keeper is the emitter of one pull, which keeps its progress.
type keeper struct {
	emitter
	p      Puller
	source string
	kv     jetstream.KeyValue
	saved  connectors.Cursor
}

var _ connectors.Keeper = (*keeper)(nil)

// Save stores the cursor if it has changed.
func (k *keeper) Save(ctx context.Context, cur connectors.Cursor) error {
	if string(cur) == string(k.saved) {
		return nil
	}
	if _, err := k.kv.Put(ctx, cursorKey(k.source), cur); err != nil {
		return fmt.Errorf("saving cursor of %s: %w", k.source, err)
	}
	k.saved = bytes.Clone(cur)
	return nil
}

func (k *keeper) Progress(ctx context.Context, line string) {
	k.p.Log.InfoContext(ctx, "pulling source", slog.String("source", k.source), slog.String("done", line))
	if k.p.Progress != nil {
		k.p.Progress(k.source, line)
	}
}

var notKey = regexp.MustCompile(`[^A-Za-z0-9_=-]`)

// cursorKey turns a source's name into a key; names are checked to be plain in the configuration.
func cursorKey(name string) string { return notKey.ReplaceAllString(name, "_") }
