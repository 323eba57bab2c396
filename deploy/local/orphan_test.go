package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// limit bounds each wait in these tests; none is expected to reach it.
const limit = time.Minute

func newLayout(t *testing.T) Layout {
	t.Helper()
	layout, err := NewLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := layout.create(); err != nil {
		t.Fatal(err)
	}
	return layout
}

// TestOrphanIsEnded launches an engine whose parent lives but is no instance, which is what an orphan looks like.
func TestOrphanIsEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	layout := newLayout(t)
	library, err := FindLibrary()
	if err != nil {
		t.Fatal(err)
	}
	options := Options{MaxServerMemory: 2 * gigabyte}.withDefaults()
	e := newEngine(layout, library, engineConfig{Layout: layout, Nonce: secret(), OwnerPassword: secret(), MaxServerMemory: options.MaxServerMemory}, options)
	if err := e.config.write(); err != nil {
		t.Fatal(err)
	}
	orphan, err := e.startOnFreePorts(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer orphan.stop(0)
	if pid, err := statusPID(layout); err != nil || pid != orphan.pid {
		t.Fatalf("the status file names %d, %v, want %d", pid, err, orphan.pid)
	}
	if err := awaitOrphanFor(ctx, layout, slog.New(slog.DiscardHandler), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	select {
	case <-orphan.done:
	case <-ctx.Done():
		t.Fatal("the orphan still runs")
	}
}

func TestStrangerIsNotKilled(t *testing.T) {
	t.Parallel()
	layout := newLayout(t)
	// This test process itself is the stranger: it survives only if the check works.
	if err := os.WriteFile(layout.EngineStatus(), fmt.Appendf(nil, "PID: %d\nStarted at: x\n", os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	holder := flock.New(layout.EngineStatus())
	if got, err := holder.TryLock(); !got || err != nil {
		t.Fatal(got, err)
	}
	defer func() { _ = holder.Close() }()
	err := awaitOrphanFor(t.Context(), layout, slog.New(slog.DiscardHandler), 10*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "not an engine of ours") || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v, want a refusal that names the process", err)
	}
}

func TestEngineOfAnotherDirectoryIsAStranger(t *testing.T) {
	t.Parallel()
	layout := Layout{Root: "/data"}
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{engineName, "lib.so", "--path", "/data/clickhouse/data"}, true},
		{[]string{engineName, "lib.so", "--path", "/data/other/clickhouse/data"}, false},
		{[]string{engineName, "lib.so", "--path"}, false},
		{[]string{"clickhouse", "lib.so", "--path", "/data/clickhouse/data"}, false},
		{nil, false},
	} {
		if got := isEngineOf(layout, c.args); got != c.want {
			t.Errorf("%q: got %v, want %v", c.args, got, c.want)
		}
	}
}

func TestAttachWaitsForAStart(t *testing.T) {
	t.Parallel()
	layout := newLayout(t)
	lock, err := acquire(t.Context(), layout)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	instance := Instance{PID: os.Getpid()}
	if err := instance.write(layout); err != nil {
		t.Fatal(err)
	}
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Attach(brief, layout.Root); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it starts: got %v, want a timeout", err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := Attach(t.Context(), layout.Root)
		got <- err
	}()
	instance.Ready = true
	if err := instance.write(layout); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		if err != nil {
			t.Errorf("after it is ready: %v", err)
		}
	case <-time.After(limit):
		t.Error("attach does not see that the instance is ready")
	}
}

func TestOlderVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"25.8.1.1", "26.7.2.1", true},
		{"26.7.2.1", "26.7.2.1", false},
		{"26.7.2.1", "26.10.1.1", true},
		{"26.7", "26.7.0.1", true},
		{"26.8", "26.7.9.9", false},
	} {
		if got := olderVersion(c.a, c.b); got != c.want {
			t.Errorf("%s older than %s: got %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestPinnedSettingsFollowTheVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"": false, "25.8.3.66": false, "26.2.1.1": true, "26.7.2.1": true} {
		if _, got := PinnedSettings(version)["deduplicate_insert"]; got != want {
			t.Errorf("deduplicate_insert for version %q: %v, want %v", version, got, want)
		}
	}
}
