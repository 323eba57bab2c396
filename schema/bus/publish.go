package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/schema/event"
)

// ErrNeverAccepted marks an event that no stream will take: an unknown type, or too large.
var ErrNeverAccepted = errors.New("event cannot be published")

// Ensure creates or updates every stream and bucket on the server.
func Ensure(ctx context.Context, js jetstream.JetStream, replicas int) error {
	for _, s := range Streams() {
		cfg := jetstream.StreamConfig{
			Name: s.Name, Subjects: s.Subjects, MaxAge: s.MaxAge, MaxBytes: -1,
			Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, Duplicates: DuplicateWindow,
			Replicas: max(replicas, 1), AllowDirect: true,
		}
		if s.MaxBytes > 0 {
			cfg.MaxBytes = s.MaxBytes
		}
		if _, err := js.CreateOrUpdateStream(ctx, cfg); err != nil {
			return fmt.Errorf("creating stream %s: %w", s.Name, err)
		}
	}
	for _, b := range []string{BucketLeases, BucketCursors, BucketAlerts} {
		cfg := jetstream.KeyValueConfig{Bucket: b, History: 1, Storage: jetstream.FileStorage, Replicas: max(replicas, 1)}
		if _, err := js.CreateOrUpdateKeyValue(ctx, cfg); err != nil {
			return fmt.Errorf("creating bucket %s: %w", b, err)
		}
	}
	return nil
}

// Message builds the NATS message of an event. It fails with ErrNeverAccepted where no
// server would take it.
func Message(e event.Event) (*nats.Msg, error) {
	subject, ok := Subject(e.Type)
	if !ok {
		return nil, fmt.Errorf("%w: unknown event type %q", ErrNeverAccepted, e.Type)
	}
	msg := &nats.Msg{Subject: subject, Header: e.Headers(), Data: e.Data}
	if n := msg.Size(); n > MaxMessage {
		return nil, fmt.Errorf("%w: %s %s has %d bytes, a message may have %d", ErrNeverAccepted, e.Type, e.ID, n, MaxMessage)
	}
	return msg, nil
}

// Publish stores one event on its stream and returns when the server has it.
func Publish(ctx context.Context, js jetstream.JetStream, e event.Event) error {
	msg, err := Message(e)
	if err != nil {
		return err
	}
	if _, err := js.PublishMsg(ctx, msg); err != nil {
		return fmt.Errorf("publishing %s: %w", e.Type, err)
	}
	return nil
}

// PublishAll stores events in their order and returns when the server has them all. It waits
// once for many, which is quicker where there are many. After an error some may be stored.
func PublishAll(ctx context.Context, js jetstream.JetStream, events []event.Event) error {
	const atOnce = 256
	for len(events) > 0 {
		n := min(len(events), atOnce)
		stored := make([]jetstream.PubAckFuture, 0, n)
		for _, e := range events[:n] {
			msg, err := Message(e)
			if err != nil {
				return err
			}
			f, err := js.PublishMsgAsync(msg)
			if err != nil {
				return fmt.Errorf("publishing %s: %w", e.Type, err)
			}
			stored = append(stored, f)
		}
		for i, f := range stored {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				return fmt.Errorf("publishing %s: %w", events[i].Type, err)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		events = events[n:]
	}
	return nil
}

// DeadLetter is what is kept of a refused event.
type DeadLetter struct {
	Stream   string              `json:"stream,omitempty"` // where it was refused; empty for a file or a push
	Sequence uint64              `json:"sequence,omitempty"`
	Refused  string              `json:"refused_by"` // consumer, file or door
	Tries    int                 `json:"tries,omitempty"`
	Reason   string              `json:"reason"`
	At       time.Time           `json:"at"`
	Headers  map[string][]string `json:"headers,omitempty"`
	Type     string              `json:"type,omitempty"`
	Data     json.RawMessage     `json:"data,omitempty"` // the payload, if it is JSON
	Raw      []byte              `json:"raw,omitempty"`  // the payload, if it is not
	// Cut is how many bytes of Raw were left out, the payload being too large for a message.
	Cut int `json:"cut,omitempty"`
}

// maxDeadRaw keeps a dead letter below MaxMessage after base64 and headers.
const maxDeadRaw = 600_000

// PutAside stores a refused event on the DEAD stream. Its id follows from what was refused,
// where and why, so that a crash between storing and giving up makes no second letter.
func PutAside(ctx context.Context, js jetstream.JetStream, l DeadLetter) error {
	if len(l.Data) > maxDeadRaw {
		l.Raw, l.Data = l.Data, nil
	}
	if len(l.Raw) > maxDeadRaw {
		l.Raw, l.Cut = l.Raw[:maxDeadRaw], len(l.Raw)-maxDeadRaw
	}
	key := fmt.Sprintf("%s/%d/%s/%x", l.Stream, l.Sequence, l.Reason, l.Raw)
	e, err := event.New(event.TypeDead, "idlewatt/"+l.Refused, event.ID(l.Refused, key, string(l.Data)), "1", l.At, l)
	if err != nil {
		return err
	}
	return Publish(ctx, js, e)
}
