package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/deploy/local"
)

func TestStartServesAndStops(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	e := start(t, local.Options{Now: func() time.Time { return began }})
	ctx := timed(t)

	conn, err := clickhouse.Open(e.ClickHouseOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var zone, version string
	if err := conn.QueryRow(ctx, "SELECT timezone(), version()").Scan(&zone, &version); err != nil {
		t.Fatal(err)
	}
	if zone != "UTC" || version != e.EngineVersion || !strings.HasPrefix(version, "26.7.") {
		t.Errorf("got time zone %s, version %s, want UTC and %s", zone, version, e.EngineVersion)
	}

	bus := publishing(t, e)
	defer bus.Close()
	select {
	case err := <-e.Err():
		t.Errorf("running engines report %v", err)
	default:
	}

	// With both connections still open, stopping is quick and may be asked for twice.
	impatient, cancel := context.WithCancel(ctx)
	cancel()
	if err := e.Stop(impatient); !errors.Is(err, context.Canceled) {
		t.Errorf("a stop that may not wait: got %v, want context.Canceled", err)
	}
	stop(t, e)
	stop(t, e)
	if err := e.Announce("127.0.0.1:1", "x"); err == nil {
		t.Error("stopped engines were announced")
	}
	for _, addr := range []string{e.Addr, strings.TrimPrefix(e.HTTPURL, "http://"), strings.TrimPrefix(e.NATSURL, "nats://")} {
		if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			_ = conn.Close()
			t.Errorf("%s is still served after the stop", addr)
		}
	}
	instance, err := local.ReadInstance(e.Layout.Root)
	if err != nil {
		t.Fatal(err)
	}
	if instance.PID != 0 || instance.Ready || !instance.Started.Equal(began) {
		t.Errorf("after the stop the instance file says %d, %v, %s", instance.PID, instance.Ready, instance.Started)
	}
}

// publishing returns a connection to the bus over which one message was published.
func publishing(t *testing.T, e *local.Engines) *nats.Conn {
	t.Helper()
	ctx := timed(t)
	bus, err := e.ConnectNATS()
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(bus)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "A", Subjects: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if bus.MaxPayload() != 1<<20 {
		t.Errorf("got a payload limit of %d, want 1 MB", bus.MaxPayload())
	}
	return bus
}

func TestPortsAndSecretsStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dir = filepath.Join(dir, "bills & <others> of \"2026\"")
	first := start(t, local.Options{Dir: dir})
	stop(t, first)
	taken, err := net.Listen("tcp", first.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	second := start(t, local.Options{Dir: dir})
	if second.Addr == first.Addr {
		t.Errorf("the port %s was taken, yet chosen again", first.Addr)
	}
	if second.HTTPURL != first.HTTPURL || second.NATSURL != first.NATSURL {
		t.Errorf("free ports changed: %s and %s to %s and %s", first.HTTPURL, first.NATSURL, second.HTTPURL, second.NATSURL)
	}
	if second.Password != first.Password || second.NATSToken != first.NATSToken || second.AnalystPassword != first.AnalystPassword {
		t.Error("the secrets changed from one start to the next")
	}
}

func TestSecondInstanceIsRefusedByName(t *testing.T) {
	t.Parallel()
	e := start(t, local.Options{})
	_, err := local.Start(timed(t), local.Options{Dir: e.Layout.Root})
	var inUse *local.InUseError
	if !errors.As(err, &inUse) {
		t.Fatalf("got %v, want an InUseError", err)
	}
	if inUse.PID != os.Getpid() || !inUse.Started.Equal(e.Started) {
		t.Errorf("got process %d started %s, want %d and %s", inUse.PID, inUse.Started, os.Getpid(), e.Started)
	}
	for _, want := range []string{e.Layout.Root, strconv.Itoa(os.Getpid()), e.Started.Format(time.RFC3339)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not name %s", err, want)
		}
	}
	other := role(t, "start-only", e.Layout.Root)
	said, err := other.CombinedOutput()
	if err == nil || !strings.Contains(string(said), fmt.Sprintf("process %d, started", os.Getpid())) {
		t.Errorf("another process on the directory: %v, %s", err, said)
	}
	if got := asOwner(t, &e.Instance, "SELECT 1"); got != "1" {
		t.Errorf("the first instance answers %q after the refusal", got)
	}
}

func TestAttach(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := local.Attach(timed(t), dir); !errors.Is(err, local.ErrNotRunning) {
		t.Fatalf("on no directory: got %v, want ErrNotRunning", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("attaching made the directory: %v", err)
	}
	e := start(t, local.Options{Dir: dir})
	if err := e.Announce("127.0.0.1:8080", "write-token"); err != nil {
		t.Fatal(err)
	}
	instance, err := local.Attach(timed(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	if *instance != e.Instance || instance.WebAddr != "127.0.0.1:8080" || instance.WriteToken != "write-token" {
		t.Error("the instance file differs from the running instance")
	}
	if got := asOwner(t, instance, "SELECT 1"); got != "1" {
		t.Errorf("got %q over the attached instance", got)
	}
	bus, err := instance.ConnectNATS()
	if err != nil {
		t.Fatal(err)
	}
	bus.Close()
	stop(t, e)
	if _, err := local.Attach(timed(t), dir); !errors.Is(err, local.ErrNotRunning) {
		t.Fatalf("after the stop: got %v, want ErrNotRunning", err)
	}
}

func TestInstanceFileIsPrivate(t *testing.T) {
	t.Parallel()
	e := start(t, local.Options{})
	for _, path := range []string{"instance.json", "lock", "clickhouse/users.xml", "clickhouse/config.xml"} {
		info, err := os.Stat(filepath.Join(e.Layout.Root, path))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", path, info.Mode().Perm())
		}
	}
}

func TestBusWantsTheToken(t *testing.T) {
	t.Parallel()
	e := start(t, local.Options{})
	if conn, err := nats.Connect(e.NATSURL); err == nil {
		conn.Close()
		t.Error("the bus let in a stranger")
	}
}

func TestExternalEngines(t *testing.T) {
	t.Parallel()
	server := start(t, local.Options{})
	host, httpPort := strings.TrimPrefix(server.HTTPURL, "http://"), ""
	_, httpPort, _ = net.SplitHostPort(host)
	url := "clickhouse://" + server.User + ":" + server.Password + "@" + server.Addr + "?http_port=" + httpPort
	e := start(t, local.Options{ClickHouseURL: url, NATSURL: "nats://" + server.NATSToken + "@" + strings.TrimPrefix(server.NATSURL, "nats://")})
	if e.Addr != server.Addr || e.HTTPURL != server.HTTPURL || e.LocalFiles || e.EngineVersion != server.EngineVersion {
		t.Errorf("got %s, %s, local files %v, version %s", e.Addr, e.HTTPURL, e.LocalFiles, e.EngineVersion)
	}
	if got := asOwner(t, &e.Instance, "SELECT 1"); got != "1" {
		t.Errorf("got %q", got)
	}
	bus, err := e.ConnectNATS()
	if err != nil {
		t.Fatal(err)
	}
	bus.Close()

	_, err = local.Start(timed(t), local.Options{Dir: t.TempDir(), ClickHouseURL: "clickhouse://idlewatt:wrong-secret@" + server.Addr})
	if err == nil || strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("a refused password gave %v", err)
	}
	_, err = local.Start(timed(t), local.Options{Dir: t.TempDir(), ClickHouseURL: "postgres://u:hidden@h"})
	if err == nil || strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "postgres") {
		t.Errorf("a strange URL gave %v", err)
	}
}
