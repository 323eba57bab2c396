// Package localtest gives the tests of other packages real engines, one pair per test binary or one per test.
//
// What lives here: starting, sharing and ending them, with a clear failure when the library is missing. What does
// not: migrations, streams and test data, which belong to the package under test.
//
//	func TestMain(m *testing.M) { localtest.Main(m) }
//
//	func TestX(t *testing.T) {
//		engines := localtest.Start(t) // shared: use names of your own, see Name
//		own := localtest.Fresh(t)     // a pair for this test only, about 0.3 s
//	}
package localtest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/deploy/local"
)

const (
	startTimeout = 90 * time.Second
	// serverMemory keeps several engines on one small machine apart.
	serverMemory = 3_000_000_000
)

// shared is the pair of this test binary. Main ends it.
var shared struct {
	once    sync.Once
	dir     string
	engines *local.Engines
	err     error
}

// Main is the whole TestMain of a package that uses engines. It does not return.
func Main(m *testing.M) {
	local.RunChildIfAsked()
	QuickExit()
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// QuickExit spares the engines of a test binary built with -race the second which the race detector waits at
// the end of every process. Main calls it.
func QuickExit() {
	if os.Getenv("GORACE") == "" {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // for child processes only: ours has read it already
	}
}

// Start returns the pair shared by all tests of the binary, starting it on first use. Tests that run side by side
// must use names of their own (Name) for databases, streams and subjects, or Fresh.
func Start(t testing.TB) *local.Engines {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "idlewatt-test-*"); shared.err == nil {
			shared.engines, shared.err = start(shared.dir, nil)
		}
	})
	if shared.err != nil {
		t.Fatalf("starting the shared engines: %v", shared.err)
	}
	return shared.engines
}

// Fresh returns a pair on an empty data directory that ends with the test.
func Fresh(t testing.TB) *local.Engines {
	t.Helper()
	engines, err := start(t.TempDir(), slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		t.Fatalf("starting engines: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		if err := engines.Stop(ctx); err != nil {
			t.Errorf("stopping engines: %v", err)
		}
	})
	return engines
}

// Name turns the test's name into one that is valid for a database, a stream and a subject token.
func Name(t testing.TB) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, t.Name())
}

func start(dir string, log *slog.Logger) (*local.Engines, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return local.Start(ctx, local.Options{Dir: dir, Log: log, MaxServerMemory: serverMemory})
}

func stopShared() error {
	if shared.dir == "" {
		return nil
	}
	defer func() { _ = os.RemoveAll(shared.dir) }()
	if shared.engines == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return shared.engines.Stop(ctx)
}
