package local

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	loopback = "127.0.0.1"
	// maxPayload is the largest message the local bus takes; the design keeps every message under it.
	maxPayload = 1 << 20
)

// startBus runs a NATS server in this process. The directory's lock must be
// held: two servers open one store without an error and lose messages.
func startBus(layout Layout, port int, token string, options Options) (*server.Server, error) {
	bus, err := server.NewServer(&server.Options{
		ServerName:             "idlewatt",
		Host:                   loopback,
		Port:                   port,
		Authorization:          token,
		JetStream:              true,
		StoreDir:               layout.NATS(),
		SyncAlways:             !options.Relaxed,
		MaxPayload:             maxPayload,
		NoSigs:                 true,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up NATS: %w", err)
	}
	words := &busLog{log: options.Log.With(slog.String("engine", "nats")), fatal: make(chan string, 1)}
	bus.SetLoggerV2(words, false, false, false)
	go bus.Start()
	ready := make(chan bool, 1)
	go func() { ready <- bus.ReadyForConnections(options.StartTimeout) }()
	select {
	case reason := <-words.fatal:
		bus.Shutdown()
		return nil, fmt.Errorf("starting NATS: %s", reason)
	case ok := <-ready:
		if !ok || !bus.JetStreamEnabled() {
			bus.Shutdown()
			return nil, fmt.Errorf("starting NATS: not ready after %s", options.StartTimeout)
		}
	}
	return bus, nil
}

// busLog passes the server's words to slog. Its notices are debug words for us.
type busLog struct {
	log   *slog.Logger
	fatal chan string
}

// Noticef implements server.Logger.
func (l *busLog) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

// Warnf implements server.Logger.
func (l *busLog) Warnf(format string, v ...any) { l.say(slog.LevelWarn, format, v) }

// Errorf implements server.Logger.
func (l *busLog) Errorf(format string, v ...any) { l.say(slog.LevelError, format, v) }

// Debugf implements server.Logger.
func (l *busLog) Debugf(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

// Tracef implements server.Logger.
func (l *busLog) Tracef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

// Fatalf implements server.Logger. The server goes on after it, so the first reason is handed to startBus.
func (l *busLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
		l.say(slog.LevelError, format, v)
	}
}

func (l *busLog) say(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "the bus speaks", slog.String("text", fmt.Sprintf(format, v...)))
	}
}

// freePorts returns one free loopback port for each preferred one: itself if it can be bound, else another.
func freePorts(preferred ...int) ([]int, error) {
	ports := make([]int, 0, len(preferred))
	for _, port := range preferred {
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			listener, err = net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		}
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer func() { _ = listener.Close() }()                    // held until all are chosen, so that no two are the same
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port) //nolint:errcheck // a TCP listener has a TCP address
	}
	return ports, nil
}

// portOf returns the port of a URL or host:port, or 0.
func portOf(address string) int {
	for i := len(address) - 1; i >= 0; i-- {
		if address[i] == ':' {
			port, _ := strconv.Atoi(address[i+1:])
			return port
		}
	}
	return 0
}
