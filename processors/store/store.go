// Package store is the processors' way to ClickHouse: one connection pool with pinned
// settings, load numbers, and bulk statements over HTTP.
//
// What the tables are is in schema/migrations. No question of a report lives here.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// DB is a pool of connections to ClickHouse.
type DB struct {
	driver.Conn
	SQL *sql.DB // the same server through database/sql, for migrations
}

// Open connects with the given options (a fresh value at each call, pinned settings and
// credentials included) and checks that the server answers.
func Open(ctx context.Context, options func() *clickhouse.Options) (*DB, error) {
	opts := func() *clickhouse.Options {
		o := options()
		o.MaxOpenConns, o.MaxIdleConns, o.ReadTimeout = 16, 8, time.Hour
		return o
	}
	addr := strings.Join(opts().Addr, ", ")
	conn, err := clickhouse.Open(opts())
	if err != nil {
		return nil, fmt.Errorf("opening ClickHouse at %s: %w", addr, err)
	}
	if err := conn.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reaching ClickHouse at %s: %w", addr, err), conn.Close())
	}
	return &DB{Conn: conn, SQL: clickhouse.OpenDB(opts())}, nil
}

// Close ends both pools.
func (d *DB) Close() error { return errors.Join(d.SQL.Close(), d.Conn.Close()) }

// loadEpoch is where load numbers start counting: 10-microsecond steps since 2024, which
// leaves 16 bits for the parts of one attempt until the year 2113.
var loadEpoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// Loads hands out load numbers: unique, growing, in steps of 1<<16. The low bits are the
// attempt's to use, one value for each scope it writes.
type Loads struct {
	last atomic.Uint64
	now  func() time.Time
}

// NewLoads returns a source of load numbers that reads the given clock.
func NewLoads(now func() time.Time) *Loads { return &Loads{now: now} }

// Next returns a number larger than all before it, with its low 16 bits clear. A clock that
// stands still or goes back does not repeat a number of this process.
func (l *Loads) Next() uint64 {
	want := uint64(max(0, l.now().Sub(loadEpoch)/(10*time.Microsecond))) << 16
	for {
		last := l.last.Load()
		next := max(want, last+1<<16)
		if l.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Floor makes sure that later numbers are above n, the largest one the store has seen, so
// that a clock set back between two runs does not make an old load the newest.
func (l *Loads) Floor(n uint64) {
	n = n &^ 0xffff
	for {
		last := l.last.Load()
		if n <= last || l.last.CompareAndSwap(last, n) {
			return
		}
	}
}

// maxErrorText is enough for what people need of a server's message.
const maxErrorText = 600

// ErrorText returns what ClickHouse said, without the stack and version noise.
func ErrorText(err error) string {
	var ex *clickhouse.Exception
	if !errors.As(err, &ex) {
		return err.Error()
	}
	msg := ex.Message
	for _, noise := range []string{": In scope ", " in scope ", ": while executing", ": While executing"} {
		if i := strings.Index(msg, noise); i > 0 {
			msg = msg[:i]
		}
	}
	if len(msg) > maxErrorText {
		msg = msg[:maxErrorText] + "..."
	}
	return fmt.Sprintf("%s (code %d)", strings.TrimSpace(msg), ex.Code)
}

// Full reports whether the store refuses because its disk is full, which waiting does not mend.
func Full(err error) bool {
	var ex *clickhouse.Exception
	return errors.As(err, &ex) && ex.Code == 243
}

// Temporary reports whether the error is the store's momentary state (too many parts,
// memory, network, shutting down) and the same statement may succeed later.
func Temporary(err error) bool {
	var ex *clickhouse.Exception
	if !errors.As(err, &ex) {
		return err != nil && !errors.Is(err, context.Canceled)
	}
	switch ex.Code {
	case 159, 160, 202, 209, 210, 236, 241, 243, 252, 319, 394, 999:
		return true
	}
	return false
}
