package dcgmhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/gpuseries"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Engine is a host engine as this package asks it. It is used by one caller at a time.
type Engine interface {
	// Read returns every GPU, and in its place its MIG instances where it has MIG enabled,
	// each with the newest value of every field of Fields. It connects where it has to; an
	// error leaves it so that the next call connects anew.
	Read(ctx context.Context) ([]Device, error)
}

// errNoReading says that the engine answers and has nothing to say.
var errNoReading = errors.New("the host engine has no value that is new enough: see that it collects, and the clocks of both hosts")

// Factory describes this connector. Its clock is the machine's.
func Factory() connectors.Factory {
	return factory(time.Now)
}

func factory(now func() time.Time) connectors.Factory {
	return connectors.Factory{
		Type:      "dcgmhost",
		Summary:   "GPU telemetry from a DCGM host engine itself (only in binaries built with -tags dcgm)",
		NewConfig: func() connectors.Config { return defaults() },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: configuration is a %T", source, cfg)
			}
			return newConnector(source, *c, now)
		},
		Every: 15 * time.Second,
	}
}

type connector struct {
	source string
	config Config
	engine Engine
	now    func() time.Time
}

func newConnector(source string, c Config, now func() time.Time) (connectors.Connector, error) {
	engine := c.Engine
	if engine == nil {
		var err error
		if engine, err = open(c); err != nil {
			return nil, fmt.Errorf("building source %s: %w", source, err)
		}
	}
	if c.Node == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("building source %s: node: %w; say it in the configuration", source, err)
		}
		c.Node = host
	}
	return &connector{source: source, config: c, engine: engine, now: now}, nil
}

// Pull reads every GPU once. It needs no cursor: what was not read in its time is gone, and a
// host engine that does not answer is a fact of its own, a gap.
func (c *connector) Pull(ctx context.Context, cursor connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	if err := ctx.Err(); err != nil {
		return cursor, err
	}
	found := c.read(ctx)
	if err := ctx.Err(); err != nil {
		return cursor, err
	}
	return cursor, gpuseries.Send(ctx, c.source, found, emit)
}

// read has no error: what cannot be read is a gap, told by an event with OK false.
func (c *connector) read(ctx context.Context) []event.GPUSamples {
	o := gpuseries.Options{Target: "dcgm://" + c.config.Address, Node: c.config.Node}
	devices, err := c.engine.Read(ctx)
	o.At = c.now().UTC().Truncate(time.Millisecond)
	o.ReceivedAt = o.At
	switch {
	case err != nil:
		return []event.GPUSamples{o.Failed(fmt.Errorf("asking the host engine at %s: %w", c.config.Address, err), c.config.Node)}
	case len(devices) == 0:
		return []event.GPUSamples{o.Failed(fmt.Errorf("asking the host engine at %s: it shows no GPU", c.config.Address), c.config.Node)}
	}
	return samples(devices, o, c.config.MaxAge)
}

// Doctor reads once and says what keeps it from carrying a verdict.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	f := connectors.Finding{Level: connectors.OK, What: "host engine at " + c.config.Address}
	gpus, rejected := 0, map[string]int{}
	for _, e := range c.read(ctx) {
		if !e.OK {
			f.Level, f.Said = connectors.Fail, e.Error
			f.Fix = "see whether nv-hostengine runs there and this host has libdcgm.so of its version; without it the node's hours stay unobserved"
			return []connectors.Finding{f}
		}
		gpus += len(e.GPUs)
		for reason, n := range e.Rejected {
			rejected[reason] += n
		}
	}
	f.Said = fmt.Sprintf("%d GPUs or MIG instances, as node %s", gpus, c.config.Node)
	if n := rejected[reasonNoValue]; n > 0 { // usual where nobody collects profiling counters
		f.Said += fmt.Sprintf(", %d fields without a value", n)
		delete(rejected, reasonNoValue)
	}
	if len(rejected) > 0 {
		f.Level, f.Said = connectors.Warn, f.Said+fmt.Sprintf(", readings refused: %v", rejected)
		f.Fix = "see connectors/dcgmhost/README.md for what each reason means"
	}
	return []connectors.Finding{f}
}
