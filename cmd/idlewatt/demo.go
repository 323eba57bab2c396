package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/idlewatt/idlewatt/connectors/all"
	"github.com/idlewatt/idlewatt/connectors/gpuseries"
	"github.com/idlewatt/idlewatt/deploy/demo"
	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/ingest"
	"github.com/idlewatt/idlewatt/processors/normalize"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

const (
	defaultData = "./idlewatt-data"
	demoData    = "./idlewatt-demo"
	// demoMark is in every data directory that a demo made; only such a one is emptied.
	demoMark = ".made-by-idlewatt-demo"
)

type demoCmd struct {
	Once bool `help:"Print what was found and exit."`
}

func (c *demoCmd) Run(e *env) error {
	if e.data == defaultData {
		e.data = demoData
	}
	if err := freshDemo(e.data); err != nil {
		return err
	}
	month, err := demo.Generate(filepath.Join(e.data, "sample"))
	if err != nil {
		return fmt.Errorf("making the sample month: %w", err)
	}
	if c.Once {
		if err := e.demoOnce(month); err != nil {
			return err
		}
		_, err := fmt.Fprintf(e.out, "The page: %s --data %s up, then http://%s/\n", os.Args[0], e.data, defaultListen)
		return err
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	e.ctx = ctx
	l := &loaded{rules: normalize.DefaultRules(), config: config{TimeZone: month.TimeZone}}
	if err := e.demoOnce(month); err != nil {
		return err
	}
	return e.serve(l, func(_ *app, url string) error {
		_, err := fmt.Fprintf(e.out, "\nThe page: %s   (Ctrl-C ends it)\nTry: %s --data %s query 'SELECT * FROM idlewatt.idle_waste ORDER BY Cost DESC LIMIT 5'\n", url, os.Args[0], e.data)
		return err
	})
}

// freshDemo empties a directory that an earlier demo made, and refuses any other that is not empty.
func freshDemo(dir string) error {
	mark := filepath.Join(dir, demoMark)
	if _, err := os.Stat(mark); err == nil {
		if inst, err := local.Attach(context.Background(), dir); err == nil {
			return usagef("a demo (process %d) runs on %s already; end it first", inst.PID, dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("emptying the last demo: %w", err)
		}
	} else if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return usagef("%s holds data of yours; give the demo another --data", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the demo's data directory: %w", err)
	}
	return os.WriteFile(mark, nil, 0o600)
}

// demoOnce takes the sample month in as a user would and prints what it shows.
func (e *env) demoOnce(month demo.Month) (err error) {
	e.timeZone = month.TimeZone
	a, err := e.open(local.Options{Relaxed: true})
	if err != nil {
		return err
	}
	defer closing(a, &err)
	p, err := a.pipeline(normalize.DefaultRules())
	if err != nil {
		return err
	}
	began := a.now()
	rows, err := a.demoBills(p, month)
	if err != nil {
		return err
	}
	bills := a.now().Sub(began)
	if err := a.demoFacts(month); err != nil {
		return err
	}
	samples, err := a.demoScrapes(p, month)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.errOut, "deriving GPU intervals and splitting charges (%.0f s so far)\n", a.now().Sub(began).Seconds())
	if err := p.settle(a); err != nil {
		return err
	}
	took := a.now().Sub(began)
	if err := a.demoFindings(month); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "\n%d bill rows in %.1f s (%.0f rows/s), %d GPU samples; everything in %.1f s\n",
		rows, bills.Seconds(), float64(rows)/bills.Seconds(), samples, took.Seconds())
	return err
}

func (a *app) demoBills(p *pipeline, month demo.Month) (rows uint64, err error) {
	stop := a.background(p.normalize.Consumer())
	defer stop()
	for _, d := range month.Deliveries {
		fmt.Fprintf(a.errOut, "importing %s, version %s\n", d.Name, d.Version)
		objects, err := a.publisher().ArchiveAll(a.ctx, d.Files)
		if err != nil {
			return rows, err
		}
		del, err := a.publisher().Deliver(a.ctx, ingest.Delivery{Source: d.Source, Format: d.Format, Version: d.Version, Objects: objects})
		if err != nil {
			return rows, err
		}
		out, err := a.awaitOutcome(del.Delivery)
		if err != nil {
			return rows, err
		}
		if out.Status != normalize.Live {
			return rows, fmt.Errorf("importing %s: %s: %s", d.Name, out.Status, out.Message)
		}
		rows += out.Rows
	}
	return rows, nil
}

func (a *app) demoFacts(month demo.Month) error {
	for format, path := range map[string]string{"events": month.Jobs, "invoice": month.Invoices} {
		d, err := a.publisher().Decode(a.ctx, all.Formats()[format], "demo", time.Time{}, []string{path})
		if err != nil {
			return err
		}
		if d.Bad > 0 {
			return fmt.Errorf("reading %s: %w", path, d.First)
		}
	}
	return nil
}

// demoScrapes reads the exporters' text as the live connector does, and stores the samples
// while more are being read.
func (a *app) demoScrapes(p *pipeline, month demo.Month) (samples int, err error) {
	fmt.Fprintf(a.errOut, "reading dcgm-exporter scrapes of %s to %s\n", month.ScrapeStart.Format(time.DateOnly), month.ScrapeEnd.Format(time.DateOnly))
	stop := a.background(p.utilize.Consumer())
	defer stop()
	var g errgroup.Group
	queue := make(chan event.Event, 256)
	g.Go(func() error { return a.publishAll(queue) })
	walk := demo.Scrapes(func(node string, at time.Time, body []byte) error {
		events := gpuseries.Read(body, gpuseries.Options{Target: node + ":9400", Node: node, At: at})
		for _, s := range events {
			samples += len(s.GPUs)
			e, err := event.New(event.TypeGPUSamples, "idlewatt/demo", s.Target+"/"+s.At.Format(time.RFC3339Nano), "1", s.At, s)
			if err != nil {
				return err
			}
			select {
			case queue <- e:
			case <-a.ctx.Done():
				return a.ctx.Err()
			}
		}
		return nil
	})
	close(queue)
	return samples, errors.Join(walk, g.Wait())
}

// publishAll publishes events with several on their way at once: each is on disk before the
// bus answers, so one after the other would wait for the disk each time.
func (a *app) publishAll(queue <-chan event.Event) error {
	var first error
	for e := range queue {
		if first != nil {
			continue // drain, so that the reader ends
		}
		msg, err := bus.Message(e)
		if err == nil {
			_, err = a.js.PublishMsgAsync(msg, jetstream.WithStallWait(time.Minute))
		}
		first = err
	}
	if first != nil {
		return fmt.Errorf("publishing samples: %w", first)
	}
	select {
	case <-a.js.PublishAsyncComplete():
		return nil
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
}
