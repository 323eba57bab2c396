package normalize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

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

// stream sends an object's bytes into a statement that reads them with input(): to a server
// that does not share our disk, or through a filter.
func (p *Processor) stream(ctx context.Context, s source, stmt string) error {
	body, done, err := p.bytes(s)
	if err != nil {
		return err
	}
	defer done()
	if s.filtered {
		body = normalize.DropBlankLines(body)
	}
	settings := loadSettings()
	settings["max_threads"], settings["max_insert_threads"] = 1, 1 // rows are numbered as they come
	watched := &watchedReader{r: body}
	err = p.HTTP.Insert(ctx, stmt+"\nFORMAT "+formatName(s.object), watched, settings)
	if rerr := watched.failed.Load(); rerr != nil { // the file's fault, not the store's
		return RefusedError{File: s.object.Name, Reason: unreadable(s) + (*rerr).Error() + "; fetch the file again and compare its size"}
	}
	return err
}

// watchedReader remembers why a file could not be read to its end.
type watchedReader struct {
	r      io.Reader
	failed atomic.Pointer[error]
}

func (w *watchedReader) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		w.failed.Store(&err)
	}
	return n, err
}

// bytes opens an archived object, decompressed where it is text.
func (p *Processor) bytes(s source) (body io.Reader, done func(), err error) {
	f, err := os.Open(archive.Path(p.Archive, s.object.SHA256))
	if err != nil {
		return nil, nil, fmt.Errorf("opening archived object: %w", err)
	}
	done = func() { _ = f.Close() } // read only
	if s.object.Encoding != "csv" {
		return f, done, nil
	}
	body, err = normalize.Decompress(f, s.object.Compression)
	if err != nil {
		done()
		return nil, nil, RefusedError{File: s.object.Name, Reason: unreadable(s) + err.Error()}
	}
	return body, done, nil
}

func (p *Processor) hasBlankLines(s source) (bool, error) {
	body, done, err := p.bytes(s)
	if err != nil {
		return false, err
	}
	defer done()
	return normalize.HasBlankLines(body)
}
