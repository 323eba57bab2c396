package awsapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/idlewatt/idlewatt/connectors"
)

// A cursor lies in the bus, where a message is under 1 MB. What is followed over many
// accounts is packed, and one thousand machines with their tags take some ten KB.
const (
	maxPacked   = 900 << 10
	maxUnpacked = 64 << 20
)

type packed struct {
	Packed []byte `json:"gzip"`
}

// Pack makes a cursor of v. The same v gives the same cursor.
func Pack(v any) (connectors.Cursor, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing cursor: %w", err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		return nil, fmt.Errorf("writing cursor: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("writing cursor: %w", err)
	}
	cur, err := json.Marshal(packed{b.Bytes()})
	if err == nil && len(cur) > maxPacked {
		err = fmt.Errorf("it has %d KB, the bus takes %d: make several sources, with fewer regions or accounts each", len(cur)>>10, maxPacked>>10)
	}
	if err != nil {
		return nil, connectors.Permanent(fmt.Errorf("writing cursor: %w", err))
	}
	return cur, nil
}

// Unpack reads a cursor that Pack made into v. None leaves v as it is.
func Unpack(cur connectors.Cursor, v any) error {
	if cur == nil {
		return nil
	}
	var p packed
	err := json.Unmarshal(cur, &p)
	if err == nil {
		err = unpack(p.Packed, v)
	}
	if err != nil {
		return connectors.Permanent(fmt.Errorf("reading cursor: %w", err))
	}
	return nil
}

func unpack(b []byte, v any) error {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(z, maxUnpacked+1))
	if err != nil {
		return err
	}
	if len(text) > maxUnpacked {
		return errors.New("it is too large")
	}
	return json.Unmarshal(text, v)
}
