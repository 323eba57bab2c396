package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
	maxRestarts  = 10
)

// supervisor keeps one engine running on its ports until quit is called. It alone owns the child, and ends it
// before done is closed.
type supervisor struct {
	engine   *engine
	child    *child
	interval time.Duration
	quit     context.CancelFunc
	done     chan struct{}
	failed   chan error // gets one error when the supervisor gives up
}

func supervise(e *engine, c *child, interval time.Duration) *supervisor {
	ctx, quit := context.WithCancel(context.Background())
	s := &supervisor{engine: e, child: c, interval: interval, quit: quit, done: make(chan struct{}), failed: make(chan error, 1)}
	go s.run(ctx)
	return s
}

func (s *supervisor) run(ctx context.Context) {
	defer close(s.done)
	look := time.NewTicker(s.interval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			s.child.stop(stopPatience)
			return
		case <-s.child.done:
			s.engine.log.Error("the engine ended, starting it again", slog.Any("how", s.child.err))
			if !s.restart(ctx) {
				return
			}
		case <-look.C:
			s.reopen(ctx)
		}
	}
}

// restart starts the engine on the same ports, with growing pauses. It says false when there is no child to go
// on with: we were told to stop, or give up.
func (s *supervisor) restart(ctx context.Context) bool {
	_ = s.child.pipe.Close()
	pause := firstBackoff
	for attempt := 1; ; attempt++ {
		c, err := s.engine.start(ctx)
		if err == nil {
			s.child = c
			s.engine.log.Warn("the engine is back", slog.Int("attempt", attempt))
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if attempt == maxRestarts {
			s.failed <- fmt.Errorf("restarting ClickHouse %d times: %w", attempt, err)
			return false
		}
		s.engine.log.Error("starting the engine again", slog.Int("attempt", attempt), slog.Any("error", err))
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		pause = min(2*pause, lastBackoff)
	}
}

// reopen opens a listener again that somebody closed. Only a refused connection counts as closed: an engine
// that is slow is busy, and is left alone. With both listeners closed the engine is ended and so restarted.
func (s *supervisor) reopen(ctx context.Context) {
	tcp, web := refused(ctx, s.engine.tcpAddr()), refused(ctx, s.engine.httpAddr())
	var err error
	switch {
	case !tcp && !web:
		return
	case tcp && web:
		s.engine.log.Error("both listeners are closed, ending the engine")
		s.child.stop(stopPatience)
		return
	case tcp:
		_, err = s.engine.query(ctx, "SYSTEM START LISTEN TCP")
	default:
		err = s.engine.nativeExec(ctx, "SYSTEM START LISTEN HTTP")
	}
	if ctx.Err() != nil {
		return
	}
	s.engine.log.Warn("a listener was closed, opened it again", slog.Bool("tcp", tcp), slog.Bool("http", web), slog.Any("error", err))
}

// nativeExec runs a statement over the native port as the owner.
func (e *engine) nativeExec(ctx context.Context, sql string) error {
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{e.tcpAddr()},
		Auth: clickhouse.Auth{Username: OwnerUser, Password: e.config.OwnerPassword},
	})
	if err != nil {
		return fmt.Errorf("connecting to ClickHouse: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("asking ClickHouse: %w", err)
	}
	return nil
}

// refused tells whether nothing listens on a loopback address.
func refused(ctx context.Context, addr string) bool {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return false
}
