package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	// orphanPatience is how long an engine whose parent was killed may take to end.
	orphanPatience = 30 * time.Second
	killPatience   = 10 * time.Second
)

// awaitOrphan returns when no engine holds the directory's status file. We hold the directory's lock, so
// whichever engine still does has lost its parent: it gets 30 s to end, then it is ended.
func awaitOrphan(ctx context.Context, layout Layout, log *slog.Logger) error {
	return awaitOrphanFor(ctx, layout, log, orphanPatience)
}

func awaitOrphanFor(ctx context.Context, layout Layout, log *slog.Logger, patience time.Duration) error {
	free, err := awaitStatus(ctx, layout, patience)
	if free || err != nil {
		return err
	}
	pid, err := statusPID(layout)
	if err != nil {
		return err
	}
	log.Warn("ending an engine whose parent is gone", slog.Int("pid", pid))
	if err := endOrphan(layout, pid); err != nil {
		return err
	}
	free, err = awaitStatus(ctx, layout, killPatience)
	if err != nil {
		return err
	}
	if !free {
		return fmt.Errorf("starting ClickHouse: process %d still holds %s after it was killed", pid, layout.EngineStatus())
	}
	return nil
}

// awaitStatus waits until the status file can be locked. It says false when patience ends first.
func awaitStatus(ctx context.Context, layout Layout, patience time.Duration) (bool, error) {
	if !isFile(layout.EngineStatus()) {
		return true, nil
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lock := flock.New(layout.EngineStatus(), flock.SetFlag(os.O_RDWR))
	got, err := lock.TryLockContext(wait, 50*time.Millisecond)
	switch {
	case got:
		return true, lock.Close()
	case errors.Is(err, os.ErrNotExist):
		return true, nil
	case ctx.Err() != nil:
		return false, fmt.Errorf("waiting for an earlier engine to end: %w", ctx.Err())
	case wait.Err() != nil:
		return false, nil
	default:
		return false, fmt.Errorf("looking at the engine's status file: %w", err)
	}
}

// statusPID reads the process id the engine wrote into its status file.
func statusPID(layout Layout) (int, error) {
	file, err := os.Open(layout.EngineStatus())
	if err != nil {
		return 0, fmt.Errorf("reading the engine's status file: %w", err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "PID: "); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || pid <= 1 {
				return 0, fmt.Errorf("reading %s: %q is no process id", layout.EngineStatus(), text)
			}
			return pid, nil
		}
	}
	return 0, fmt.Errorf("reading %s: it names no process, yet one holds it", layout.EngineStatus())
}

// endOrphan kills pid if it is an engine of this directory. The handle is taken before the check, so that a
// process which gets the same id later is never hit.
func endOrphan(layout Layout, pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("ending engine %d: %w", pid, err)
	}
	defer func() { _ = process.Release() }()
	args, err := commandLine(pid)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has just ended
	}
	if err != nil {
		return fmt.Errorf("ending engine %d: %w", pid, err)
	}
	if !isEngineOf(layout, args) {
		return fmt.Errorf("starting ClickHouse: process %d (%s) holds %s and is not an engine of ours; stop it first",
			pid, strings.Join(args, " "), layout.EngineStatus())
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending engine %d: %w", pid, err)
	}
	return nil
}

// isEngineOf tells whether a command line is that of our engine on this very data directory.
func isEngineOf(layout Layout, args []string) bool {
	path := slices.Index(args, "--path")
	return len(args) > 0 && args[0] == engineName && path >= 0 && path+1 < len(args) && args[path+1] == layout.EngineData()
}
