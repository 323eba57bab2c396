package local_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/deploy/local"
)

const acknowledged = 20

// parentRoles are the processes this test binary can play.
func parentRoles() map[string]func(dir string) error {
	return map[string]func(string) error{
		"write-and-wait": writeAndWait,
		"start-and-stop": func(dir string) error {
			ctx := context.Background()
			e, err := local.Start(ctx, local.Options{Dir: dir, MaxServerMemory: testMemory})
			if err != nil {
				return err
			}
			_, err = ask(ctx, e.HTTPURL, e.User, e.Password, "SELECT 'engine output'")
			return errors.Join(err, e.Stop(ctx))
		},
		"start-only": func(dir string) error {
			_, err := local.Start(context.Background(), local.Options{Dir: dir})
			return err
		},
	}
}

// writeAndWait writes to both engines, says so when all is acknowledged, and waits to be killed with its
// connections open.
func writeAndWait(dir string) error {
	ctx := context.Background()
	e, err := local.Start(ctx, local.Options{Dir: dir, MaxServerMemory: testMemory})
	if err != nil {
		return err
	}
	conn, err := clickhouse.Open(e.ClickHouseOptions())
	if err != nil {
		return err
	}
	if err := conn.Exec(ctx, "CREATE TABLE kept (x UInt32) ENGINE = MergeTree ORDER BY x"); err != nil {
		return err
	}
	bus, err := e.ConnectNATS()
	if err != nil {
		return err
	}
	js, err := jetstream.New(bus)
	if err != nil {
		return err
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}}); err != nil {
		return err
	}
	for i := range acknowledged {
		if err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO kept VALUES (%d)", i)); err != nil {
			return err
		}
		if _, err := js.Publish(ctx, "kept", []byte("x")); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stdout, "ready")
	_, err = io.Copy(io.Discard, os.Stdin) // ends only with the test
	return err
}

func TestKilledParentLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parent := role(t, "write-and-wait", dir)
	stdin, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	parent.Stderr = &stderr
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the parent said %q, %v: %s", line, err, stderr.String())
	}
	child := enginePID(t, dir)
	if gone(child) {
		t.Fatalf("the engine %d named in the status file does not run", child)
	}

	if err := parent.Process.Kill(); err != nil { // SIGKILL
		t.Fatal(err)
	}
	_ = parent.Wait() // says that it was killed
	if _, err := local.Attach(timed(t), dir); !errors.Is(err, local.ErrNotRunning) {
		t.Errorf("attaching to what a killed parent left: got %v, want ErrNotRunning", err)
	}
	began := time.Now()
	e := start(t, local.Options{Dir: dir})
	t.Logf("started again %s after the kill", time.Since(began))
	if !gone(child) {
		t.Errorf("the engine %d outlived its parent", child)
	}

	if got := asOwner(t, &e.Instance, "SELECT count() FROM kept"); got != fmt.Sprint(acknowledged) {
		t.Errorf("got %s acknowledged rows, want %d", got, acknowledged)
	}
	if got := keptMessages(t, e); got != acknowledged {
		t.Errorf("got %d acknowledged messages, want %d", got, acknowledged)
	}
}

// keptMessages counts what the stream of writeAndWait holds.
func keptMessages(t *testing.T, e *local.Engines) uint64 {
	t.Helper()
	bus, err := e.ConnectNATS()
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	js, err := jetstream.New(bus)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(timed(t), "KEPT")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}

func TestNothingIsPrinted(t *testing.T) {
	t.Parallel()
	cmd := role(t, "start-and-stop", t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if stdout.Len() > 0 || stderr.Len() > 0 {
		t.Errorf("standard output got %q, standard error %q, want nothing", stdout.String(), stderr.String())
	}
}

func TestLostEngineComesBack(t *testing.T) {
	t.Parallel()
	e := start(t, local.Options{CheckInterval: 20 * time.Millisecond})
	asOwner(t, &e.Instance, "CREATE TABLE kept (x UInt32) ENGINE = MergeTree ORDER BY x")
	asOwner(t, &e.Instance, "INSERT INTO kept VALUES (1)")
	before := enginePID(t, e.Layout.Root)
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the engine answers on its old port", func() bool {
		got, err := ask(timed(t), e.HTTPURL, e.User, e.Password, "SELECT count() FROM kept")
		return err == nil && got == "1"
	})
	if after := enginePID(t, e.Layout.Root); after == before {
		t.Errorf("the engine is still process %d", before)
	}
	select {
	case err := <-e.Err():
		t.Errorf("a repaired loss was reported as final: %v", err)
	default:
	}
}

func TestClosedListenersAreOpenedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		statement, user, says string
		sameProcess           bool
	}{
		// The user without a password is able to do this much harm, from this machine.
		{"SYSTEM STOP LISTEN TCP", "default", "a listener was closed, opened it again", true},
		{"SYSTEM STOP LISTEN HTTP", "default", "a listener was closed, opened it again", true},
		{"SYSTEM STOP LISTEN QUERIES ALL", local.OwnerUser, "both listeners are closed, ending the engine", false},
	} {
		t.Run(c.statement, func(t *testing.T) {
			t.Parallel()
			log := new(lockedBuffer)
			e := start(t, local.Options{CheckInterval: 50 * time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil))})
			before := enginePID(t, e.Layout.Root)
			password := map[string]string{local.OwnerUser: e.Password}[c.user]
			if _, err := ask(timed(t), e.HTTPURL, c.user, password, c.statement); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			eventually(t, "the supervisor has seen it and both are served", func() bool {
				return strings.Contains(log.String(), c.says) && served(t, e)
			})
			if same := enginePID(t, e.Layout.Root) == before; same != c.sameProcess {
				t.Errorf("the engine is the same process: %v, want %v", same, c.sameProcess)
			}
		})
	}
}

// served tells whether both listeners answer.
func served(t *testing.T, e *local.Engines) bool {
	t.Helper()
	conn, err := clickhouse.Open(e.ClickHouseOptions())
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_, webErr := ask(timed(t), e.HTTPURL, e.User, e.Password, "SELECT 1")
	return conn.Ping(timed(t)) == nil && webErr == nil
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
