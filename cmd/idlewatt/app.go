package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/ingest"
	"github.com/idlewatt/idlewatt/processors/normalize"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/migrations"
)

// app is the engines of one data directory and the connections to them.
type app struct {
	*env
	inst     *local.Instance
	engines  *local.Engines // nil when another process runs them
	layout   local.Layout
	nc       *nats.Conn
	js       jetstream.JetStream
	db       *store.DB
	loads    *store.Loads
	attached bool
	metrics  *metrics
}

// open uses the instance that runs on the data directory, or starts the engines for this
// command's own duration.
func (e *env) open(o local.Options) (*app, error) {
	layout, err := local.NewLayout(e.data)
	if err != nil {
		return nil, err
	}
	a := &app{env: e, layout: layout, metrics: newMetrics(e.now)}
	inst, err := local.Attach(e.ctx, e.data)
	switch {
	case err == nil:
		a.inst, a.attached = inst, true
		a.nc, err = inst.ConnectNATS()
	case errors.Is(err, local.ErrNotRunning):
		o.Dir, o.Log = e.data, e.log
		if a.engines, err = local.Start(e.ctx, o); err != nil {
			return nil, err
		}
		a.inst = &a.engines.Instance
		a.nc, err = a.engines.ConnectNATS()
	}
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	if err := a.connect(); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *app) connect() error {
	var err error
	if a.js, err = jetstream.New(a.nc); err != nil {
		return fmt.Errorf("opening JetStream: %w", err)
	}
	if a.db, err = store.Open(a.ctx, a.inst.ClickHouseOptions); err != nil {
		return err
	}
	a.loads = store.NewLoads(a.now)
	if a.attached {
		return nil
	}
	if err := bus.Ensure(a.ctx, a.js, 1); err != nil {
		return err
	}
	if err := migrations.Apply(a.ctx, a.db.SQL, a.timeZone); err != nil {
		return err
	}
	return store.Prepare(a.ctx, a.db, a.loads)
}

// close ends what open began. It runs even when the command was interrupted.
func (a *app) close() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 20*time.Second)
	defer cancel()
	var errs []error
	if a.db != nil {
		errs = append(errs, a.db.Close())
	}
	if a.nc != nil {
		a.nc.Close()
	}
	if a.engines != nil {
		errs = append(errs, a.engines.Stop(ctx))
	}
	return errors.Join(errs...)
}

func (a *app) publisher() ingest.Publisher {
	return ingest.Publisher{JS: a.js, Archive: ingest.Archive{Root: a.layout.Archive()}, Now: a.now}
}

func (a *app) normalizer(rules normalize.Rules, progress func(string, uint64)) (*normalize.Processor, error) {
	return normalize.New(a.ctx, normalize.Options{
		DB: a.db, JS: a.js, Loads: a.loads, Archive: a.layout.Archive(), SharedDisk: a.inst.LocalFiles,
		HTTP: store.HTTP{
			URL: a.inst.HTTPURL, User: a.inst.User, Password: a.inst.Password,
			Settings: local.PinnedSettings(a.inst.EngineVersion),
		},
		Now: a.now, Log: a.log, Progress: progress, Rules: rules,
	})
}
