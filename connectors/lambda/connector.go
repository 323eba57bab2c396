package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Factory describes this connector. Its clock is the machine's.
func Factory() connectors.Factory { return factory(time.Now, nil) }

func factory(now func() time.Time, client *http.Client) connectors.Factory {
	return connectors.Factory{
		Type:      "lambda",
		Summary:   "Lambda: machines, file systems and prices (there is no bill to read)",
		NewConfig: func() connectors.Config { return defaults() },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: configuration is a %T", source, cfg)
			}
			return newConnector(source, *c, now, client)
		},
		Every:   time.Minute,
		Formats: []connectors.Format{{Name: "lambda", Private: true, Sniff: sniff, Decode: decode}},
	}
}

type connector struct {
	source, account string
	cfg             Config
	storage         storage
	now             func() time.Time
	api             *rest.Client

	mu    sync.Mutex
	last  string               // the cursor of the last pull that went well
	later map[string]time.Time // when what failed is tried again
}

func newConnector(source string, cfg Config, now func() time.Time, client *http.Client) (*connector, error) {
	s, err := cfg.storage()
	if err != nil {
		return nil, fmt.Errorf("building source %s: filesystem_price_per_gib_month: %w", source, err)
	}
	account, clock, interval := cfg.Account, now, time.Second // what Lambda allows
	if account == "" {
		account = source
	}
	if cfg.Now != nil {
		clock, interval = cfg.Now, 0 // a clock that stands waits for ever
	}
	return &connector{
		source: source, account: account, cfg: cfg, storage: s, now: clock, later: map[string]time.Time{},
		api: &rest.Client{Provider: vendor, Base: cfg.BaseURL, Key: cfg.Key, HTTP: client, Interval: interval, Now: now},
	}, nil
}

// state is the cursor.
type state struct {
	First    time.Time                 `json:"first,omitzero"` // the first poll
	Machines connectors.Runs           `json:"machines,omitzero"`
	Volumes  connectors.Runs           `json:"volumes,omitzero"`
	Audited  time.Time                 `json:"audited,omitzero"` // up to which the audit log is read
	Lives    lives                     `json:"lives,omitempty"`
	Ended    map[string]event.Instance `json:"ended,omitempty"`   // the last run of a machine that is gone
	Waiting  map[string]time.Time      `json:"waiting,omitempty"` // machines last seen booting
	Prices   map[string]instanceType   `json:"prices,omitempty"`
	Priced   string                    `json:"priced,omitempty"` // day of the last prices
}

func (s *state) cursor() (connectors.Cursor, error) { return json.Marshal(s) }

func parse(cur connectors.Cursor) (*state, error) {
	s := &state{}
	if cur != nil {
		if err := json.Unmarshal(cur, s); err != nil {
			return nil, connectors.Permanent(fmt.Errorf("reading cursor: %w", err))
		}
	}
	if s.Lives == nil {
		s.Lives = lives{}
	}
	if s.Ended == nil {
		s.Ended = map[string]event.Instance{}
	}
	if s.Waiting == nil {
		s.Waiting = map[string]time.Time{}
	}
	return s, nil
}

// Pull reads the machines each time, after the audit log that says when they began and ended,
// and the rest when it is due. What is refused beside the machines is asked again later.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := parse(cur)
	if err != nil {
		return cur, err
	}
	again := string(cur) != c.last || c.last == ""
	now := c.now().UTC().Truncate(time.Millisecond)
	if !now.After(s.Machines.Seen) {
		return cur, ctx.Err() // the clock was set back: nothing is newer than what is known
	}
	if s.First.IsZero() {
		s.First = now
	}
	var failed error
	for _, t := range []task{
		{"prices", s.Priced != now.Format(time.DateOnly), c.prices},
		{"audit", true, c.audit},
		{"machines", true, func(ctx context.Context, s *state, now time.Time, emit connectors.Emitter) error {
			return c.machines(ctx, s, now, again, emit)
		}},
		{"filesystems", now.Sub(s.Volumes.Seen) >= time.Hour, c.filesystems},
	} {
		if !t.due || now.Before(c.later[t.name]) {
			continue
		}
		err := t.run(ctx, s, now, emit)
		var r refusal
		switch {
		case err == nil:
			delete(c.later, t.name)
		case t.name == "machines" || ctx.Err() != nil || !errors.As(err, &r):
			return cur, err
		default:
			failed = errors.Join(failed, c.putOff(t.name, now, err))
		}
	}
	if failed != nil {
		return cur, failed // what was kept on the way stays
	}
	next, err := s.cursor()
	if err != nil {
		return cur, err
	}
	c.last = string(next)
	return next, nil
}

// task is one part of a pull.
type task struct {
	name string
	due  bool
	run  func(ctx context.Context, s *state, now time.Time, emit connectors.Emitter) error
}

// refusal is an error of the provider and not of ours.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// putOff leaves a refused task out for a while. The error is of the ordinary class then, so
// that machines go on being polled.
func (c *connector) putOff(name string, now time.Time, err error) error {
	wait := 15 * time.Minute
	if after, ok := connectors.RetryAfter(err); ok {
		wait = max(after, time.Minute)
	} else if connectors.IsPermanent(err) {
		wait = time.Hour
	}
	c.later[name] = now.Add(wait)
	return fmt.Errorf("%s (asked again in %v)", err.Error(), wait)
}

// keep saves the cursor before what begins in it is told.
func (c *connector) keep(ctx context.Context, s *state, emit connectors.Emitter) error {
	kept, err := s.cursor()
	if err != nil {
		return err
	}
	return connectors.Keep(ctx, emit, kept, "")
}

// machines polls the machines and tells their runs.
func (c *connector) machines(ctx context.Context, s *state, now time.Time, again bool, emit connectors.Emitter) error {
	all, err := c.instances(ctx)
	if err != nil {
		return refusal{err}
	}
	var running []event.Instance
	there := map[string]bool{}
	for _, i := range all {
		if i.Status == statusBooting {
			s.Waiting[i.ID] = now
		}
		if !i.billed() {
			continue
		}
		run, err := i.run(c.account)
		if err != nil {
			return refusal{fmt.Errorf("asking %s: instance %s: %w", vendor, short(i.ID), err)}
		}
		if x := s.Lives[i.ID]; !x.Launched.IsZero() {
			launched := x.Launched
			run.StartedAfter, run.Tags = &launched, x.tags(run.Tags)
		}
		there[i.ID] = true
		running = append(running, run)
	}
	if err := connectors.TellRuns(ctx, emit, c.source, s.follow(now, running, there, again, c.account)); err != nil {
		return err
	}
	if err := c.keep(ctx, s, emit); err != nil {
		return err
	}
	if err := connectors.TellRuns(ctx, emit, c.source, s.Machines.Begun()); err != nil {
		return err
	}
	return connectors.TellPoll(ctx, emit, event.Poll{Source: c.source, Provider: provider, Account: c.account, At: now, Running: len(running)})
}

// instances reads the plain list, and the nodes of clusters as what they are.
func (c *connector) instances(ctx context.Context) ([]instance, error) {
	var out []instance
	at := map[string]int{}
	for _, id := range append([]string{""}, c.cfg.Clusters...) {
		var answer struct {
			Data *[]instance `json:"data"`
		}
		call := rest.Call{Path: "/instances"}
		if id != "" {
			call.Query = url.Values{"cluster_id": {id}}
		}
		if _, err := c.api.Do(ctx, call, &answer); err != nil {
			return nil, err
		}
		if answer.Data == nil {
			return nil, fmt.Errorf("asking %s: /instances answered no data", vendor)
		}
		for _, i := range *answer.Data {
			if id != "" {
				i.Cluster = id
			}
			if n, ok := at[i.ID]; ok {
				out[n] = i
				continue
			}
			at[i.ID] = len(out)
			out = append(out, i)
		}
	}
	return out, nil
}

// filesystems polls the file systems and tells them as runs at the rate of what is in them.
func (c *connector) filesystems(ctx context.Context, s *state, now time.Time, emit connectors.Emitter) error {
	var answer struct {
		Data *[]filesystem `json:"data"`
	}
	if _, err := c.api.Do(ctx, rest.Call{Path: "/file-systems"}, &answer); err != nil {
		return refusal{err}
	}
	if answer.Data == nil {
		return refusal{fmt.Errorf("asking %s: /file-systems answered no data", vendor)}
	}
	var running []event.Instance
	for _, f := range *answer.Data {
		run, err := f.run(c.account, c.storage)
		if err != nil {
			return refusal{fmt.Errorf("asking %s: file system %s: %w", vendor, short(f.ID), err)}
		}
		running = append(running, run)
	}
	if err := connectors.TellRuns(ctx, emit, c.source, s.Volumes.Poll(now, running, false)); err != nil {
		return err
	}
	if err := c.keep(ctx, s, emit); err != nil {
		return err
	}
	return connectors.TellRuns(ctx, emit, c.source, s.Volumes.Begun())
}

// prices tells the list price of every type once a day, and remembers them for machines that
// no poll sees.
func (c *connector) prices(ctx context.Context, s *state, now time.Time, emit connectors.Emitter) error {
	var answer typeList
	if _, err := c.api.Do(ctx, rest.Call{Path: "/instance-types"}, &answer); err != nil {
		return refusal{err}
	}
	if answer.Data == nil {
		return refusal{fmt.Errorf("asking %s: /instance-types answered no data", vendor)}
	}
	types := map[string]instanceType{}
	for _, name := range answer.names() {
		t := answer.Data[name].Type
		p, err := t.price(c.source, name, now)
		if err != nil {
			return refusal{fmt.Errorf("asking %s: %w", vendor, err)}
		}
		if p == nil {
			continue
		}
		types[name] = t
		e, err := event.New(event.TypeInventoryPrice, "idlewatt/"+c.source, "list/"+name, now.Format(time.DateOnly), now, p)
		if err != nil {
			return err
		}
		if err := emit.Event(ctx, e); err != nil {
			return err
		}
	}
	s.Prices, s.Priced = types, now.Format(time.DateOnly)
	return nil
}

// typeList is the answer of GET /instance-types: a map by name.
type typeList struct {
	Data map[string]struct {
		Type instanceType `json:"instance_type"`
	} `json:"data"`
}

func (l typeList) names() []string {
	var out []string
	for name := range l.Data {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// price is the list price of a type, everywhere; nil if it has none.
func (t instanceType) price(source, name string, from time.Time) (*event.Price, error) {
	rate, err := t.rate()
	if err != nil {
		return nil, fmt.Errorf("type %s: %w", short(name), err)
	}
	if rate == nil || name == "" {
		return nil, nil //nolint:nilnil // absent is not zero
	}
	return &event.Price{
		Source: source, Provider: provider, InstanceType: name, PricingModel: onDemand, Per: event.PerMachine, Rate: *rate,
		Currency: currency, ValidFrom: from,
	}, nil
}
