package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/idlewatt/idlewatt/processors/alert"
	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/processors/alert/notify/slack"
	"github.com/idlewatt/idlewatt/processors/attribute"
	"github.com/idlewatt/idlewatt/processors/invoices"
	"github.com/idlewatt/idlewatt/processors/jobs"
	"github.com/idlewatt/idlewatt/processors/normalize"
	"github.com/idlewatt/idlewatt/processors/rate"
	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/processors/utilize"
)

// pipeline is every processor of one data directory.
type pipeline struct {
	normalize *normalize.Processor
	utilize   *utilize.Processor
	rate      *rate.Processor
	attribute *attribute.Processor
	consumers []runtime.Consumer // those that only store
}

func (a *app) pipeline(rules normalize.Rules) (*pipeline, error) {
	n, err := a.normalizer(rules, nil)
	if err != nil {
		return nil, err
	}
	u, err := utilize.New(utilize.Options{DB: a.db, JS: a.js, Loads: a.loads, Now: a.now, Log: a.log, Observe: a.metrics.scraped})
	if err != nil {
		return nil, err
	}
	j := jobs.New(jobs.Options{DB: a.db, Now: a.now, Log: a.log})
	return &pipeline{
		normalize: n, utilize: u,
		rate:      rate.New(rate.Options{DB: a.db, Loads: a.loads, Now: a.now, Log: a.log, Dimensions: n.ApplyRules}),
		attribute: attribute.New(attribute.Options{DB: a.db, JS: a.js, Loads: a.loads, Now: a.now, Log: a.log}),
		consumers: append(j.Consumers(), invoices.Consumer(a.db)),
	}, nil
}

// run keeps every processor going until ctx ends.
func (p *pipeline) run(ctx context.Context, a *app) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, c := range append(p.consumers, p.normalize.Consumer()) {
		g.Go(func() error { return runtime.Run(ctx, a.js, c, a.log) })
	}
	g.Go(func() error { return p.utilize.Run(ctx) })
	g.Go(func() error { return p.rate.Run(ctx) })
	g.Go(func() error { return p.attribute.Run(ctx) })
	g.Go(func() error { return p.normalize.RunSweeper(ctx) })
	return g.Wait()
}

// settle stores what waits on the bus and brings the derived tables up to it, once.
func (p *pipeline) settle(a *app) error {
	for _, c := range append(p.consumers, p.utilize.Consumer()) {
		if err := runtime.Drain(a.ctx, a.js, c, a.log); err != nil {
			return err
		}
		a.log.InfoContext(a.ctx, "bus drained", slog.String("consumer", c.Durable))
	}
	stats, err := p.utilize.Derive(a.ctx)
	if err != nil {
		return err
	}
	a.log.InfoContext(a.ctx, "intervals derived", slog.String("stats", fmt.Sprintf("%+v", stats)))
	if _, err := p.rate.Once(a.ctx); err != nil {
		return err
	}
	_, err = p.attribute.Once(a.ctx)
	return err
}

// evaluator builds the alert evaluator of a configuration; nil without rules.
func (a *app) evaluator(rules *alert.Rules) (*alert.Evaluator, error) {
	if rules == nil {
		return nil, nil
	}
	notifiers := map[string]notify.Notifier{}
	for name, c := range rules.Channels {
		n, err := slack.Open(c.Slack, os.Getenv, a.now)
		if err != nil {
			return nil, usageError{fmt.Errorf("alerts.channels.%s: %w", name, err)}
		}
		notifiers[name] = n
	}
	return alert.New(a.ctx, alert.Options{
		JS: a.js, Facts: alert.NewClickHouse(a.db.Conn), Rules: *rules, Notifiers: notifiers, Now: a.now, Log: a.log,
	})
}
