package normalize

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/idlewatt/idlewatt/schema/archive"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// record writes what became of a delivery to the log that people and the command line read.
func (p *Processor) record(ctx context.Context, d event.BillingDelivery, o Outcome) error {
	b, err := p.db.PrepareBatch(context.WithoutCancel(ctx), `INSERT INTO idlewatt_store.delivery_log (Delivery, Attempt, Source, Format,
		Version, Status, Message, Objects, Scopes, Loads, Rows, BilledCost, RoundedRows, Defects, Seconds)`)
	if err != nil {
		return fmt.Errorf("recording delivery %s: %w", d.Delivery, err)
	}
	var objects [][]any
	for _, f := range d.Objects {
		objects = append(objects, []any{f.Name, f.SHA256, f.Size})
	}
	scopes, loads := []string{}, []uint64{}
	for _, s := range o.Scopes {
		scopes, loads = append(scopes, s.Name), append(loads, s.Load)
	}
	if o.Billed == nil {
		o.Billed = map[string]money.Decimal{}
	}
	if o.Defects == nil {
		o.Defects = map[string]uint64{}
	}
	if err := b.Append(d.Delivery, p.Loads.Next(), d.Source, d.Format, d.Version, o.Status, o.Message, objects, scopes, loads,
		o.Rows, o.Billed, o.RoundedRows, o.Defects, o.Took.Seconds()); err != nil {
		return fmt.Errorf("recording delivery %s: %w", d.Delivery, err)
	}
	if err := b.Send(); err != nil {
		return fmt.Errorf("recording delivery %s: %w", d.Delivery, err)
	}
	return nil
}

// stream sends an object's bytes to a server that does not share our disk.
func (p *Processor) stream(ctx context.Context, s source, stmt string) error {
	f, err := os.Open(archive.Path(p.Archive, s.object.SHA256))
	if err != nil {
		return fmt.Errorf("opening archived object: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	var body io.Reader = f
	name := "Parquet"
	if s.object.Encoding == "csv" {
		name = "CSVWithNames"
		if body, err = normalize.Decompress(f, s.object.Compression); err != nil {
			return fmt.Errorf("decompressing %s: %w", s.object.Name, err)
		}
	}
	return p.HTTP.Insert(ctx, stmt+"\nFORMAT "+name, body)
}
