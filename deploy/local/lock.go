package local

import (
	"context"
	"fmt"
	"time"

	"github.com/gofrs/flock"
)

// lockPatience covers the moment in which a command holds the lock shared to see whether it is free.
const lockPatience = 500 * time.Millisecond

// InUseError says that another live instance holds the data directory.
type InUseError struct {
	Dir string
	// PID and Started are the holder's, zero if it had not yet written them.
	PID     int
	Started time.Time
}

// Error names the first instance and what to do.
func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("opening the data directory %s: another instance is just starting on it", e.Dir)
	}
	return fmt.Sprintf("opening the data directory %s: process %d, started %s, runs on it; stop that one or choose another directory",
		e.Dir, e.PID, e.Started.UTC().Format(time.RFC3339))
}

// acquire takes the directory's lock, or says who has it.
func acquire(ctx context.Context, layout Layout) (*flock.Flock, error) {
	lock := flock.New(layout.Lock(), flock.SetPermissions(0o600))
	patience, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	got, err := lock.TryLockContext(patience, 10*time.Millisecond)
	if got {
		return lock, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("locking the data directory: %w", ctx.Err())
	}
	if err != nil && patience.Err() == nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	holder := &InUseError{Dir: layout.Root}
	if instance, err := readInstance(layout); err == nil {
		holder.PID, holder.Started = instance.PID, instance.Started
	}
	return nil, holder
}

// held tells whether a live instance holds the directory's lock. It never creates anything.
func held(layout Layout) (bool, error) {
	if !isFile(layout.Lock()) {
		return false, nil
	}
	lock := flock.New(layout.Lock(), flock.SetPermissions(0o600))
	free, err := lock.TryRLock()
	if err != nil {
		return false, fmt.Errorf("looking at the data directory's lock: %w", err)
	}
	if err := lock.Close(); err != nil {
		return false, fmt.Errorf("looking at the data directory's lock: %w", err)
	}
	return !free, nil
}
