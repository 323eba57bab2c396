package connectors

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A cursor has to fit a message of 1 MB. What is larger than packFrom is compressed.
const (
	packFrom  = 256 << 10
	packLimit = 64 << 20
)

type packed struct {
	Gzip []byte `json:"gzip"`
}

// Pack turns what a connector remembers into a cursor. The same memory gives the same cursor.
func Pack(memory any) (Cursor, error) {
	b, err := json.Marshal(memory)
	if err != nil || len(b) < packFrom {
		return b, err
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return json.Marshal(packed{z.Bytes()})
}

// Unpack reads what Pack made, or plain JSON. No cursor leaves the memory as it is; a broken
// one is a permanent error.
func Unpack(cur Cursor, memory any) error {
	if cur == nil {
		return nil
	}
	fail := func(err error) error { return Permanent(fmt.Errorf("reading cursor: %w", err)) }
	var p packed
	if err := json.Unmarshal(cur, &p); err == nil && p.Gzip != nil {
		r, err := gzip.NewReader(bytes.NewReader(p.Gzip))
		if err != nil {
			return fail(err)
		}
		b, err := io.ReadAll(io.LimitReader(r, packLimit+1))
		if err == nil && len(b) > packLimit {
			err = errors.New("too large")
		}
		if err != nil {
			return fail(err)
		}
		cur = b
	}
	if err := json.Unmarshal(cur, memory); err != nil {
		return fail(err)
	}
	return nil
}
