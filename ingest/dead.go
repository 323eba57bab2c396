package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/schema/bus"
)

// Letter is a dead letter with its place on the stream.
type Letter struct {
	Number uint64
	Stored time.Time
	bus.DeadLetter
}

// Letters returns the dead letters, oldest first, at most limit of them.
func (p Publisher) Letters(ctx context.Context, limit int) ([]Letter, error) {
	s, err := p.JS.Stream(ctx, bus.Dead)
	if err != nil {
		return nil, fmt.Errorf("opening dead letters: %w", err)
	}
	info, err := s.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening dead letters: %w", err)
	}
	var out []Letter
	for seq := info.State.FirstSeq; seq != 0 && seq <= info.State.LastSeq && len(out) < limit; seq++ {
		l, err := p.letter(ctx, s, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// Letter returns one dead letter by its number.
func (p Publisher) Letter(ctx context.Context, number uint64) (Letter, error) {
	s, err := p.JS.Stream(ctx, bus.Dead)
	if err != nil {
		return Letter{}, fmt.Errorf("opening dead letters: %w", err)
	}
	l, err := p.letter(ctx, s, number)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Letter{}, fmt.Errorf("there is no dead letter %d; `idlewatt dead list` shows those there are", number)
	}
	return l, err
}

func (p Publisher) letter(ctx context.Context, s jetstream.Stream, seq uint64) (Letter, error) {
	m, err := s.GetMsg(ctx, seq)
	if err != nil {
		return Letter{}, fmt.Errorf("reading dead letter %d: %w", seq, err)
	}
	l := Letter{Number: seq, Stored: m.Time.UTC()}
	if err := json.Unmarshal(m.Data, &l.DeadLetter); err != nil {
		return Letter{}, fmt.Errorf("reading dead letter %d: %w", seq, err)
	}
	return l, nil
}

// ErrNotRetryable means that a dead letter never was an event of a stream.
var ErrNotRetryable = errors.New("it came from a file or a push and was refused before it became an event: mend it and send it again")

// Retry puts a dead letter's event back on its stream, under an id of its own, and drops the
// letter when the stream has it.
func (p Publisher) Retry(ctx context.Context, number uint64) error {
	l, err := p.Letter(ctx, number)
	if err != nil {
		return err
	}
	subject, ok := bus.Subject(l.Type)
	if l.Stream == "" || !ok || l.Cut > 0 {
		return fmt.Errorf("retrying dead letter %d: %w", number, ErrNotRetryable)
	}
	body := []byte(l.Data)
	if len(l.Raw) > 0 {
		body = l.Raw
	}
	h := nats.Header{}
	for k, v := range l.Headers {
		h[k] = v
	}
	// The first id is still inside the duplicate window; consumers know the event by ce-id.
	h.Set("Nats-Msg-Id", fmt.Sprintf("%s/retry/%d/%d", h.Get("ce-id"), number, p.Now().UnixNano()))
	if _, err := p.JS.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: h, Data: body}); err != nil {
		return fmt.Errorf("retrying dead letter %d: %w", number, err)
	}
	return p.Drop(ctx, number)
}

// Drop deletes a dead letter.
func (p Publisher) Drop(ctx context.Context, number uint64) error {
	s, err := p.JS.Stream(ctx, bus.Dead)
	if err != nil {
		return fmt.Errorf("opening dead letters: %w", err)
	}
	if err := s.DeleteMsg(ctx, number); err != nil {
		if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) || errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("there is no dead letter %d; `idlewatt dead list` shows those there are", number)
		}
		return fmt.Errorf("dropping dead letter %d: %w", number, err)
	}
	return nil
}
