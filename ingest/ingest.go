// Package ingest takes what connectors and people deliver and makes it safe: it archives
// bytes, publishes events, keeps cursors, opens the HTTP door and looks after dead letters.
//
// It knows when and how often to ask and how not to lose what it got. What a fact means is a
// processor's matter, what a provider's JSON looks like a connector's.
package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Publisher is the connectors' way to the archive and the bus.
type Publisher struct {
	JS      jetstream.JetStream
	Archive Archive
	Now     func() time.Time
}

// Event publishes one fact and returns when the bus has stored it.
func (p Publisher) Event(ctx context.Context, e event.Event) error {
	return bus.Publish(ctx, p.JS, e)
}

// PutFile stores a file's bytes in the archive and returns its reference.
func (p Publisher) PutFile(ctx context.Context, name, path string) (event.Object, error) {
	return p.Archive.PutFile(ctx, name, path)
}

// PutAside keeps a part that was refused while the rest stands.
func (p Publisher) PutAside(ctx context.Context, by string, raw []byte, reason error) error {
	return bus.PutAside(ctx, p.JS, bus.DeadLetter{Refused: by, Reason: reason.Error(), At: p.Now(), Raw: bytes.Clone(raw)})
}

// emitter is what a connector sees of a Publisher.
type emitter struct{ Publisher }

func (e emitter) Archive(ctx context.Context, name string, r io.Reader) (event.Object, error) {
	return e.Publisher.Archive.Put(ctx, name, r)
}

// Emitter returns the connectors' view of the publisher.
func (p Publisher) Emitter() interface {
	Event(ctx context.Context, e event.Event) error
	Archive(ctx context.Context, name string, r io.Reader) (event.Object, error)
} {
	return emitter{p}
}

// Delivery says which files make one delivery of a bill.
type Delivery struct {
	Source, Format, Version string
	Objects                 []event.Object
	Replaces                []string
	Covers                  []string // see event.BillingDelivery
	Assume                  event.Assumptions
	Controls                *event.DeliveryControl
	// Attempt tells apart two imports of the same files by hand, each of which wants an
	// answer of its own. Connectors leave it empty: their repeats are the same delivery.
	Attempt string
}

// Deliver announces the objects and then the delivery they make, and returns the delivery's
// id: the same for the same files, version, claims and attempt.
func (p Publisher) Deliver(ctx context.Context, d Delivery) (event.BillingDelivery, error) {
	if len(d.Objects) == 0 {
		return event.BillingDelivery{}, errors.New("announcing a delivery: it has no files")
	}
	key := d.Format + "/" + d.Version + fmt.Sprint(d.Replaces, d.Covers, d.Assume)
	for _, o := range d.Objects {
		key += "/" + o.SHA256
		e, err := event.New(event.TypeBillingObject, "idlewatt/"+d.Source, o.SHA256, d.Format, p.Now(),
			event.BillingObject{Source: d.Source, Format: d.Format, Object: o})
		if err != nil {
			return event.BillingDelivery{}, err
		}
		if err := p.Event(ctx, e); err != nil {
			return event.BillingDelivery{}, err
		}
	}
	out := event.BillingDelivery{
		Delivery: event.ID(d.Source, key, d.Attempt), Source: d.Source, Format: d.Format, Objects: d.Objects,
		Version: d.Version, Replaces: d.Replaces, Covers: d.Covers, Assume: d.Assume, Controls: d.Controls,
	}
	e, err := event.New(event.TypeBillingDelivery, "idlewatt/"+d.Source, out.Delivery, "1", p.Now(), out)
	if err != nil {
		return event.BillingDelivery{}, err
	}
	return out, p.Event(ctx, e)
}
