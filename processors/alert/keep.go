package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/schema/bus"
)

// keep is the durable memory: one key per alert, and one per channel for its rate.
type keep struct{ kv jetstream.KeyValue }

// stored is an instance with the revision it was read at.
type stored struct {
	Instance
	revision uint64
}

// openKeep opens the alerts' bucket, or the one that a preview brings.
func openKeep(ctx context.Context, js jetstream.JetStream, preview string) (keep, error) {
	name := bus.BucketAlerts
	if preview != "" {
		name = preview
	}
	kv, err := js.KeyValue(ctx, name)
	if err != nil {
		return keep{}, fmt.Errorf("opening bucket %s: %w", name, err)
	}
	// What was forgotten leaves a marker behind; one start is often enough to sweep them.
	if err := kv.PurgeDeletes(ctx, jetstream.DeleteMarkersOlderThan(markersKept)); err != nil {
		return keep{}, fmt.Errorf("sweeping bucket %s: %w", bus.BucketAlerts, err)
	}
	return keep{kv: kv}, nil
}

// markersKept is how long the marker of a forgotten alert stays.
const markersKept = time.Hour

// all reads every alert there is.
func (k keep) all(ctx context.Context) (map[string]stored, error) {
	w, err := k.kv.Watch(ctx, "alert.>", jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("reading alerts: %w", err)
	}
	defer w.Stop() //nolint:errcheck // the connection's end is noticed elsewhere
	out := map[string]stored{}
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("reading alerts: %w", ctx.Err())
		case e, ok := <-w.Updates():
			if !ok {
				return nil, errors.New("reading alerts: the watcher ended")
			}
			if e == nil { // everything that was there has come
				return out, nil
			}
			s := stored{revision: e.Revision()}
			if err := json.Unmarshal(e.Value(), &s.Instance); err != nil {
				return nil, fmt.Errorf("reading alert %s: %w", e.Key(), err)
			}
			out[e.Key()] = s
		}
	}
}

// errTaken means that another evaluator wrote the same alert first.
var errTaken = errors.New("another evaluator wrote this alert")

// put writes an instance if nobody else has since it was read; an empty State deletes it.
func (k keep) put(ctx context.Context, s stored) error {
	if s.State == "" {
		if s.revision == 0 {
			return nil
		}
		return taken(k.kv.Purge(ctx, s.Key(), jetstream.LastRevision(s.revision)))
	}
	data, err := json.Marshal(s.Instance)
	if err != nil {
		return fmt.Errorf("encoding alert: %w", err)
	}
	if s.revision == 0 {
		_, err = k.kv.Create(ctx, s.Key(), data)
		return taken(err)
	}
	_, err = k.kv.Update(ctx, s.Key(), data, s.revision)
	return taken(err)
}

func taken(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrKeyExists), strings.Contains(err.Error(), "wrong last sequence"):
		return errTaken
	}
	return fmt.Errorf("storing alert: %w", err)
}

// change reads an alert anew, changes it and writes it, again if somebody else was faster.
func (k keep) change(ctx context.Context, key string, f func(*Instance)) error {
	for {
		e, err := k.kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading alert: %w", err)
		}
		s := stored{revision: e.Revision()}
		if err := json.Unmarshal(e.Value(), &s.Instance); err != nil {
			return fmt.Errorf("reading alert %s: %w", key, err)
		}
		f(&s.Instance)
		if err = k.put(ctx, s); !errors.Is(err, errTaken) {
			return err
		}
	}
}

// getChannel and putChannel keep what a channel was sent in the last hour.
func (k keep) getChannel(ctx context.Context, name string) (channelLog, error) {
	var c channelLog
	e, err := k.kv.Get(ctx, channelKey(name))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("reading channel's log: %w", err)
	}
	if err := json.Unmarshal(e.Value(), &c); err != nil {
		return c, fmt.Errorf("reading channel's log: %w", err)
	}
	return c, nil
}

func (k keep) putChannel(ctx context.Context, name string, c channelLog) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding channel's log: %w", err)
	}
	if _, err := k.kv.Put(ctx, channelKey(name), data); err != nil {
		return fmt.Errorf("storing channel's log: %w", err)
	}
	return nil
}
