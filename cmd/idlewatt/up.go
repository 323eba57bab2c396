package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/idlewatt/idlewatt/connectors/eventfile"
	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/ingest"
	"github.com/idlewatt/idlewatt/processors/normalize"
	"github.com/idlewatt/idlewatt/schema/event"
)

const defaultListen = "127.0.0.1:8080"

type upCmd struct {
	Config string `short:"c" help:"Configuration file." type:"path" placeholder:"FILE"`
}

func (c *upCmd) Run(e *env) (err error) {
	l := &loaded{rules: normalize.DefaultRules()}
	if c.Config != "" {
		if l, err = loadConfig(c.Config); err != nil {
			return err
		}
	}
	e.useData(l)
	return e.serve(l, nil)
}

// serve runs everything until the process is asked to stop. ready is called once the page answers.
func (e *env) serve(l *loaded, ready func(a *app, url string) error) (err error) {
	a, err := e.own(l)
	if err != nil {
		return err
	}
	defer closing(a, &err)
	p, err := a.pipeline(l.rules)
	if err != nil {
		return err
	}
	if err := p.utilize.Retain(a.ctx, l.Telemetry.days()); err != nil {
		return err
	}
	if err := p.normalize.ReapplyRules(a.ctx); err != nil {
		return err
	}
	if err := a.storeHosts(l.Hosts); err != nil {
		return err
	}
	ev, err := a.evaluator(l.alerts)
	if err != nil {
		return err
	}
	srv, ln, url, err := a.door(l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.run(ctx, a) })
	g.Go(func() error {
		return ingest.Puller{Publisher: a.publisher(), Log: a.log, Observe: a.metrics.pulled}.Run(ctx, l.sources)
	})
	g.Go(func() error { return a.writes(l.Write).Run(ctx) })
	if ev != nil {
		g.Go(func() error { return ev.Run(ctx) })
	}
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-a.engines.Err():
			return fmt.Errorf("an engine is lost: %w", err)
		}
	})
	g.Go(func() error { return serveHTTP(ctx, srv, ln) })
	fmt.Fprintf(e.errOut, "idlewatt is up: %s (data in %s)\n", url, a.layout.Root)
	if ready != nil {
		g.Go(func() error { return ready(a, url) })
	}
	return g.Wait()
}

// own opens the data directory as its only instance.
func (e *env) own(l *loaded) (*app, error) {
	if inst, err := local.Attach(e.ctx, e.data); err == nil {
		return nil, usagef("an instance (process %d, since %s) runs on %s already", inst.PID, inst.Started.Format(time.RFC3339), e.data)
	} else if !errors.Is(err, local.ErrNotRunning) {
		return nil, err
	}
	e.timeZone = l.TimeZone
	return e.open(local.Options{NATSURL: l.NATS.url(), ClickHouseURL: l.ClickHouse.url()})
}

// door opens the HTTP port: page, pushed events, remote write, metrics, health.
func (a *app) door(l *loaded) (*http.Server, net.Listener, string, error) {
	listen := l.HTTP.Listen
	if listen == "" {
		listen = defaultListen
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil && l.HTTP.Listen == "" {
		ln, err = net.Listen("tcp", "127.0.0.1:0") // the default port is taken: any free one
	}
	if err != nil {
		return nil, nil, "", fmt.Errorf("listening on %s: %w", listen, err)
	}
	token := a.inst.WriteToken
	if token == "" {
		b := make([]byte, 24)
		if _, err := rand.Read(b); err != nil {
			return nil, nil, "", fmt.Errorf("making a write token: %w", err)
		}
		token = hex.EncodeToString(b)
	}
	if err := a.engines.Announce(ln.Addr().String(), token); err != nil {
		return nil, nil, "", fmt.Errorf("announcing the page: %w", err)
	}
	page, err := a.page()
	if err != nil {
		return nil, nil, "", err
	}
	mux := http.NewServeMux()
	mux.Handle("/", page)
	mux.Handle("/v1/events", ingest.Door{Publisher: a.publisher(), Token: token, Check: eventfile.Check})
	mux.Handle("/v1/write", ingest.WriteDoor{Publisher: a.publisher(), Token: token, Observe: a.metrics.write.taken})
	mux.Handle("GET /metrics", a.metrics.handler(a))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.ready)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	return srv, ln, "http://" + ln.Addr().String() + "/", nil
}

// ready answers whether both engines answer now.
func (a *app) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := a.db.Ping(ctx); err != nil || !a.nc.IsConnected() {
		http.Error(w, "an engine does not answer", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

func serveHTTP(ctx context.Context, srv *http.Server, ln net.Listener) error {
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving the page: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return srv.Shutdown(stop)
}

// storeHosts writes the static host map as inventory of its own, from the beginning of time.
func (a *app) storeHosts(hosts map[string]string) error {
	for host, resource := range hosts {
		e, err := event.New(event.TypeInventoryInstance, "idlewatt/config", resource, host, a.now(), event.Instance{
			ResourceID: resource, Provider: "config", Hosts: []string{host}, SeenFrom: time.Unix(0, 0).UTC(),
		})
		if err != nil {
			return err
		}
		if err := a.publisher().Event(a.ctx, e); err != nil {
			return fmt.Errorf("storing hosts: %w", err)
		}
	}
	return nil
}
