package demo

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/parquet-go/parquet-go"
)

// rowGroup is how many rows AWS-like files hold per row group; batch how many are handed to
// the writer at once.
const (
	rowGroup = 100_000
	batch    = 512
)

// file writes lines to one Parquet file.
type file struct {
	path string
	f    *os.File
	buf  *bufio.Writer
	w    *parquet.GenericWriter[any]
	cols []column
	rows []parquet.Row
	n    int
}

func create(path string) (*file, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("creating bill: %w", err)
	}
	out := &file{path: path, f: f, buf: bufio.NewWriterSize(f, 1<<20), cols: columns(), rows: make([]parquet.Row, batch)}
	group := parquet.Group{}
	for _, c := range out.cols {
		group[c.name] = c.node()
	}
	out.w = parquet.NewGenericWriter[any](out.buf, parquet.NewSchema("export", group),
		parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(rowGroup),
		parquet.CreatedBy("idlewatt-demo", "1", "0"))
	return out, nil
}

// add appends one line.
func (f *file) add(l *line) error {
	f.rows[f.n] = row(f.rows[f.n][:0], f.cols, l)
	f.n++
	if f.n == len(f.rows) {
		return f.flush()
	}
	return nil
}

func (f *file) flush() error {
	if _, err := f.w.WriteRows(f.rows[:f.n]); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	f.n = 0
	return nil
}

func (f *file) close() error {
	err := errors.Join(f.flush(), f.w.Close(), f.buf.Flush(), f.f.Close())
	if err != nil {
		return fmt.Errorf("closing %s: %w", f.path, err)
	}
	return nil
}

// row lays a line out as Parquet values, in the order of the columns.
func row(r parquet.Row, cols []column, l *line) parquet.Row {
	i := 0
	for _, c := range cols {
		switch {
		case c.text != nil:
			r = append(r, textValue(c.text(l), i))
		case c.double != nil:
			r = append(r, doubleValue(c.double(l), i))
		case c.at != nil:
			r = append(r, parquet.Int64Value(c.at(l).UnixMilli()).Level(0, 1, i))
		case c.rates != nil:
			r = doubles(r, c.rates(l), i)
			i++
		default:
			r = texts(r, c.pairs(l), i)
			i++
		}
		i++
	}
	return r
}

func textValue(s string, column int) parquet.Value {
	if s == "" {
		return parquet.NullValue().Level(0, 0, column)
	}
	return parquet.ByteArrayValue([]byte(s)).Level(0, 1, column)
}

func doubleValue(v opt, column int) parquet.Value {
	if !v.ok {
		return parquet.NullValue().Level(0, 0, column)
	}
	return parquet.DoubleValue(v.v.double()).Level(0, 1, column)
}

// texts appends a map of optional strings: all keys, then all values.
func texts(r parquet.Row, m []pair, column int) parquet.Row {
	if len(m) == 0 {
		return append(r, parquet.NullValue().Level(0, 0, column), parquet.NullValue().Level(0, 0, column+1))
	}
	for i, p := range m {
		r = append(r, parquet.ByteArrayValue([]byte(p.key)).Level(min(i, 1), 1, column))
	}
	for i, p := range m {
		r = append(r, parquet.ByteArrayValue([]byte(p.value)).Level(min(i, 1), 2, column+1))
	}
	return r
}

// doubles appends a map of required doubles.
func doubles(r parquet.Row, m []amountPair, column int) parquet.Row {
	if len(m) == 0 {
		return append(r, parquet.NullValue().Level(0, 0, column), parquet.NullValue().Level(0, 0, column+1))
	}
	for i, p := range m {
		r = append(r, parquet.ByteArrayValue([]byte(p.key)).Level(min(i, 1), 1, column))
	}
	for i, p := range m {
		r = append(r, parquet.DoubleValue(p.value.double()).Level(min(i, 1), 1, column+1))
	}
	return r
}
