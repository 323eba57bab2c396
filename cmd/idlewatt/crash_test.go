package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/deploy/demo"
	"github.com/idlewatt/idlewatt/deploy/local"
)

// machine is a data directory and the commands that are run on it, each a process.
type machine struct {
	*testing.T
	data, bin string
}

func newMachine(t *testing.T) machine {
	t.Helper()
	bin, err := exec.LookPath("idlewatt")
	if err != nil {
		t.Fatal(err)
	}
	return machine{t, filepath.Join(t.TempDir(), "data"), bin}
}

func (m machine) command(args ...string) *exec.Cmd {
	c := exec.Command(m.bin, args...) // ended by the test itself, at a moment of its choice
	c.Env = append(os.Environ(), "IDLEWATT_DATA="+m.data, "GORACE=atexit_sleep_ms=0")
	return c
}

func (m machine) run(args ...string) string {
	m.Helper()
	out, err := m.command(args...).CombinedOutput()
	if err != nil {
		m.Fatalf("idlewatt %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// glance asks the running instance, if there is one, as a dashboard would. It returns "" where
// nobody answers.
func (m machine) glance(ctx context.Context, sql string) string {
	inst, err := local.ReadInstance(m.data)
	if err != nil || inst.HTTPURL == "" {
		return ""
	}
	q := url.Values{"query": {sql}, "user": {inst.User}, "password": {inst.Password}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(inst.HTTPURL, "/")+"/?"+q.Encode(), nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(text))
}

const liveSQL = "SELECT concat(toString(count()), ' rows, ', toString(sum(BilledCost))) FROM idlewatt.charges"

// watch looks at the bill all the time and fails the test on anything but the allowed sights.
func (m machine) watch(allowed ...string) (seen func() int64) {
	m.Helper()
	ctx, cancel := context.WithCancel(m.Context())
	done := make(chan struct{})
	var looks atomic.Int64
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if got := m.glance(ctx, liveSQL); got != "" {
				looks.Add(1)
				ok := false
				for _, a := range allowed {
					ok = ok || got == a
				}
				if !ok {
					m.Errorf("a reader saw %s, want one of %q", got, allowed)
					return
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() int64 { cancel(); <-done; return looks.Load() }
}

func (m machine) eventually(what string, done func() bool) {
	m.Helper()
	deadline := time.After(2 * patience)
	for !done() {
		select {
		case <-deadline:
			m.Fatalf("it never came to pass that %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// processes lists the commands that name this data directory.
func (m machine) processes() []string {
	var out []string
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		m.Fatal(err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && bytes.Contains(text, []byte(m.data)) {
			out = append(out, f+": "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return out
}

func (m machine) generate(name string, rows int) string {
	m.Helper()
	path := filepath.Join(m.TempDir(), name)
	if err := demo.GenerateCUR(path, rows, 1); err != nil {
		m.Fatal(err)
	}
	return path
}

// An import is killed again and again, at random moments and at the worst one: when its rows
// are in the store and not yet committed. A reader sees the old bill or the new one, whole,
// at every moment; the delivery goes live once, without anybody asking again, with the sums
// that a quiet import has; no process is left over.
func TestKilledImportsGoLiveOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	old, month := m.generate("old.parquet", 1000), m.generate("month.parquet", 300_000)
	m.run("import", "-q", "--source", "payer", "--format", "aws-cur2", "--version", "1", old)
	before := m.run("query", liveSQL)
	want := func() string {
		quiet := machine{t, filepath.Join(t.TempDir(), "quiet"), m.bin}
		quiet.run("import", "-q", "--source", "payer", "--format", "aws-cur2", "--version", "2", month)
		return quiet.run("query", liveSQL)
	}()
	if !strings.HasPrefix(before, "1000 rows") || !strings.HasPrefix(want, "300000 rows") {
		t.Fatalf("before: %s, after: %s", before, want)
	}
	looks := m.watch(before, want)
	importMonth := []string{"import", "-q", "--source", "payer", "--format", "aws-cur2", "--version", "2", month}
	for range 2 {
		m.killAt(m.command(importMonth...), rand.N(3*time.Second)) //nolint:gosec // a moment, not a secret
	}
	m.killInLoad(importMonth)
	up := m.command("up", "-c", m.config())
	var log bytes.Buffer
	up.Stdout, up.Stderr = &log, &log
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	m.eventually("the killed delivery is live", func() bool { return m.glance(t.Context(), liveSQL) == want })
	got := m.glance(t.Context(), "SELECT count(), uniqExact(x_Object, x_Row) FROM idlewatt.charges")
	if got != "300000\t300000" {
		t.Errorf("rows and different rows: %s", got)
	}
	if err := up.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := up.Wait(); err != nil {
		t.Errorf("idlewatt up: %v\n%s", err, log.String())
	}
	if n := looks(); n == 0 {
		t.Error("the reader saw nothing at all")
	}
	m.eventually("no process is left", func() bool { return len(m.processes()) == 0 })
	if got := m.run("query", liveSQL); got != want {
		t.Errorf("afterwards: %s, want %s", got, want)
	}
	if got := m.run("dead", "list"); got != "no dead letters" {
		t.Errorf("dead letters:\n%s", got)
	}
}

func (m machine) config() string {
	m.Helper()
	file := filepath.Join(m.TempDir(), "up.yaml")
	if err := os.WriteFile(file, []byte("http: {listen: '127.0.0.1:0'}\n"), 0o600); err != nil {
		m.Fatal(err)
	}
	return file
}

// killAt kills the command after so long, or lets it end if it is faster.
func (m machine) killAt(c *exec.Cmd, after time.Duration) {
	m.Helper()
	if err := c.Start(); err != nil {
		m.Fatal(err)
	}
	kill := time.AfterFunc(after, func() { _ = c.Process.Kill() })
	defer kill.Stop()
	var exit *exec.ExitError
	if err := c.Wait(); err != nil && !errors.As(err, &exit) {
		m.Fatal(err)
	}
	m.Logf("killed after %v", after)
}

// killInLoad kills the command when rows of its load are in the store. If it commits first,
// which a slow reader can miss, that is as good.
func (m machine) killInLoad(args []string) {
	m.Helper()
	c := m.command(args...)
	if err := c.Start(); err != nil {
		m.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- c.Wait() }()
	m.eventually("rows of the load are in the store", func() bool {
		if len(gone) > 0 {
			return true
		}
		got := m.glance(m.Context(), "SELECT count() > 0 FROM idlewatt_store.charges WHERE x_Load > (SELECT max(Load) FROM idlewatt_store.commits) + 65536")
		return got == "1"
	})
	_ = c.Process.Kill()
	m.Logf("killed in the load: %v", <-gone)
}

// A full disk is a clear error; the bill that was live stays, and the refused delivery is kept.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	small, big, archive := m.generate("small.parquet", 1000), m.generate("big.parquet", 40_000), m.generate("archive.parquet", 100_000)
	script := `mount -t tmpfs -o size=24m tmpfs "$DISK" || exit 77
run() { echo "== $*"; idlewatt "$@" 2>&1; echo "exit $?"; }
run import -q --source payer --format aws-cur2 --version 1 "$SMALL"
run import -q --source payer --format aws-cur2 --version 2 "$BIG"
run import -q --source payer --format aws-cur2 --version 3 "$ARCHIVE"
run query "$LIVE"
run dead list
run import -q --source payer --format aws-cur2 --version 4 "$SMALL"
run query "$LIVE"
`
	disk := t.TempDir()
	args := []string{"--mount", "sh", "-c", script}
	if os.Getuid() != 0 {
		args = append([]string{"--user", "--map-root-user"}, args...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := exec.CommandContext(ctx, "unshare", args...)
	c.WaitDelay = time.Second
	c.Env = append(os.Environ(), "DISK="+disk, "IDLEWATT_DATA="+filepath.Join(disk, "data"), "SMALL="+small, "BIG="+big, "ARCHIVE="+archive,
		"LIVE="+liveSQL, "GORACE=atexit_sleep_ms=0")
	out, err := c.CombinedOutput()
	text := string(out)
	if err != nil && (strings.Contains(text, "mount: ") || strings.Contains(text, "unshare: ") || errors.Is(err, exec.ErrNotFound)) {
		if os.Getenv("CI") != "" {
			t.Fatalf("continuous integration needs root or user namespaces to mount a small disk: %v: %s", err, text)
		}
		t.Skipf("no small disk can be mounted here (it takes root or user namespaces): %v: %s", err, text)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	steps := strings.Split(text, "== ")[1:]
	for i, want := range [][]string{
		{"payer: live: 1000 rows", "exit 0"},
		{"refused: loading big.parquet: the store's disk is full (", "make room, then `idlewatt dead retry` it", "what was live before stays live", "exit 1"},
		{"archiving archive.parquet: ", "no space left on device", "exit 1"},
		{"1000 rows, ", "exit 0"},
		{"loading big.parquet: the store's disk is full", "archiving archive.parquet", "exit 0"},
		{"payer: unchanged: 1000 rows", "exit 0"},
		{"1000 rows, ", "exit 0"},
	} {
		for _, w := range want {
			if i >= len(steps) || !strings.Contains(steps[i], w) {
				t.Fatalf("step %d does not say %q:\n%s", i+1, w, text)
			}
		}
	}
	if a, b := steps[3], steps[6]; a != b {
		t.Errorf("the bill changed:\n%s%s", a, b)
	}
}
