package ingest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/idlewatt/idlewatt/schema/archive"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Archive is the content-addressed store of delivered bytes on disk. An object is written
// beside its place, synced and renamed, so that a crash leaves a whole object or none.
type Archive struct{ Root string }

// PutFile archives a file. A file that is in the archive already is only hashed.
func (a Archive) PutFile(ctx context.Context, name, path string) (event.Object, error) {
	// Asked before it is opened: opening a pipe would wait for its writer.
	if what, err := os.Stat(path); err == nil && !what.IsDir() && !what.Mode().IsRegular() {
		return event.Object{}, fmt.Errorf("opening %s: it is no regular file; copy what it yields into one", name)
	}
	f, err := os.Open(path)
	if err != nil {
		return event.Object{}, fmt.Errorf("opening %s: %w", name, err)
	}
	defer f.Close() //nolint:errcheck // read only
	st, err := f.Stat()
	if err != nil {
		return event.Object{}, fmt.Errorf("opening %s: %w", name, err)
	}
	if st.IsDir() {
		return event.Object{}, fmt.Errorf("opening %s: it is a folder; name the files in it", name)
	}
	sum, err := hashOf(ctx, f)
	if err != nil {
		return event.Object{}, fmt.Errorf("reading %s: %w", name, err)
	}
	have, err := os.Stat(archive.Path(a.Root, sum))
	if err == nil && have.Size() == st.Size() {
		return a.describe(name, sum, st.Size())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return event.Object{}, fmt.Errorf("reading %s: %w", name, err)
	}
	o, err := a.Put(ctx, name, f)
	if err == nil && o.SHA256 != sum {
		return event.Object{}, fmt.Errorf("reading %s: it changed while it was read; try again when its writer is done", name)
	}
	return o, err
}

// Put archives a stream of bytes.
func (a Archive) Put(ctx context.Context, name string, r io.Reader) (event.Object, error) {
	tmp := filepath.Join(a.Root, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return event.Object{}, fmt.Errorf("archiving %s: %w", name, err)
	}
	f, err := os.CreateTemp(tmp, "put-*")
	if err != nil {
		return event.Object{}, fmt.Errorf("archiving %s: %w", name, err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone already after the rename
	h := sha256.New()
	n, err := copyContext(ctx, io.MultiWriter(f, h), r)
	if err = errors.Join(err, f.Sync(), f.Close(), roomFor(tmp)); err != nil {
		return event.Object{}, fmt.Errorf("archiving %s: %w", name, err)
	}
	sum := sumOf(h)
	place := archive.Path(a.Root, sum)
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return event.Object{}, fmt.Errorf("archiving %s: %w", name, err)
	}
	if err := os.Rename(f.Name(), place); err != nil {
		return event.Object{}, fmt.Errorf("archiving %s: %w", name, err)
	}
	if err := syncDir(filepath.Dir(place)); err != nil {
		return event.Object{}, fmt.Errorf("archiving %s: %w", name, err)
	}
	return a.describe(name, sum, n)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func sumOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

func hashOf(ctx context.Context, r io.Reader) (string, error) {
	h := sha256.New()
	_, err := copyContext(ctx, h, r)
	return sumOf(h), err
}

func copyContext(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	buf := make([]byte, 1<<20)
	var n int64
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		m, err := r.Read(buf)
		if m > 0 {
			if _, werr := w.Write(buf[:m]); werr != nil {
				return n, werr
			}
			n += int64(m)
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// describe tells by the bytes, never by the name, what an object is, and refuses what is
// plainly not whole.
func (a Archive) describe(name, sum string, size int64) (event.Object, error) {
	o := event.Object{SHA256: sum, Size: size, Name: name, Encoding: "csv", Compression: "none"}
	if size == 0 {
		return o, fmt.Errorf("%s: the file is empty (0 bytes); fetch it again", name)
	}
	f, err := os.Open(archive.Path(a.Root, sum))
	if err != nil {
		return o, fmt.Errorf("reading archived %s: %w", name, err)
	}
	defer f.Close() //nolint:errcheck // read only
	head, tail := make([]byte, min(size, 512)), make([]byte, min(size, 4))
	if _, err := f.ReadAt(head, 0); err != nil {
		return o, fmt.Errorf("reading archived %s: %w", name, err)
	}
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return o, fmt.Errorf("reading archived %s: %w", name, err)
	}
	switch {
	case bytes.HasPrefix(head, []byte("PAR1")):
		o.Encoding = "parquet"
		if string(tail) != "PAR1" {
			return o, fmt.Errorf("%s: Parquet file without its footer: it is cut short after %d bytes; fetch it again", name, size)
		}
	case compression(head) != "none":
		o.Compression = compression(head)
	case bytes.HasPrefix(bytes.TrimLeft(head, " \r\n\t"), []byte("{")):
		o.Encoding = "json" // an answer of an API, kept as evidence
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return o, fmt.Errorf("%s: zip archives are not read; unpack it and import what is in it", name)
	case bytes.IndexByte(head, 0) >= 0:
		return o, fmt.Errorf("%s: binary data that is neither CSV, gzip, zstd nor Parquet", name)
	default:
		if err := balancedQuotes(f); err != nil {
			return o, fmt.Errorf("%s: %w", name, err)
		}
	}
	if ext := strings.ToLower(filepath.Ext(name)); ext == ".parquet" && o.Encoding != "parquet" || ext == ".gz" && o.Compression != "gzip" {
		return o, fmt.Errorf("%s: the name says %s, the bytes are %s (%s); name the file for what it is", name, ext, o.Encoding, o.Compression)
	}
	return o, nil
}

// compression tells by the first bytes; "none" is not compressed.
func compression(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return "gzip"
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	default:
		return "none"
	}
}

// balancedQuotes refuses a CSV that ends inside a quoted field: readers take the end of the
// file for the end of the field and lose what followed.
func balancedQuotes(f io.ReadSeeker) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	quotes := 0
	for {
		n, err := f.Read(buf)
		quotes += bytes.Count(buf[:n], []byte{'"'})
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if quotes%2 != 0 {
		return errors.New("the text ends inside a quoted field: it is cut short, or a quote is not doubled; fetch it again")
	}
	return nil
}
