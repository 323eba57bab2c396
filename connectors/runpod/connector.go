package runpod

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

const (
	provider = "runpod"
	currency = "USD" // of every amount of this API
)

type connector struct {
	source string
	cfg    Config
	api    *api
	now    func() time.Time
	gb     map[string]money.Decimal // storage prices, USD per GB and hour
}

func newConnector(source string, c Config) (*connector, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("building source %s: %w", source, err)
	}
	if c.Account == "" {
		c.Account = source
	}
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	return &connector{source: source, cfg: c, api: newAPI(c, now), now: now, gb: c.StoragePrices.perHour()}, nil
}

// backwards is how far the clock may lie behind the last poll before it is wrong.
const backwards = time.Minute

// Pull looks at what exists, tells what changed, and reads the bill if that is due. What was
// seen is kept before the bill is asked for: a bill that is refused holds up no inventory.
// The inventory of one moment is told once; asked again at that moment it is silent.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	m, err := remember(cur)
	if err != nil {
		return cur, err
	}
	now := c.now().UTC().Truncate(time.Millisecond)
	if now.Before(m.Runs.Seen.Add(-backwards)) {
		return cur, connectors.Permanent(fmt.Errorf("pulling %s: the clock says %s, but the last poll was at %s: set the clock right",
			c.source, now.Format(time.RFC3339), m.Runs.Seen.Format(time.RFC3339)))
	}
	if now.After(m.Runs.Seen) {
		if err := c.inventory(ctx, m, now, emit); err != nil {
			return cur, err
		}
		if err := c.save(ctx, m, now, emit, ""); err != nil {
			return cur, err
		}
	}
	if err := c.bill(ctx, m, now, emit); err != nil {
		return cur, err
	}
	if err := ctx.Err(); err != nil {
		return cur, err
	}
	return m.cursor(now, c.keep())
}

// keep is how long what is gone is remembered: as long as its charges are read again.
func (c *connector) keep() time.Duration {
	return time.Duration(c.cfg.WindowDays+2) * 24 * time.Hour
}

// save keeps the memory in the middle of a pull, and tells people the line unless it is empty.
func (c *connector) save(ctx context.Context, m *memory, now time.Time, emit connectors.Emitter, line string) error {
	cur, err := m.cursor(now, c.keep())
	if err != nil {
		return err
	}
	return connectors.Keep(ctx, emit, cur, line)
}

// inventory makes one poll: prices, runs, readings of GPUs, the balance, and last that it was
// complete.
func (c *connector) inventory(ctx context.Context, m *memory, now time.Time, emit connectors.Emitter) error {
	if now.Sub(m.Priced) >= 24*time.Hour {
		if err := c.prices(ctx, m, now, emit); err != nil {
			return err
		}
	}
	s, err := c.api.look(ctx)
	if err != nil {
		return err
	}
	running := c.fold(m, s, now)
	if err := connectors.TellRuns(ctx, emit, c.source, m.Runs.Poll(now, running, false)); err != nil {
		return err
	}
	// A run's beginning is safe before it is told: see connectors.Runs.
	if err := c.save(ctx, m, now, emit, ""); err != nil {
		return err
	}
	if err := connectors.TellRuns(ctx, emit, c.source, m.Runs.Begun()); err != nil {
		return err
	}
	if c.cfg.Utilisation {
		if err := c.samples(ctx, s, now, emit); err != nil {
			return err
		}
	}
	if c.cfg.Balance {
		if err := c.wallet(ctx, now, emit); err != nil {
			return err
		}
	}
	return connectors.TellPoll(ctx, emit, event.Poll{
		Source: c.source, Provider: provider, Account: c.cfg.Account, At: now, Running: len(running),
	})
}

// prices tells the catalogue where it changed.
func (c *connector) prices(ctx context.Context, m *memory, now time.Time, emit connectors.Emitter) error {
	offers, err := c.api.offers(ctx)
	if err != nil {
		return err
	}
	next := map[string]offer{}
	for _, o := range offers {
		was := m.GPUs[o.ID]
		next[o.ID] = o
		for _, p := range []struct {
			model   string
			offered bool
			is, was amount
		}{
			{modelOnDemand, o.Secure, o.Price.Secure, was.Price.Secure},
			{modelCommunity, o.Community, o.Price.Community, was.Price.Community},
			{modelServerless, true, o.Price.Serverless, was.Price.Serverless},
		} {
			if !p.offered || !p.is.set || !p.is.IsPositive() || p.was.set && p.was.Equal(p.is.Decimal) {
				continue // 0 stands where a GPU is not offered
			}
			if err := c.price(ctx, emit, o.ID, p.model, p.is.Decimal, now); err != nil {
				return err
			}
		}
	}
	m.GPUs, m.Priced = next, now
	for id, o := range m.GPUs {
		o.ID = "" // it is the key
		m.GPUs[id] = o
	}
	return nil
}

func (c *connector) price(ctx context.Context, emit connectors.Emitter, gpu, pricing string, rate money.Decimal, now time.Time) error {
	p := event.Price{
		Source: c.source, Provider: provider, InstanceType: gpu, PricingModel: pricing, Per: event.PerGPU, Rate: rate,
		Currency: currency, ValidFrom: now,
	}
	if pricing == modelServerless {
		p.Kind = event.KindServerless
	}
	e, err := event.New(event.TypeInventoryPrice, "idlewatt/"+c.source, "price/"+pricing+"/"+gpu, now.Format(time.RFC3339Nano), now, p)
	if err != nil {
		return err
	}
	return emit.Event(ctx, e)
}

// wallet tells the balance. A refusal is no failure of the pull: GraphQL is about to go, and
// doctor says so.
func (c *connector) wallet(ctx context.Context, now time.Time, emit connectors.Emitter) error {
	w, err := c.api.balance(ctx)
	if err != nil {
		if connectors.IsPermanent(err) {
			return nil
		}
		return err
	}
	p := event.Wallet{
		Source: c.source, Provider: provider, Account: c.cfg.Account, At: now, Balance: w.Balance.Decimal, Currency: currency,
		SpendPerHour: w.Spend.pointer(), SpendLimit: w.Limit.pointer(),
	}
	e, err := event.New(event.TypeInventoryWallet, "idlewatt/"+c.source, "wallet/"+c.cfg.Account, strconv.FormatInt(now.UnixMilli(), 10), now, p)
	if err != nil {
		return err
	}
	return emit.Event(ctx, e)
}
