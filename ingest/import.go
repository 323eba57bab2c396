package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/archive"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// Auto is the format name that asks for a guess.
const Auto = "auto"

// sniffSize is how much of a file's beginning formats get to see.
const sniffSize = 64 << 10

// Expand turns paths into files: folders stand for what lies in them, whole, sorted.
func Expand(paths []string) ([]string, error) {
	var out []string
	for _, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("opening %s: %w", p, err)
		}
		if !st.IsDir() {
			out = append(out, p)
			continue
		}
		before := len(out)
		err = filepath.WalkDir(p, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") && !strings.HasSuffix(d.Name(), ".json") {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", p, err)
		}
		if len(out) == before {
			return nil, fmt.Errorf("listing %s: the folder has no files", p)
		}
		slices.Sort(out[before:])
	}
	return out, nil
}

// Guess names the format of a file by its first bytes.
func Guess(path string, formats map[string]connectors.Format) (string, error) {
	if what, err := os.Stat(path); err == nil && !what.Mode().IsRegular() {
		return "", fmt.Errorf("opening %s: it is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("opening %s: %w", path, err)
	}
	defer f.Close() //nolint:errcheck // read only
	head := make([]byte, sniffSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	head = head[:n]
	for _, x := range formats {
		if x.Sniff != nil && x.Sniff(head) {
			return x.Name, nil
		}
	}
	o := event.Object{Name: path, Encoding: "csv", Compression: "none"}
	switch {
	case strings.HasPrefix(string(head), "PAR1"):
		o.Encoding = "parquet"
	case strings.HasPrefix(string(head), "\x1f\x8b"):
		o.Compression = "gzip"
	case strings.HasPrefix(string(head), "\x28\xb5\x2f\xfd"):
		o.Compression = "zstd"
	}
	h, err := normalize.ReadHeader(path, o)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if g, ok := normalize.Guess(h.Names()); ok {
		return g.Name, nil
	}
	return "", fmt.Errorf("%s: its header fits no known format; name one with --format (%s)", path, strings.Join(normalize.Names(), ", "))
}

// ArchiveAll archives the files of one delivery. A file that comes twice counts once.
func (p Publisher) ArchiveAll(ctx context.Context, paths []string) ([]event.Object, error) {
	var out []event.Object
	for _, path := range paths {
		o, err := p.PutFile(ctx, filepath.Base(path), path)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(x event.Object) bool { return x.SHA256 == o.SHA256 }) {
			return nil, fmt.Errorf("%s: the same bytes as another file of this delivery; name each file once", path)
		}
		out = append(out, o)
	}
	return out, nil
}

// Decoded is what came of decoding files into events.
type Decoded struct {
	Events int
	Bad    int
	First  error // the first refused part
	// LeftOut are lines on parts that have no place here, which is no fault.
	LeftOut []string
}

// Decode publishes the facts of files that a connector reads. Parts that are refused go to
// the dead letters; a file that is refused as a whole is an error, and nothing of it stays.
func (p Publisher) Decode(ctx context.Context, x connectors.Format, source string, at time.Time, paths []string) (Decoded, error) {
	var d Decoded
	for _, path := range paths {
		if err := p.decodeFile(ctx, x, source, at, path, &d); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (p Publisher) decodeFile(ctx context.Context, x connectors.Format, source string, at time.Time, path string, d *Decoded) error {
	from := path
	if !x.Private {
		o, err := p.PutFile(ctx, filepath.Base(path), path)
		if err != nil {
			return err
		}
		from = archive.Path(p.Archive.Root, o.SHA256)
	}
	f, body, err := open(from)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	return x.Decode(ctx, connectors.File{
		Name: path, Source: source, At: at, Now: p.Now(), Body: body, LeftOut: func(line string) { d.LeftOut = append(d.LeftOut, line) },
		Bad: func(ctx context.Context, raw []byte, reason error) error {
			if d.Bad++; d.First == nil {
				d.First = reason
			}
			return p.PutAside(ctx, "import", raw, reason)
		},
	}, counting{emitter{p}, &d.Events})
}

// counting counts what passes.
type counting struct {
	connectors.Emitter
	n *int
}

func (c counting) Event(ctx context.Context, e event.Event) error {
	if err := c.Emitter.Event(ctx, e); err != nil {
		return err
	}
	*c.n++
	return nil
}
