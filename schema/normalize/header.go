package normalize

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/idlewatt/idlewatt/schema/event"
)

// Field is one column of a file: its name as printed and, for Parquet, the ClickHouse type
// it is read as. CSV columns are all text.
type Field struct {
	Name string
	Type string
}

// Header is what a file says about itself before a row is read. Rows is -1 where only a
// full read would tell.
type Header struct {
	Fields []Field
	Rows   int64
}

// Names returns the column names in file order.
func (h Header) Names() []string {
	out := make([]string, len(h.Fields))
	for i, f := range h.Fields {
		out[i] = f.Name
	}
	return out
}

// ReadHeader reads the header of an archived object.
func ReadHeader(path string, o event.Object) (Header, error) {
	if o.Encoding == "parquet" {
		return parquetHeader(path)
	}
	return csvHeader(path, o.Compression)
}

func csvHeader(path, compression string) (Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return Header{}, fmt.Errorf("opening: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	r, err := Decompress(f, compression)
	if err != nil {
		return Header{}, fmt.Errorf("decompressing (is the file complete?): %w", err)
	}
	c := csv.NewReader(bufio.NewReader(r))
	c.LazyQuotes = true
	rec, err := c.Read()
	if errors.Is(err, io.EOF) {
		return Header{}, errors.New("the file is empty: not even a header line")
	}
	if err != nil {
		return Header{}, fmt.Errorf("reading header line (is the file complete?): %w", err)
	}
	h := Header{Rows: -1}
	for i, name := range rec {
		if i == 0 {
			name = strings.TrimPrefix(name, "\ufeff")
		}
		h.Fields = append(h.Fields, Field{Name: name, Type: "Nullable(String)"})
	}
	return h, nil
}

// Decompress reads through gzip or zstd, as an object's Compression says.
func Decompress(r io.Reader, compression string) (io.Reader, error) {
	switch compression {
	case "gzip":
		return gzip.NewReader(r)
	case "zstd":
		return zstd.NewReader(r)
	default:
		return r, nil
	}
}

func parquetHeader(path string) (Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return Header{}, fmt.Errorf("opening: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	st, err := f.Stat()
	if err != nil {
		return Header{}, fmt.Errorf("opening: %w", err)
	}
	p, err := parquet.OpenFile(f, st.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return Header{}, fmt.Errorf("reading Parquet footer (is the file complete?): %w", err)
	}
	h := Header{Rows: p.NumRows()}
	for _, c := range p.Root().Columns() {
		h.Fields = append(h.Fields, Field{Name: c.Name(), Type: parquetType(c)})
	}
	return h, nil
}

// parquetType names the ClickHouse type a column is read as; "" is a type that no contract
// column can use.
func parquetType(c *parquet.Column) string {
	if !c.Leaf() {
		if kids := c.Columns(); len(kids) == 1 && (kids[0].Name() == "key_value" || kids[0].Name() == "map") {
			return "Map(String, Nullable(String))"
		}
		return ""
	}
	if lt := c.Type().LogicalType(); lt != nil {
		switch v := lt.Value.(type) {
		case *format.TimestampType:
			return "Nullable(DateTime64(6, 'UTC'))"
		case *format.DateType:
			return "Nullable(Date32)"
		case *format.DecimalType:
			return fmt.Sprintf("Nullable(Decimal(%d, %d))", v.Precision, v.Scale)
		case *format.StringType, *format.JsonType, *format.EnumType:
			return "Nullable(String)"
		}
	}
	switch c.Type().Kind() {
	case parquet.Boolean:
		return "Nullable(Bool)"
	case parquet.Int32:
		return "Nullable(Int32)"
	case parquet.Int64:
		return "Nullable(Int64)"
	case parquet.Int96:
		return "Nullable(DateTime64(6, 'UTC'))"
	case parquet.Float:
		return "Nullable(Float32)"
	case parquet.Double:
		return "Nullable(Float64)"
	default:
		return "Nullable(String)"
	}
}
