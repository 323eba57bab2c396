package normalize

import (
	"bufio"
	"errors"
	"io"
)

// lineFilter drops the empty lines of a CSV, those inside quotes excepted.
type lineFilter struct {
	r      *bufio.Reader
	quoted bool // inside a quoted field
	begun  bool // the present line has a byte already
	cr     bool // the present line is a carriage return so far
	err    error
}

// DropBlankLines reads a CSV without its empty lines, which ClickHouse's reader refuses
// between rows. Bytes of other lines are not touched.
func DropBlankLines(r io.Reader) io.Reader { return &lineFilter{r: bufio.NewReaderSize(r, 1<<20)} }

func (f *lineFilter) Read(p []byte) (int, error) {
	n := 0
	for n+1 < len(p) && f.err == nil { // a held back carriage return may come before a byte
		var b byte
		if b, f.err = f.r.ReadByte(); f.err != nil {
			break
		}
		switch {
		case f.begun:
		case b == '\n':
			f.cr = false
			continue
		case b == '\r' && !f.cr:
			f.cr = true
			continue
		}
		if f.cr {
			p[n], f.cr = '\r', false
			n++
		}
		if b == '"' {
			f.quoted = !f.quoted
		}
		f.begun = f.quoted || b != '\n'
		p[n] = b
		n++
		if f.r.Buffered() == 0 {
			break
		}
	}
	if n > 0 || len(p) < 2 && f.err == nil {
		return n, nil
	}
	return 0, f.err
}

// HasBlankLines reports whether DropBlankLines would change the CSV. It reads all of it.
func HasBlankLines(r io.Reader) (bool, error) {
	b := bufio.NewReaderSize(r, 1<<20)
	quoted, length := false, 0
	for {
		line, err := b.ReadSlice('\n')
		for _, c := range line {
			switch {
			case c == '"':
				quoted = !quoted
				length++
			case quoted || c != '\n' && c != '\r':
				length++
			}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		ended := len(line) > 0 && line[len(line)-1] == '\n'
		if ended && !quoted {
			if length == 0 {
				return true, nil
			}
			length = 0
		}
		if err != nil {
			return false, nil //nolint:nilerr // the end of the file
		}
	}
}
