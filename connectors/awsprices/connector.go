package awsprices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
	"github.com/idlewatt/idlewatt/schema/event"
)

// cursor is what is remembered between two pulls, by region.
type cursor struct {
	// List is what was told of the price list.
	List map[string]list `json:"list,omitempty"`
	// Spot is the time of the newest spot price told, in Unix seconds, by region and then by
	// "zone/type/system".
	Spot map[string]map[string]int64 `json:"spot,omitempty"`
}

type list struct {
	Day  string `json:"day"`  // on which it was read whole
	Hash string `json:"hash"` // of all prices then: the same prices are not told again
}

// pass is one pull at work.
type pass struct {
	*connector
	*awsapi.Session
	emit   connectors.Emitter
	cur    cursor
	failed []error
	done   int
}

// Pull tells the price list's prices where they changed, once a day, and every spot price that
// is new. A region that fails holds up no other.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	p := pass{connector: c, emit: emit}
	if err := awsapi.Unpack(cur, &p.cur); err != nil {
		return cur, err
	}
	if p.cur.List == nil {
		p.cur.List = map[string]list{}
	}
	if p.cur.Spot == nil {
		p.cur.Spot = map[string]map[string]int64{}
	}
	s, err := awsapi.Open(ctx, c.cfg.Config, c.tune)
	if err != nil {
		return cur, err
	}
	defer s.Close()
	p.Session = s
	for _, region := range c.cfg.Regions {
		if err := p.region(ctx, region); err != nil {
			return cur, err
		}
	}
	if len(p.failed) > 0 && p.done == 0 {
		return cur, awsapi.Together(p.failed, true)
	}
	next, err := awsapi.Pack(p.cur)
	if err != nil {
		return cur, err
	}
	if len(p.failed) == 0 {
		return next, nil
	}
	if err := connectors.Keep(ctx, emit, next, ""); err != nil {
		return cur, err
	}
	return next, awsapi.Together(p.failed, false)
}

// refusedError is an event that the bus did not take: it ends the pull.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// region tells one region's prices. Only what ends the whole pull is returned.
func (p *pass) region(ctx context.Context, region string) error {
	today := p.now().UTC().Format(time.DateOnly)
	var steps []func() error
	if p.cur.List[region].Day != today {
		steps = append(steps, func() error { return p.listed(ctx, region, today) })
	}
	if p.cfg.Spot {
		steps = append(steps, func() error { return p.spot(ctx, region) })
	}
	for _, step := range steps {
		err := step()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var r refusedError
		if errors.As(err, &r) {
			return r.error
		}
		if err != nil {
			p.failed = append(p.failed, err)
			continue
		}
		p.done++
	}
	return nil
}

// tell publishes one price. Its id follows from what it prices, from when on, and how much.
func (p *pass) tell(ctx context.Context, x event.Price) error {
	x.Source = p.source
	key := x.Region + "/" + x.Zone + "/" + x.InstanceType + "/" + x.System + "/" + x.PricingModel + "@" + x.ValidFrom.Format(time.RFC3339)
	e, err := event.New(event.TypeInventoryPrice, "idlewatt/"+p.source, key, x.Rate.String()+" "+x.Currency, x.ValidFrom, x)
	if err != nil {
		return refusedError{err}
	}
	if err := p.emit.Event(ctx, e); err != nil {
		return refusedError{err}
	}
	return nil
}

// listed asks for the on-demand price of each type and system of a region, and tells all of
// them if one has changed since they were told.
func (p *pass) listed(ctx context.Context, region, today string) error {
	var all []event.Price
	var odd []error
	for _, t := range p.types {
		for _, system := range p.cfg.OperatingSystems {
			prices, err := p.products(ctx, wanted{region, t, system})
			if err != nil {
				return err
			}
			if prices.odd != nil {
				odd = append(odd, fmt.Errorf("price of %s %s in %s: %w", t, system, region, prices.odd))
			}
			all = append(all, prices.found...)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	hash := event.ID(string(text), "", "")
	if hash != p.cur.List[region].Hash {
		for _, x := range all {
			if err := p.tell(ctx, x); err != nil {
				return err
			}
		}
	}
	p.cur.List[region] = list{Day: today, Hash: hash}
	p.failed = append(p.failed, odd...) // told once a day; the other prices stand
	return nil
}
