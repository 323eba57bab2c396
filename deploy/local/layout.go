package local

import (
	"fmt"
	"os"
	"path/filepath"
)

// Layout names the places in a data directory.
type Layout struct {
	// Root is the data directory itself, absolute.
	Root string
}

// NewLayout returns the layout of dir, which need not exist.
func NewLayout(dir string) (Layout, error) {
	if dir == "" {
		return Layout{}, fmt.Errorf("opening the data directory: no directory given")
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		return Layout{}, fmt.Errorf("opening the data directory: %w", err)
	}
	return Layout{Root: root}, nil
}

// Lock is the file whose flock says that an instance lives.
func (l Layout) Lock() string { return filepath.Join(l.Root, "lock") }

// Instance is the file that describes the instance holding the lock.
func (l Layout) Instance() string { return filepath.Join(l.Root, "instance.json") }

// NATS is JetStream's store.
func (l Layout) NATS() string { return filepath.Join(l.Root, "nats") }

// Archive holds the delivered files.
func (l Layout) Archive() string { return filepath.Join(l.Root, "archive") }

// Log holds the engines' logs.
func (l Layout) Log() string { return filepath.Join(l.Root, "log") }

// ClickHouse holds the engine's configuration and, under data, its own files.
func (l Layout) ClickHouse() string { return filepath.Join(l.Root, "clickhouse") }

// EngineData is the --path of the engine.
func (l Layout) EngineData() string { return filepath.Join(l.ClickHouse(), "data") }

// EngineStatus is the file the engine itself locks and writes its process id to.
func (l Layout) EngineStatus() string { return filepath.Join(l.EngineData(), "status") }

// create makes the directories. They are closed to other users: bills and passwords are in them.
func (l Layout) create() error {
	for _, dir := range []string{l.Root, l.NATS(), l.Archive(), l.Log(), l.ClickHouse(), l.EngineData()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the data directory: %w", err)
		}
	}
	return nil
}

// writeFile replaces path by content in one step, readable by this user only.
func writeFile(path string, content []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // nothing is left to remove after the rename
	_, err = tmp.Write(content)
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
