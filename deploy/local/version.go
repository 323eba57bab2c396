package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// oldestServer is the oldest external ClickHouse we talk to.
const oldestServer = "25.8"

// versionRecord is clickhouse/version.json: which engine last opened the data, and from which library. The
// library's size and time spare us asking it for its version at every start.
type versionRecord struct {
	Engine   string    `json:"engine"`
	Size     int64     `json:"library_size"`
	Modified time.Time `json:"library_modified"`
}

// checkVersion refuses an engine older than the one that last opened the directory, before it touches a file.
func (e *engine) checkVersion(ctx context.Context) error {
	content, err := os.ReadFile(e.versionFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the data directory's engine version: %w", err)
	}
	var recorded versionRecord
	if err := json.Unmarshal(content, &recorded); err != nil {
		return fmt.Errorf("reading %s: %w", e.versionFile(), err)
	}
	current, err := e.libraryRecord()
	if err != nil {
		return err
	}
	current.Engine = recorded.Engine
	if current.Size == recorded.Size && current.Modified.Equal(recorded.Modified) {
		return nil
	}
	if current.Engine, err = libraryVersion(ctx, e.library); err != nil {
		return err
	}
	if olderVersion(current.Engine, recorded.Engine) {
		return fmt.Errorf("opening %s: it was written by ClickHouse %s and %s is %s, which is older; run `make setup` for the newer library",
			e.layout.ClickHouse(), recorded.Engine, e.library, current.Engine)
	}
	return nil
}

// recordVersion notes the running engine's version and returns it.
func (e *engine) recordVersion(ctx context.Context) (string, error) {
	version, err := e.query(ctx, "SELECT version()")
	if err != nil {
		return "", err
	}
	record, err := e.libraryRecord()
	if err != nil {
		return "", err
	}
	record.Engine = version
	content, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return "", fmt.Errorf("recording the engine version: %w", err)
	}
	return version, writeFile(e.versionFile(), append(content, '\n'))
}

func (e *engine) versionFile() string { return filepath.Join(e.layout.ClickHouse(), "version.json") }

func (e *engine) libraryRecord() (versionRecord, error) {
	info, err := os.Stat(e.library)
	if err != nil {
		return versionRecord{}, fmt.Errorf("looking at the ClickHouse library: %w", err)
	}
	return versionRecord{Size: info.Size(), Modified: info.ModTime().UTC()}, nil
}

// askVersion asks an external server, which also tells whether it is there and lets us in.
func (i *Instance) askVersion(ctx context.Context) error {
	conn, err := clickhouse.Open(i.options(i.User, i.Password, nil))
	if err != nil {
		return fmt.Errorf("connecting to ClickHouse at %s: %w", i.Addr, err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.QueryRow(ctx, "SELECT version()").Scan(&i.EngineVersion); err != nil {
		return fmt.Errorf("connecting to ClickHouse at %s: %w", i.Addr, err)
	}
	if olderVersion(i.EngineVersion, oldestServer) {
		return fmt.Errorf("connecting to ClickHouse at %s: it is version %s, and %s is the oldest that is supported", i.Addr, i.EngineVersion, oldestServer)
	}
	return nil
}

// libraryVersion asks a library for its version, in a process that opens no data.
func libraryVersion(ctx context.Context, library string) (string, error) {
	binary, err := selfPath()
	if err != nil {
		return "", fmt.Errorf("asking the library's version: %w", err)
	}
	cmd := exec.CommandContext(ctx, binary)
	cmd.Args = []string{engineName, library, "--output-format", "TSV", "--query", "SELECT version()"}
	cmd.Env, cmd.SysProcAttr = childEnv(), childAttributes()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking the library's version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// olderVersion compares dotted versions number by number.
func olderVersion(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		x, y := versionPart(as, i), versionPart(bs, i)
		if x != y {
			return x < y
		}
	}
	return false
}

func versionPart(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, _ := strconv.Atoi(parts[i]) // what is no number counts as 0
	return n
}
