package dcgm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
)

// target is one exporter.
type target struct {
	Addr string `json:"addr"`           // host:port or URL
	Node string `json:"node,omitempty"` // its host, if known; it counts before what the text says
}

// finder finds targets. Nil targets are no answer, which is not the same as none; with both
// targets and an error, the error is of entries that were left out.
type finder interface {
	find(ctx context.Context) ([]target, error)
}

// place is one configured way to find targets.
type place struct {
	name string // as messages call it, and the key of its memory
	finder
}

// discovery knows the targets of a source: what the configuration lists, and what was found
// last. Where looking fails, what was found before stays: a list that cannot be read does not
// mean that the exporters are gone.
type discovery struct {
	static  []target
	places  []place
	refresh time.Duration
	now     func() time.Time

	mu    sync.Mutex
	found map[string][]target // by place; nil before the cursor was read
	asked map[string]time.Time
	// failed is why looking there failed the last time, wholly or in part.
	failed map[string]error
}

// retry is when a pull whose discovery failed is due again: scraping goes on meanwhile.
const retry = 15 * time.Second

// memory is the cursor: what was found last, so that a restart does not lose the targets.
type memory struct {
	Found map[string][]target `json:"found"`
}

// targets returns what to scrape and the cursor to keep. The error tells what could not be
// looked for; the targets stand beside it.
func (d *discovery) targets(ctx context.Context, cur connectors.Cursor) ([]target, connectors.Cursor, error) {
	if len(d.places) == 0 {
		return d.static, cur, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found == nil {
		var m memory
		_ = connectors.Unpack(cur, &m) // a broken memory is no memory: the targets are looked for anyway
		d.found, d.asked, d.failed = map[string][]target{}, map[string]time.Time{}, map[string]error{}
		for _, p := range d.places {
			if known, ok := m.Found[p.name]; ok {
				d.found[p.name] = known
			}
		}
	}
	var errs []error
	for _, p := range d.places {
		if asked, ok := d.asked[p.name]; ok && d.now().Sub(asked) < d.refresh {
			continue
		}
		list, err := p.find(ctx)
		d.failed[p.name] = err
		if list != nil {
			d.found[p.name] = tidy(list)
		}
		if known, ok := d.found[p.name]; ok { // without any list it is asked again at the next pull
			d.asked[p.name] = d.now()
			if err != nil && list == nil {
				err = fmt.Errorf("%w (its %d known targets stay)", err, len(known))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("finding targets by %s: %w", p.name, err))
		}
	}
	next, err := connectors.Pack(memory{d.found})
	return d.all(), next, errors.Join(append(errs, err)...)
}

// all are the targets of every place, each address once. The configuration's come first; a
// node that only a later one knows is taken from there.
func (d *discovery) all() []target {
	out := slices.Clone(d.static)
	at := make(map[string]int, len(out))
	for i, t := range out {
		at[t.Addr] = i
	}
	for _, p := range d.places {
		for _, t := range d.found[p.name] {
			i, ok := at[t.Addr]
			if !ok {
				at[t.Addr] = len(out)
				out = append(out, t)
				continue
			}
			out[i].Node = cmp.Or(out[i].Node, t.Node)
		}
	}
	return out
}

// tidy sorts a list and leaves out what is in it twice, so that the same list in another
// order is the same memory.
func tidy(list []target) []target {
	slices.SortFunc(list, func(a, b target) int { return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(b.Node, a.Node)) })
	return slices.CompactFunc(list, func(a, b target) bool { return a.Addr == b.Addr })
}

func (c *Config) discovers() bool {
	return c.SRV != "" || c.HTTPSD != "" || c.FileSD != "" || c.Kubernetes != nil
}

func (c *Config) checkDiscovery() error {
	var errs []error
	if c.HTTPSD != "" {
		u, err := url.Parse(c.HTTPSD)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			errs = append(errs, errors.New("http_sd: is no http or https URL"))
		case u.User != nil:
			errs = append(errs, errors.New("http_sd: must not hold credentials"))
		}
	}
	if strings.ContainsAny(c.SRV, ":/ ") {
		errs = append(errs, fmt.Errorf("srv: %q is no DNS name such as _dcgm._tcp.gpu.example.com", c.SRV))
	}
	if c.Kubernetes != nil {
		errs = append(errs, c.Kubernetes.validate())
	}
	if c.discovers() && c.Refresh <= 0 {
		errs = append(errs, errors.New("refresh: must be positive"))
	}
	return errors.Join(errs...)
}

// newDiscovery sets up what the configuration names.
func newDiscovery(c *Config, now func() time.Time, dns resolver) *discovery {
	d := &discovery{refresh: c.Refresh, now: now}
	for _, t := range c.Targets {
		d.static = append(d.static, target{Addr: t})
	}
	add := func(name string, f finder) { d.places = append(d.places, place{name, f}) }
	if c.SRV != "" {
		add("srv "+c.SRV, srvFinder{c.SRV, dns, c.Timeout})
	}
	if c.HTTPSD != "" {
		add("http_sd "+c.HTTPSD, newHTTPFinder(c.HTTPSD, c.Timeout))
	}
	if c.FileSD != "" {
		add("file_sd "+c.FileSD, fileFinder(c.FileSD))
	}
	if c.Kubernetes != nil {
		add("kubernetes "+c.Kubernetes.LabelSelector, &podFinder{cfg: c.Kubernetes.filled(), timeout: c.Timeout})
	}
	return d
}

// forget drops the remembered host names of targets that are gone: pods get new addresses.
func (c *connector) forget(targets []target) {
	keep := make(map[string]bool, len(targets))
	for _, t := range targets {
		keep[t.Addr] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.nodes, func(addr, _ string) bool { return !keep[addr] })
}
