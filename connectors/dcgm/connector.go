package dcgm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/gpuseries"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Factory describes this connector. Its clock is the machine's.
func Factory() connectors.Factory {
	return factory(time.Now)
}

func factory(now func() time.Time) connectors.Factory {
	return connectors.Factory{
		Type:      "dcgm",
		Summary:   "GPU telemetry from NVIDIA dcgm-exporter, scraped or as text",
		NewConfig: func() connectors.Config { return defaults() },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: configuration is a %T", source, cfg)
			}
			return newConnector(source, c, now)
		},
		Every:   15 * time.Second,
		Formats: []connectors.Format{{Name: "dcgm", Sniff: sniff, Decode: decode}},
	}
}

type connector struct {
	source string
	config *Config
	now    func() time.Time
	client *client
	dns    resolver
	where  *discovery

	mu    sync.Mutex
	nodes map[string]string // host names that targets gave themselves
}

func newConnector(source string, c *Config, now func() time.Time) (*connector, error) {
	cl, err := newClient(c)
	if err != nil {
		return nil, fmt.Errorf("building source %s: %w", source, err)
	}
	return &connector{
		source: source, config: c, now: now, client: cl, nodes: map[string]string{}, dns: net.DefaultResolver,
		where: newDiscovery(c, now, net.DefaultResolver),
	}, nil
}

// Pull scrapes every target once. What was not scraped in its time is gone, and a failed
// scrape is a fact of its own; the cursor only holds the targets that were found last. If
// looking for targets fails, the known ones are scraped all the same and the error comes after.
func (c *connector) Pull(ctx context.Context, cursor connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	token, err := c.client.token()
	if err != nil {
		return cursor, err
	}
	targets, next, unwell := c.where.targets(ctx, cursor)
	c.forget(targets)
	if err := c.scrapeAll(ctx, targets, token, emit); err != nil {
		return cursor, err
	}
	if unwell == nil {
		return next, nil
	}
	if err := errors.Join(connectors.Keep(ctx, emit, next, ""), ctx.Err()); err != nil {
		return cursor, err
	}
	return cursor, connectors.RetryAfterError{Err: unwell, After: retry}
}

func (c *connector) scrapeAll(ctx context.Context, all []target, token string, emit connectors.Emitter) error {
	ctx, cancel := context.WithCancel(ctx)
	var scrapers sync.WaitGroup
	defer scrapers.Wait()
	defer cancel()
	targets := make(chan target)
	results := make(chan []event.GPUSamples)
	for range min(c.config.Parallel, len(all)) {
		scrapers.Go(func() {
			for t := range targets {
				select {
				case results <- c.scrape(ctx, t, token):
				case <-ctx.Done():
					return
				}
			}
		})
	}
	scrapers.Go(func() {
		defer close(targets)
		for _, t := range all {
			select {
			case targets <- t:
			case <-ctx.Done():
				return
			}
		}
	})
	for range all {
		select {
		case found := <-results:
			if err := gpuseries.Send(ctx, c.source, found, emit); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// scrape reads one target. It has no error: a target that cannot be read is a gap, told by
// an event with OK false.
func (c *connector) scrape(ctx context.Context, t target, token string) []event.GPUSamples {
	at := c.now().UTC().Truncate(time.Millisecond)
	o := gpuseries.Options{Target: t.Addr, Node: cmp.Or(c.config.Nodes[t.Addr], t.Node), At: at, ReceivedAt: at}
	if len(c.config.Labels) > 0 {
		o.Labels = c.config.Labels
	}
	text, err := c.client.get(ctx, t.Addr, token)
	if err != nil && len(text) == 0 {
		return []event.GPUSamples{o.Failed(err, c.node(o))}
	}
	o.Cut = err != nil
	events := gpuseries.Read(text, o)
	for i := range events {
		if !events[i].OK {
			events[i].Node = c.node(o)
		}
		if o.Cut {
			events[i].Error = err.Error()
		}
		c.remember(events[i])
	}
	return events
}

// node names the host of a target that failed: a gap belongs to the node it hides.
func (c *connector) node(o gpuseries.Options) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.Node != "" {
		return o.Node
	}
	if n := c.nodes[o.Target]; n != "" {
		return n
	}
	return o.Target
}

func (c *connector) remember(e event.GPUSamples) {
	if e.OK {
		c.mu.Lock()
		c.nodes[e.Target] = e.Node
		c.mu.Unlock()
	}
}

// sniff recognises an exporter's text by its names.
func sniff(head []byte) bool { return sniffPattern().Match(head) }

func sniffPattern() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?(DCGM_FI_|dcgm_(gpu_utilization|power_usage|fb_used))`)
}

const maxFile = 512 << 20

// decode reads a saved exposition.
func decode(ctx context.Context, f connectors.File, emit connectors.Emitter) error {
	text, err := io.ReadAll(io.LimitReader(f.Body, maxFile+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.Name, err)
	}
	if len(text) > maxFile {
		return fmt.Errorf("reading %s: more than %d bytes: divide it", f.Name, maxFile)
	}
	o := gpuseries.Options{Target: "import/" + filepath.Base(f.Name), At: f.At}
	events, bad := gpuseries.ReadLines(text, o)
	for i, e := range events {
		switch {
		case !e.OK:
			return fmt.Errorf("reading %s: %s", f.Name, e.Error)
		case e.At.IsZero():
			return fmt.Errorf("reading %s: its samples carry no time: say with --at TIME when it was scraped", f.Name)
		case e.Target == o.Target && e.Node != e.Target:
			events[i].Target = "import/" + e.Node // files of one host are one series
		}
	}
	if err := gpuseries.Send(ctx, f.Source, events, emit); err != nil {
		return err
	}
	return refuse(ctx, f, bad)
}

func refuse(ctx context.Context, f connectors.File, bad []gpuseries.BadLine) error {
	if f.Bad == nil {
		return nil
	}
	var errs []error
	for _, b := range bad {
		errs = append(errs, f.Bad(ctx, []byte(b.Text), fmt.Errorf("%s line %d: %w", f.Name, b.Number, b.Err)))
	}
	return errors.Join(errs...)
}
