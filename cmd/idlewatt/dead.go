package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/idlewatt/idlewatt/processors/normalize"
)

type deadCmd struct {
	List  deadListCmd  `cmd:"" default:"1" help:"List refused events, oldest first. Example: idlewatt dead list"`
	Show  deadShowCmd  `cmd:"" help:"Print one with its content. Example: idlewatt dead show 3"`
	Retry deadRetryCmd `cmd:"" help:"Put events back on their stream. Example: idlewatt dead retry 3 4"`
	Drop  deadDropCmd  `cmd:"" help:"Delete refused events for good. Example: idlewatt dead drop 3"`
}

type deadListCmd struct {
	Limit int `default:"100" help:"At most so many."`
}

func (c *deadListCmd) Run(e *env) error { return e.withApp(c.run) }

func (c *deadListCmd) run(a *app) error {
	letters, err := a.publisher().Letters(a.ctx, c.Limit)
	if err != nil {
		return err
	}
	if len(letters) == 0 {
		_, err := fmt.Fprintln(a.out, "no dead letters")
		return err
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NUMBER\tAT\tREFUSED BY\tTYPE\tREASON")
	for _, l := range letters {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", l.Number, l.Stored.Format(time.RFC3339), l.Refused, l.Type, l.Reason)
	}
	return w.Flush()
}

type deadShowCmd struct {
	Number uint64 `arg:""`
}

func (c *deadShowCmd) Run(e *env) error { return e.withApp(c.run) }

func (c *deadShowCmd) run(a *app) error {
	l, err := a.publisher().Letter(a.ctx, c.Number)
	if err != nil {
		return err
	}
	raw := string(l.Raw)
	l.Raw = nil
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l.DeadLetter); err != nil {
		return err
	}
	if raw != "" {
		_, err = fmt.Fprintln(a.out, raw)
	}
	return err
}

type deadRetryCmd struct {
	Numbers []uint64 `arg:"" name:"number"`
}

func (c *deadRetryCmd) Run(e *env) error { return e.withApp(c.run) }

func (c *deadRetryCmd) run(a *app) error {
	var errs []error
	for _, n := range c.Numbers {
		errs = append(errs, a.publisher().Retry(a.ctx, n))
	}
	if !a.attached {
		rules, err := normalize.RulesInForce(a.ctx, a.db)
		if err == nil {
			err = a.drainAll(rules)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

type deadDropCmd struct {
	Numbers []uint64 `arg:"" name:"number"`
}

func (c *deadDropCmd) Run(e *env) error { return e.withApp(c.run) }

func (c *deadDropCmd) run(a *app) error {
	var errs []error
	for _, n := range c.Numbers {
		errs = append(errs, a.publisher().Drop(a.ctx, n))
	}
	return errors.Join(errs...)
}
