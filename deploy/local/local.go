package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

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

	file     sync.Mutex // guards the instance file and what of Instance changes after Start
	stopOnce sync.Once
	stopping chan struct{} // closed when the end begins
	stopped  chan struct{} // closed when all is ended
	stopErr  error         // valid once stopped is closed
}

// Start locks the data directory and starts the engines that no URL names. It returns when they are ready,
// in less than a second on fresh data. A live instance on the directory is an *InUseError.
func Start(ctx context.Context, options Options) (*Engines, error) {
	options = options.withDefaults()
	layout, err := NewLayout(options.Dir)
	if err != nil {
		return nil, err
	}
	library, err := options.library() // before anything is made
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
	e := &Engines{Layout: layout, lock: lock, failed: make(chan error, 1), stopping: make(chan struct{}), stopped: make(chan struct{})}
	e.Instance = startingInstance(layout, options)
	if err := e.startAll(ctx, options, library); err != nil {
		// What did start must end, also when ctx is why we stop.
		return nil, errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
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
func (e *Engines) startAll(ctx context.Context, options Options, library string) error {
	natsPort, tcpPort, httpPort := portOf(e.NATSURL), portOf(e.Addr), portOf(e.HTTPURL)
	if err := e.Instance.write(e.Layout); err != nil {
		return err
	}
	busDone := make(chan error, 1)
	go func() { busDone <- e.startBus(options, natsPort) }()
	err := e.startClickHouse(ctx, options, library, tcpPort, httpPort)
	if err := errors.Join(<-busDone, err); err != nil {
		return err
	}
	e.Ready = true
	if err := e.Instance.write(e.Layout); err != nil {
		return err
	}
	go e.watch(options.CheckInterval)
	return nil
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
	e.bus, err = startBus(e.Layout, ports[0], e.NATSToken, options)
	if err != nil {
		return err
	}
	e.NATSURL = "nats://" + e.bus.Addr().String()
	return nil
}

func (e *Engines) startClickHouse(ctx context.Context, options Options, library string, tcpPort, httpPort int) error {
	if options.ClickHouseURL != "" {
		if err := e.useClickHouse(options.ClickHouseURL); err != nil {
			return err
		}
		return e.askVersion(ctx)
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

// watch reports the first loss that nothing here repairs: the supervisor gave up, or NATS switched JetStream off,
// as it does when the disk is full.
func (e *Engines) watch(interval time.Duration) {
	look := time.NewTicker(interval)
	defer look.Stop()
	var engineFailed chan error // never ready when the engine is external
	if e.supervisor != nil {
		engineFailed = e.supervisor.failed
	}
	for {
		select {
		case <-e.stopping:
			return
		case err := <-engineFailed:
			e.failed <- err
			return
		case <-look.C:
			if e.bus != nil && !e.bus.JetStreamEnabled() && !e.isStopping() {
				e.failed <- errors.New("NATS has switched JetStream off; is the disk full?")
				return
			}
		}
	}
}

func (e *Engines) isStopping() bool {
	select {
	case <-e.stopping:
		return true
	default:
		return false
	}
}

// Err returns a channel that gets one error if an engine is lost for good. Losses that were repaired are
// only logged.
func (e *Engines) Err() <-chan error { return e.failed }

// Announce writes where the HTTP door listens, and its write token, into the instance file.
func (e *Engines) Announce(webAddr, writeToken string) error {
	e.file.Lock()
	defer e.file.Unlock()
	if e.PID == 0 {
		return errors.New("announcing the HTTP door: the engines are stopped")
	}
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

// Stop ends the engines this Start started and frees the directory. It may be called more than once; every
// call waits for the same end. When ctx ends first, the engines still go on to their end, and the directory
// stays locked until then.
func (e *Engines) Stop(ctx context.Context) error {
	e.stopOnce.Do(func() { go e.stopAll() })
	select {
	case <-e.stopped:
		return e.stopErr
	case <-ctx.Done():
		return fmt.Errorf("stopping the engines: %w", ctx.Err())
	}
}

// stopAll ends both engines at the same time. The lock goes last.
func (e *Engines) stopAll() {
	defer close(e.stopped)
	close(e.stopping)
	if e.supervisor != nil {
		e.supervisor.quit()
	}
	if e.bus != nil {
		e.bus.Shutdown()
		e.bus.WaitForShutdown()
	}
	if e.supervisor != nil {
		<-e.supervisor.done
	}
	e.file.Lock()
	defer e.file.Unlock()
	e.PID, e.Ready, e.WebAddr, e.WriteToken = 0, false, "", ""
	e.stopErr = e.Instance.write(e.Layout)
	if err := e.lock.Close(); err != nil {
		e.stopErr = errors.Join(e.stopErr, fmt.Errorf("unlocking the data directory: %w", err))
	}
}
