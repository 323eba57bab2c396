package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// portTries is how often Start chooses other ports when one was taken between the choice and its use.
const portTries = 3

// Engines are the running engines of one data directory. Its Instance says how to reach them, and is not to
// be changed after Start except through Announce.
type Engines struct {
	Instance
	// Layout names the places in the data directory.
	Layout Layout

	lock       *flock.Flock
	bus        *server.Server // nil when external
	supervisor *supervisor    // nil when external
	failed     chan error

	announce sync.Mutex
	stopOnce sync.Once
	stopErr  error
	stopped  chan struct{}
}

// Start locks the data directory and starts the engines that no URL names. It returns when they are ready,
// in less than a second on fresh data. A live instance on the directory is an *InUseError.
func Start(ctx context.Context, options Options) (*Engines, error) {
	options = options.withDefaults()
	layout, err := NewLayout(options.Dir)
	if err != nil {
		return nil, err
	}
	if err := layout.create(); err != nil {
		return nil, err
	}
	lock, err := acquire(ctx, layout)
	if err != nil {
		return nil, err
	}
	e := &Engines{Layout: layout, lock: lock, failed: make(chan error, 1), stopped: make(chan struct{})}
	e.Instance = startingInstance(layout, options)
	if err := e.startAll(ctx, options); err != nil {
		stopping := context.WithoutCancel(ctx) // what did start must end also when ctx is why we stop
		return nil, errors.Join(err, e.Stop(stopping))
	}
	return e, nil
}

// startingInstance describes this process. Of an earlier instance it keeps secrets and preferred ports.
func startingInstance(layout Layout, options Options) Instance {
	instance := Instance{}
	if earlier, err := readInstance(layout); err == nil {
		instance = *earlier
		if !earlier.LocalFiles {
			instance.Password, instance.AnalystPassword = "", "" // those of an external server
		}
	}
	instance.PID, instance.Started, instance.Ready = os.Getpid(), options.Now().UTC(), false
	instance.WebAddr, instance.WriteToken, instance.Secure = "", "", false
	instance.User, instance.AnalystUser, instance.LocalFiles = OwnerUser, AnalystUser, true
	for _, s := range []*string{&instance.NATSToken, &instance.Password, &instance.AnalystPassword} {
		if *s == "" {
			*s = secret()
		}
	}
	return instance
}

// startAll starts both engines at the same time and publishes the instance file.
func (e *Engines) startAll(ctx context.Context, options Options) error {
	natsPort, tcpPort, httpPort := portOf(e.NATSURL), portOf(e.Addr), portOf(e.HTTPURL)
	if err := e.Instance.write(e.Layout); err != nil {
		return err
	}
	busDone := make(chan error, 1)
	go func() { busDone <- e.startBus(options, natsPort) }()
	err := e.startClickHouse(ctx, options, tcpPort, httpPort)
	if err := errors.Join(<-busDone, err); err != nil {
		return err
	}
	e.Ready = true
	return e.Instance.write(e.Layout)
}

func (e *Engines) startBus(options Options, preferred int) error {
	if options.NATSURL != "" {
		e.NATSURL, e.NATSToken = options.NATSURL, ""
		return nil
	}
	ports, err := freePorts(preferred)
	if err != nil {
		return err
	}
	e.bus, err = startBus(e.Layout, ports[0], e.NATSToken, options.StartTimeout, options.Log)
	if err != nil {
		return err
	}
	e.NATSURL = "nats://" + e.bus.Addr().String()
	return nil
}

func (e *Engines) startClickHouse(ctx context.Context, options Options, tcpPort, httpPort int) error {
	if options.ClickHouseURL != "" {
		if err := e.useClickHouse(options.ClickHouseURL); err != nil {
			return err
		}
		return e.askVersion(ctx)
	}
	library, err := FindLibrary()
	if err != nil {
		return err
	}
	engine := newEngine(e.Layout, library, engineConfig{
		Layout: e.Layout, Nonce: secret(), MaxServerMemory: options.MaxServerMemory,
		OwnerPassword: e.Password, AnalystPassword: e.AnalystPassword,
	}, options)
	if err := engine.config.write(); err != nil {
		return err
	}
	if err := engine.checkVersion(ctx); err != nil {
		return err
	}
	running, err := engine.startOnFreePorts(ctx, tcpPort, httpPort)
	if err != nil {
		return err
	}
	e.supervisor = supervise(engine, running, options.CheckInterval)
	go e.passFailure(e.supervisor)
	e.Addr, e.HTTPURL = engine.tcpAddr(), "http://"+engine.httpAddr()
	e.EngineVersion, err = engine.recordVersion(ctx)
	return err
}

// startOnFreePorts prefers the given ports, and chooses others when one was taken after it was looked at.
func (e *engine) startOnFreePorts(ctx context.Context, tcpPort, httpPort int) (*child, error) {
	var failures error
	for range portTries {
		ports, err := freePorts(tcpPort, httpPort)
		if err != nil {
			return nil, err
		}
		e.tcpPort, e.httpPort = ports[0], ports[1]
		running, err := e.start(ctx)
		if err == nil {
			return running, nil
		}
		failures = errors.Join(failures, err)
		if ctx.Err() != nil || !errors.Is(err, errEndedEarly) {
			break
		}
		e.log.Warn("the engine did not start, trying other ports", slog.Any("error", err))
		tcpPort, httpPort = 0, 0
	}
	return nil, failures
}

func (e *Engines) passFailure(s *supervisor) {
	select {
	case err := <-s.failed:
		e.failed <- err
	case <-e.stopped:
	}
}

// Err returns a channel that gets one error if an engine is lost for good. Losses that were repaired are
// only logged.
func (e *Engines) Err() <-chan error { return e.failed }

// Announce writes where the HTTP door listens, and its write token, into the instance file.
func (e *Engines) Announce(webAddr, writeToken string) error {
	e.announce.Lock()
	defer e.announce.Unlock()
	e.WebAddr, e.WriteToken = webAddr, writeToken
	return e.Instance.write(e.Layout)
}

// ConnectNATS opens a connection to the bus, inside the process if the bus is. The caller closes it.
func (e *Engines) ConnectNATS(opts ...nats.Option) (*nats.Conn, error) {
	if e.bus != nil {
		opts = append(opts, nats.InProcessServer(e.bus))
	}
	return e.Instance.ConnectNATS(opts...)
}

// Stop ends the engines this Start started and frees the directory. It may be called more than once, and
// every call returns when the first one is done. When ctx ends first, the engines are left to their end.
func (e *Engines) Stop(ctx context.Context) error {
	e.stopOnce.Do(func() {
		var failures []error
		if e.bus != nil {
			failures = append(failures, stopBus(ctx, e.bus))
		}
		if e.supervisor != nil {
			failures = append(failures, e.supervisor.stop(ctx))
		}
		close(e.stopped)
		e.announce.Lock()
		defer e.announce.Unlock()
		gone := e.Instance
		gone.PID, gone.Ready, gone.WebAddr, gone.WriteToken = 0, false, "", ""
		failures = append(failures, gone.write(e.Layout))
		if err := e.lock.Close(); err != nil {
			failures = append(failures, fmt.Errorf("unlocking the data directory: %w", err))
		}
		e.stopErr = errors.Join(failures...)
	})
	return e.stopErr
}
