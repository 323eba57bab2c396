package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/lines"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// Lines turns saved answers of a provider's API into the delivery of charge lines that they
// make. The answers themselves are not archived: by hand they may hold secrets that a
// connector would have left out.
// leftOut is told what of them is no charge.
func (p Publisher) Lines(ctx context.Context, x connectors.Format, d Delivery, account string, paths []string, leftOut func(line string)) (Delivery, error) {
	files, done, err := p.openAll(connectors.File{Source: d.Source, Account: account, Now: p.Now(), LeftOut: leftOut}, paths)
	defer done()
	if err != nil {
		return d, err
	}
	tmp, err := os.CreateTemp("", "idlewatt-lines-*.csv")
	if err != nil {
		return d, fmt.Errorf("writing charge lines: %w", err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // temporary
	w, err := lines.NewWriter(tmp)
	if err != nil {
		return d, errors.Join(err, tmp.Close())
	}
	covers, err := x.Lines(ctx, files, w)
	if err = errors.Join(err, w.Close(), tmp.Close()); err != nil {
		return d, err
	}
	if len(covers) == 0 {
		return d, fmt.Errorf("%s: the files hold no complete day of charges", filepath.Base(paths[0]))
	}
	o, err := p.PutFile(ctx, x.Name+".csv", tmp.Name())
	if err != nil {
		return d, err
	}
	n := int64(w.Count())
	d.Format, d.Objects, d.Covers, d.Controls = lines.Format, []event.Object{o}, append(d.Covers, covers...), &event.DeliveryControl{Rows: &n}
	return d, nil
}

// openAll opens files that are alike but for their names and bodies.
func (p Publisher) openAll(like connectors.File, paths []string) ([]connectors.File, func(), error) {
	var opened []*os.File
	done := func() {
		for _, f := range opened {
			_ = f.Close() // read only
		}
	}
	var files []connectors.File
	for _, path := range paths {
		f, body, err := open(path)
		if err != nil {
			return nil, done, err
		}
		opened = append(opened, f)
		like.Name, like.Body = filepath.Base(path), body
		files = append(files, like)
	}
	return files, done, nil
}

// open opens a file and what it is compressed with.
func open(path string) (*os.File, io.Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening %s: %w", path, err)
	}
	head := make([]byte, 4)
	n, _ := f.ReadAt(head, 0) // a short file has no magic number
	body, err := normalize.Decompress(f, compression(head[:n]))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("decompressing %s: %w", path, err), f.Close())
	}
	return f, body, nil
}
