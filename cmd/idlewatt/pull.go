package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/ingest"
)

type pullCmd struct {
	Config  string   `short:"c" default:"idlewatt.yaml" help:"Configuration file." placeholder:"FILE"`
	Sources []string `arg:"" optional:"" name:"source" help:"Names of sources; none means all."`
}

func (c *pullCmd) Run(e *env) (err error) {
	l, err := loadConfig(c.Config)
	if err != nil {
		return err
	}
	e.useData(l)
	var chosen []ingest.Source
	for _, s := range l.sources {
		if len(c.Sources) == 0 || slices.Contains(c.Sources, s.Name) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 || len(c.Sources) > len(chosen) {
		return usagef("pull: no such source in %s: want some of %s", c.Config, names(l.sources))
	}
	a, err := e.open(local.Options{})
	if err != nil {
		return err
	}
	defer closing(a, &err)
	p := ingest.Puller{Publisher: a.publisher(), Log: a.log, Progress: func(source, line string) { fmt.Fprintf(e.errOut, "%s: %s\n", source, line) }}
	var errs []error
	for _, s := range chosen {
		if err := p.Once(a.ctx, s); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(e.out, "%s: pulled\n", s.Name)
	}
	if !a.attached {
		fmt.Fprintln(e.errOut, "what came is safe; loading bills, judging GPUs and splitting charges now (`idlewatt up` would do it as they come)")
		switch err := a.drainAll(l.rules); {
		case err != nil && a.ctx.Err() != nil:
			errs = append(errs, errors.New("interrupted: what was pulled is safe, the next `idlewatt up`, pull or import goes on with it"))
		case err != nil:
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func names(sources []ingest.Source) []string {
	var out []string
	for _, s := range sources {
		out = append(out, s.Name)
	}
	return out
}
