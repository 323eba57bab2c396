// Package connectors defines what a feed is to idlewatt: something that fetches facts and
// hands them on, and nothing else.
//
// Each feed is one folder below this one plus one line in connectors/all. Scheduling,
// cursors, the archive and publishing belong to ingest; meaning belongs to processors.
package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/lines"
)

// Cursor is what a connector wants to remember between two pulls: JSON of its own form. Nil
// is the beginning. Ingest saves it only after everything emitted before it is safe.
type Cursor = json.RawMessage

// Connector fetches from one configured source.
type Connector interface {
	// Pull fetches what is new since the cursor, hands it to emit and returns the next
	// cursor. It is called again after a crash with the last saved cursor and must then emit
	// the same facts with the same ids. It keeps no goroutine after it returns. Errors are
	// classified by Permanent, RetryAfter and, for everything else, try again later. A pull
	// that takes long saves where it is with Keep.
	Pull(ctx context.Context, cursor Cursor, emit Emitter) (Cursor, error)
}

// Emitter takes what a connector found.
type Emitter interface {
	// Event publishes one fact and returns when the bus has stored it. Repeating an id is harmless.
	Event(ctx context.Context, e event.Event) error
	// Archive stores a file's bytes, content-addressed, and returns its reference. The name
	// is for messages only.
	Archive(ctx context.Context, name string, r io.Reader) (event.Object, error)
}

// Config is a connector's own section of the configuration file.
type Config interface {
	// Validate reports everything that is wrong, joined, each naming its field.
	Validate() error
}

// Factory describes one kind of connector.
type Factory struct {
	// Type is the word after `type:` in the configuration; also the folder's name.
	Type string
	// Summary is one line for the README table and --help.
	Summary string
	// NewConfig returns a pointer to the connector's config with its defaults; the YAML
	// section is decoded into it strictly.
	NewConfig func() Config
	// New builds a connector for the named source.
	New func(source string, cfg Config) (Connector, error)
	// Every is how often ingest pulls if the configuration does not say.
	Every time.Duration
	// Formats are the files that `idlewatt import` reads through this connector.
	Formats []Format
}

// Format reads one kind of file, for imports by hand. Bills that are files are not read here:
// their bytes are archived and normalised by the store (see schema/normalize). Exactly one of
// Decode and Lines is set.
type Format struct {
	Name string // as in --format
	// Private files may hold secrets beside their facts: their bytes are not archived.
	Private bool
	// Sniff tells from the first bytes of a file (up to 64 KiB) whether it is this format.
	Sniff func(head []byte) bool
	// Decode emits the file's facts. A bad part is an error that names file, row and column,
	// or, where the rest stands without it, is reported through Bad.
	Decode func(ctx context.Context, f File, emit Emitter) error
	// Lines writes the charges in answers of a provider's API, the files of one delivery, as
	// charge lines, and returns the days (YYYY-MM-DD) or months that they are whole for.
	Lines func(ctx context.Context, files []File, w *lines.Writer) (covers []string, err error)
}

// Doctor is a connector that can say what keeps it from working. Most are.
type Doctor interface {
	// Doctor looks and changes nothing: no event, no cursor. It returns at least one finding
	// and never puts a secret into one.
	Doctor(ctx context.Context) []Finding
}

// Levels of a finding.
const (
	OK   = "ok"
	Warn = "warn" // it works, but not as a person would expect
	Fail = "fail" // no facts come in until this is mended
)

// Finding is one thing that a doctor looked at.
type Finding struct {
	Level string // OK, Warn or Fail
	What  string // what was looked at, e.g. "s3:GetObject on arn:aws:s3:::bills/cur/*"
	Said  string // what was found, in one line
	Fix   string // what to do next; empty if Level is OK
}

// File is one file of an import by hand.
type File struct {
	Name   string // for messages
	Source string // --source
	// Account is --account, or the source: the billing account of a provider that names none.
	Account string
	At      time.Time // --at: the time of a scrape that carries none; zero if not given
	Now     time.Time // when the import was started
	Body    io.Reader
	// Bad takes a part of the file that was refused while the rest stands: the raw bytes and
	// why. It goes to the dead letters.
	Bad func(ctx context.Context, raw []byte, reason error) error
	// LeftOut takes one line on a part that has no place here and is no fault, such as a
	// payment among charges; it may be nil.
	LeftOut func(line string)
}

// Leave says that a part of the file is left out.
func (f File) Leave(line string) {
	if f.LeftOut != nil {
		f.LeftOut(line)
	}
}

// PermanentError marks an error that trying again does not mend.
type PermanentError struct{ Err error }

func (e PermanentError) Error() string { return e.Err.Error() }
func (e PermanentError) Unwrap() error { return e.Err }

// Permanent marks an error that trying again does not mend; nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return PermanentError{Err: err}
}

// IsPermanent reports whether trying again is useless.
func IsPermanent(err error) bool {
	var p PermanentError
	return errors.As(err, &p)
}

// RetryAfterError carries how long a provider asked us to wait.
type RetryAfterError struct {
	Err   error
	After time.Duration
}

func (e RetryAfterError) Error() string { return e.Err.Error() }
func (e RetryAfterError) Unwrap() error { return e.Err }

// RetryAfter reports how long to wait before the next try, if the error says so.
func RetryAfter(err error) (time.Duration, bool) {
	var r RetryAfterError
	if errors.As(err, &r) {
		return r.After, true
	}
	return 0, false
}
