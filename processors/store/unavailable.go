package store

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Unavailable reports whether the store as such does not take anything now: it is down, out
// of reach, out of memory or disk, or asks for fewer parts. Such an error says nothing about
// the event at hand, so it never counts against it, however often it comes.
func Unavailable(err error) bool {
	var ex *clickhouse.Exception
	if errors.As(err, &ex) {
		return Temporary(err)
	}
	var network net.Error
	if errors.As(err, &network) {
		return true
	}
	for _, e := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE,
		clickhouse.ErrAcquireConnTimeout, clickhouse.ErrAcquireConnNoAddress,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
