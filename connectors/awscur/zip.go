package awscur

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/idlewatt/idlewatt/connectors"
)

// unpack reads the one CSV in a zip as gzip, or plain if it is not compressed in there, and
// returns the name it goes by then. Both wrap the same deflate stream: the member's bytes pass
// as they are between a gzip head and tail, so that nothing is compressed anew and the same
// zip always gives the same bytes. The checksum is checked by whoever reads the gzip.
func unpack(b *body) (name string, r io.Reader, err error) {
	z, err := zip.NewReader(b, b.f.size)
	if err != nil {
		if b.err != nil {
			return "", nil, b.err
		}
		return "", nil, fmt.Errorf("s3://%s/%s is no whole zip: %w", b.s.cfg.Bucket, b.f.key, err)
	}
	var member *zip.File
	for _, m := range z.File {
		switch {
		case strings.HasSuffix(m.Name, "/"):
		case member != nil:
			return "", nil, connectors.Permanent(fmt.Errorf("s3://%s/%s holds several files (%s, %s, ...): a zip with one CSV is read; choose gzip or Parquet for the report",
				b.s.cfg.Bucket, b.f.key, member.Name, m.Name))
		default:
			member = m
		}
	}
	if member == nil {
		return "", nil, fmt.Errorf("s3://%s/%s is a zip without a file", b.s.cfg.Bucket, b.f.key)
	}
	name = strings.TrimSuffix(strings.TrimSuffix(b.f.key, ".zip"), ".csv") + ".csv"
	switch {
	case member.Flags&1 != 0:
		err = errors.New("is encrypted")
	case member.Method == zip.Store:
		r, err = member.Open()
	case member.Method == zip.Deflate:
		name += ".gz"
		if r, err = member.OpenRaw(); err == nil {
			r = io.MultiReader(bytes.NewReader(gzipHead), r, bytes.NewReader(gzipTail(member)))
		}
	default:
		err = fmt.Errorf("is compressed by method %d, not deflate", member.Method)
	}
	if err != nil {
		if b.err != nil {
			return "", nil, b.err
		}
		return "", nil, connectors.Permanent(fmt.Errorf("s3://%s/%s: %s %w", b.s.cfg.Bucket, b.f.key, member.Name, err))
	}
	return name, r, nil
}

// gzipHead is a gzip header without name and time (RFC 1952).
var gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// gzipTail is the checksum and the length modulo 2^32 of what is compressed.
func gzipTail(m *zip.File) []byte {
	tail := binary.LittleEndian.AppendUint32(nil, m.CRC32)
	return binary.LittleEndian.AppendUint32(tail, uint32(m.UncompressedSize64&0xffffffff)) // modulo 2^32, as RFC 1952 says
}
