package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/processors/normalize"
	"github.com/idlewatt/idlewatt/processors/runtime"
)

// closing closes the app when a command ends and keeps both errors.
func closing(a *app, err *error) { *err = errors.Join(*err, a.close()) }

// withApp opens the data directory for one piece of work and closes it again.
func (e *env) withApp(work func(a *app) error) (err error) {
	a, err := e.open(local.Options{})
	if err != nil {
		return err
	}
	defer closing(a, &err)
	return work(a)
}

// background runs a consumer until stop is called.
func (a *app) background(c runtime.Consumer) (stop func()) {
	ctx, cancel := context.WithCancel(a.ctx)
	done := make(chan error, 1)
	log := a.log
	if !a.verbose {
		log = slog.New(slog.DiscardHandler) // the command itself says what became of its files
	}
	go func() { done <- runtime.Run(ctx, a.js, c, log) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			fmt.Fprintln(a.errOut, "idlewatt:", err)
		}
	}
}

// settle brings derived tables up to what was taken, when no running instance does it.
func (a *app) settle() error {
	if a.attached {
		return nil
	}
	rules, err := normalize.RulesInForce(a.ctx, a.db)
	if err != nil {
		return err
	}
	p, err := a.pipeline(rules)
	if err != nil {
		return err
	}
	return p.settle(a)
}

// drainAll works off everything on the bus, bills included, with the given rules.
func (a *app) drainAll(rules normalize.Rules) error {
	p, err := a.pipeline(rules)
	if err != nil {
		return err
	}
	if err := runtime.Drain(a.ctx, a.js, p.normalize.Consumer(), a.log); err != nil {
		return err
	}
	return p.settle(a)
}
