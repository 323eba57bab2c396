package vast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

// marketplace is the pricing model of market prices: what one would pay, not what one pays.
const marketplace = "marketplace"

// wallet tells the prepaid rest: `credit`, as the command line prints it, or else `balance`
// (show_user.yaml). A key without user_read goes without; doctor says so.
func (c *connector) wallet(ctx context.Context, s *state, now time.Time, emit connectors.Emitter) error {
	credit, err := c.balance(ctx)
	var refused *rest.StatusError
	if errors.As(err, &refused) && (refused.Status == http.StatusForbidden || refused.Status == http.StatusUnauthorized) {
		s.Wallet = now
		return nil
	}
	if err != nil {
		return refusal{err}
	}
	w := event.Wallet{
		Source: c.source, Provider: provider, Account: c.account, At: now, Balance: credit, Currency: currency,
		SpendPerHour: spend(s.Contracts, s.Volumes),
	}
	e, err := event.New(event.TypeInventoryWallet, "idlewatt/"+c.source, c.account, now.Format(time.RFC3339Nano), now, w)
	if err != nil {
		return err
	}
	s.Wallet = now
	return emit.Event(ctx, e)
}

func (c *connector) balance(ctx context.Context) (money.Decimal, error) {
	var u struct { // the answer's e-mail address has no place here
		Balance json.Number `json:"balance"`
		Credit  json.Number `json:"credit"`
	}
	if _, err := c.api.Do(ctx, rest.Call{Path: "/api/v0/users/current/", Lane: "users", Interval: time.Second}, &u); err != nil {
		return money.Decimal{}, err
	}
	field, text := "credit", u.Credit
	if text == "" {
		field, text = "balance", u.Balance
	}
	d, err := amount(field, text)
	if err == nil && d == nil {
		err = errors.New("it has neither credit nor balance")
	}
	if err != nil {
		return money.Decimal{}, fmt.Errorf("asking %s: /api/v0/users/current/: %w", vendor, err)
	}
	return *d, nil
}

// prices tells the median market price of the GPUs in `offers`, per GPU-hour. The statistics
// cost no search quota; a GPU that they leave out is searched for.
func (c *connector) prices(ctx context.Context, s *state, now time.Time, emit connectors.Emitter) error {
	medians, err := c.medians(ctx)
	if err != nil {
		return refusal{err}
	}
	for _, gpu := range c.cfg.Offers {
		price, ok := medians[gpu]
		if !ok {
			if price, ok, err = c.search(ctx, gpu); err != nil {
				return refusal{err}
			}
		}
		if !ok {
			continue // nobody offers it now
		}
		p := event.Price{
			Source: c.source, Provider: provider, InstanceType: gpu, PricingModel: marketplace, Per: event.PerGPU, Rate: price,
			Currency: currency, ValidFrom: now,
		}
		e, err := event.New(event.TypeInventoryPrice, "idlewatt/"+c.source, "market/"+gpu, now.Format(time.DateOnly), now, p)
		if err != nil {
			return err
		}
		if err := emit.Event(ctx, e); err != nil {
			return err
		}
	}
	s.Prices = now.Format(time.DateOnly)
	return nil
}

// medians reads GET /api/v0/metrics/gpu/current/ (metrics_gpu.yaml).
func (c *connector) medians(ctx context.Context) (map[string]money.Decimal, error) {
	var answer struct {
		GPUs []struct {
			Name   string      `json:"gpu_name"`
			Median json.Number `json:"price_median"`
		} `json:"gpus"`
	}
	if _, err := c.api.Do(ctx, rest.Call{Path: "/api/v0/metrics/gpu/current/", Lane: "metrics", Interval: 3 * time.Second}, &answer); err != nil {
		return nil, err
	}
	out := map[string]money.Decimal{}
	for _, g := range answer.GPUs {
		d, err := amount("price_median", g.Median)
		if err != nil {
			return nil, fmt.Errorf("asking %s: prices of %s: %w", vendor, short(g.Name), err)
		}
		if d != nil && d.IsPositive() {
			out[g.Name] = *d
		}
	}
	return out, nil
}

// cheapest is of how many offers the median is taken.
const cheapest = 10

// search asks for the cheapest verified offers of a GPU: POST /api/v0/bundles/, ten a minute and
// a daily quota (search_offers.yaml). Prices are of offers: divided by their GPUs.
func (c *connector) search(ctx context.Context, gpu string) (price money.Decimal, ok bool, err error) {
	var answer struct {
		Offers []struct {
			DPHBase json.Number `json:"dph_base"` // USD/h, all GPUs of the offer, without disk
			GPUs    json.Number `json:"num_gpus"`
		} `json:"offers"`
	}
	_, err = c.api.Do(ctx, rest.Call{
		Method: http.MethodPost, Path: "/api/v0/bundles/", Lane: "bundles", Interval: 6 * time.Second,
		Body: map[string]any{
			"gpu_name": map[string]string{"eq": gpu}, "verified": map[string]bool{"eq": true}, "rentable": map[string]bool{"eq": true},
			"type": "on-demand", "limit": cheapest, "order": [][2]string{{"dph_total", "asc"}},
		},
	}, &answer)
	if err != nil {
		return price, false, err
	}
	var each []money.Decimal
	for _, o := range answer.Offers {
		d, err := amount("dph_base", o.DPHBase)
		n, nerr := amount("num_gpus", o.GPUs)
		if err = errors.Join(err, nerr); err != nil {
			return price, false, fmt.Errorf("asking %s: offers of %s: %w", vendor, gpu, err)
		}
		if d != nil && n != nil && n.IsPositive() {
			each = append(each, d.DivRound(*n, money.Scale))
		}
	}
	if len(each) == 0 {
		return price, false, nil
	}
	slices.SortFunc(each, func(a, b money.Decimal) int { return a.Cmp(b) })
	each = each[:min(len(each), cheapest)]
	mid := len(each) / 2
	if len(each)%2 == 1 {
		return each[mid], true, nil
	}
	return each[mid-1].Add(each[mid]).DivRound(decimal.NewFromInt(2), money.Scale), true, nil
}
