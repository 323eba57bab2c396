package vast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
		Type:      "vast",
		Summary:   "Vast.ai: charges, contracts, utilisation, market prices, balance",
		NewConfig: func() connectors.Config { return defaults() },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: configuration is a %T", source, cfg)
			}
			return newConnector(source, *c, now, client)
		},
		Every:   2 * time.Minute,
		Formats: []connectors.Format{{Name: "vast", Sniff: sniff, Lines: decodeLines}},
	}
}

type connector struct {
	source, account string
	cfg             Config
	labels          labeller
	now             func() time.Time
	api             *rest.Client

	mu    sync.Mutex
	last  string               // the cursor of the last pull that went well
	later map[string]time.Time // when what failed is tried again
}

func newConnector(source string, cfg Config, now func() time.Time, client *http.Client) (*connector, error) {
	labels, err := newLabeller(cfg.ProjectFromLabel)
	if err != nil {
		return nil, fmt.Errorf("building source %s: %w", source, err)
	}
	account := cfg.Account
	if account == "" {
		account = source
	}
	clock := now
	if cfg.Now != nil {
		clock = cfg.Now
	}
	return &connector{
		source: source, account: account, cfg: cfg, labels: labels, now: clock, later: map[string]time.Time{},
		api: &rest.Client{Provider: vendor, Base: cfg.BaseURL, Key: cfg.Key, HTTP: client, Now: now},
	}, nil
}

// state is the cursor.
type state struct {
	Contracts connectors.Runs `json:"contracts,omitzero"`
	Volumes   connectors.Runs `json:"volumes,omitzero"`
	Known     memory          `json:"known,omitempty"`
	Charges   reach           `json:"charges,omitzero"`
	Wallet    time.Time       `json:"wallet,omitzero"`
	Prices    string          `json:"prices,omitempty"` // day of the last market prices
}

func (s state) cursor() (connectors.Cursor, error) { return json.Marshal(s) }

// Pull asks for the contracts each time, and for the rest when it is due. The contracts are
// told before the rest is asked: what a poll misses never comes back.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := state{Known: memory{}}
	if cur != nil {
		if err := json.Unmarshal(cur, &s); err != nil {
			return cur, connectors.Permanent(fmt.Errorf("reading cursor: %w", err))
		}
	}
	if s.Known == nil {
		s.Known = memory{}
	}
	again := string(cur) != c.last || c.last == ""
	now := c.now().UTC().Truncate(time.Millisecond)
	if !now.After(s.Contracts.Seen) {
		return cur, ctx.Err() // the clock was set back: nothing is newer than what is known
	}
	if err := c.poll(ctx, &s, now, again, emit); err != nil {
		return cur, err
	}
	for _, t := range []task{
		{"volumes", now.Sub(s.Volumes.Seen) >= time.Hour, c.volumes},
		{"charges", c.cfg.ChargesEvery > 0 && now.Sub(s.Charges.Asked) >= c.cfg.ChargesEvery, c.charges},
		{"wallet", c.cfg.Wallet && now.Sub(s.Wallet) >= time.Hour, c.wallet},
		{"prices", len(c.cfg.Offers) > 0 && s.Prices != now.Format(time.DateOnly), c.prices},
	} {
		if !t.due || now.Before(c.later[t.name]) {
			continue
		}
		if err := t.run(ctx, &s, now, emit); err != nil {
			return cur, c.putOff(ctx, t.name, now, err)
		}
		delete(c.later, t.name)
	}
	next, err := s.cursor()
	if err != nil {
		return cur, err
	}
	c.last = string(next)
	return next, nil
}

// task is something beside the contracts.
type task struct {
	name string
	due  bool
	run  func(ctx context.Context, s *state, now time.Time, emit connectors.Emitter) error
}

// refusal is an error of the provider and not of ours.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// pause is how long a task that failed is left out, so that contracts are polled on.
const pause = 15 * time.Minute

// putOff leaves a refused task out for a while. The error is of the ordinary class then:
// contracts go on being polled meanwhile.
func (c *connector) putOff(ctx context.Context, name string, now time.Time, err error) error {
	var r refusal
	if ctx.Err() != nil || !errors.As(err, &r) {
		return err
	}
	wait := pause
	if after, ok := connectors.RetryAfter(err); ok {
		wait = max(after, time.Minute)
	} else if connectors.IsPermanent(err) {
		wait = time.Hour
	}
	c.later[name] = now.Add(wait)
	return fmt.Errorf("%s (asked again in %v)", err.Error(), wait)
}

// poll reads all contracts and tells what of them runs.
func (c *connector) poll(ctx context.Context, s *state, now time.Time, again bool, emit connectors.Emitter) error {
	contracts, err := c.contracts(ctx)
	if err != nil {
		return err
	}
	var running []event.Instance
	for _, k := range contracts {
		s.Known.note(k, now)
		runs, err := c.runs(k, now)
		if err != nil {
			return fmt.Errorf("asking %s: contract %s: %w", vendor, k.ID, err)
		}
		running = append(running, runs...)
	}
	// A contract gone may still be billed in the window that is read again.
	s.Known.forget(now.AddDate(0, 0, -c.cfg.WindowDays-2))
	if err := connectors.TellRuns(ctx, emit, c.source, s.Contracts.Poll(now, running, again)); err != nil {
		return err
	}
	kept, err := s.cursor()
	if err != nil {
		return err
	}
	if err := connectors.Keep(ctx, emit, kept, ""); err != nil {
		return err
	}
	if err := connectors.TellRuns(ctx, emit, c.source, s.Contracts.Begun()); err != nil {
		return err
	}
	if c.cfg.Utilisation {
		if err := c.samples(ctx, contracts, now, emit); err != nil {
			return err
		}
	}
	return connectors.TellPoll(ctx, emit, event.Poll{
		Source: c.source, Provider: provider, Account: c.account, At: now, Running: len(running),
	})
}
