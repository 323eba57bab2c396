package connectors

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/lines"
)

// Deliver announces archived files as one delivery of a bill. The id follows from source,
// format, version, claims and bytes: told again after a crash it is the same delivery. at is
// when the provider made it.
func Deliver(ctx context.Context, emit Emitter, d event.BillingDelivery, at time.Time) error {
	key := d.Format + "/" + d.Version + fmt.Sprint(d.Replaces, d.Covers, d.Assume)
	for _, o := range d.Objects {
		key += "/" + o.SHA256
	}
	d.Delivery = event.ID(d.Source, key, "1")
	e, err := event.New(event.TypeBillingDelivery, "idlewatt/"+d.Source, d.Delivery, "1", at, d)
	if err != nil {
		return err
	}
	return emit.Event(ctx, e)
}

// DeliverLines archives what write writes and delivers it, whole for the days it covers: what
// was live on a covered day goes, even if the day has no line any more. The version is the
// time at which the provider was asked. No covered day delivers nothing.
func DeliverLines(ctx context.Context, emit Emitter, source, name string, asked time.Time, covers []string, write func(w *lines.Writer) error) error {
	if len(covers) == 0 {
		return nil
	}
	var b bytes.Buffer
	w, err := lines.NewWriter(&b)
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	o, err := emit.Archive(ctx, name, &b)
	if err != nil {
		return err
	}
	n := int64(w.Count())
	return Deliver(ctx, emit, event.BillingDelivery{
		Source: source, Format: lines.Format, Objects: []event.Object{o}, Version: asked.UTC().Format(time.RFC3339Nano),
		Covers: covers, Controls: &event.DeliveryControl{Rows: &n},
	}, asked)
}

// Evidence archives an answer of a provider's API as it came and says so on the bus, so that
// a line can be traced to it. What holds a secret must be stripped first.
func Evidence(ctx context.Context, emit Emitter, source, format, name string, raw []byte, at time.Time) error {
	o, err := emit.Archive(ctx, name, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	e, err := event.New(event.TypeBillingObject, "idlewatt/"+source, o.SHA256, format, at, event.BillingObject{Source: source, Format: format, Object: o})
	if err != nil {
		return err
	}
	return emit.Event(ctx, e)
}
