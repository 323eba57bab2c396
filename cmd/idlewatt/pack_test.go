package main

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"
)

// pack writes a CSV in another packing. In Parquet every column is text.
func pack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: pack gzip|zstd|parquet FROM TO")
	}
	in, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	var out bytes.Buffer
	switch args[0] {
	case "gzip":
		w := gzip.NewWriter(&out)
		_, err = w.Write(in)
		ts.Check(err)
		ts.Check(w.Close())
	case "zstd":
		w, err := zstd.NewWriter(nil)
		ts.Check(err)
		out.Write(w.EncodeAll(in, nil))
	case "parquet":
		ts.Check(writeParquet(&out, in))
	default:
		ts.Fatalf("unknown packing %q", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), out.Bytes(), 0o600))
}

func writeParquet(out *bytes.Buffer, in []byte) error {
	lines, err := csv.NewReader(bytes.NewReader(in)).ReadAll()
	if err != nil {
		return err
	}
	group := parquet.Group{}
	for _, name := range lines[0] {
		group[name] = parquet.Optional(parquet.String())
	}
	schema := parquet.NewSchema("bill", group)
	w := parquet.NewWriter(out, schema)
	for _, line := range lines[1:] {
		var row parquet.Row
		for i, column := range schema.Columns() {
			cell := line[slices.Index(lines[0], column[0])]
			value := parquet.ValueOf(cell).Level(0, 1, i)
			if cell == "" {
				value = parquet.ValueOf(nil).Level(0, 0, i)
			}
			row = append(row, value)
		}
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			return err
		}
	}
	return w.Close()
}
