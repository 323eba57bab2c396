package jobs

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

const insertNodes = `INSERT INTO idlewatt_store.nodes (Source, Cluster, Name, Hosts, ResourceId, State, Reason, At, Event, ReceivedAt)`

const insertPolls = `INSERT INTO idlewatt_store.polls (Source, Provider, Account, Region, At, Running, Event, ReceivedAt)`

const insertPrices = `INSERT INTO idlewatt_store.prices (Source, Provider, Region, Zone, InstanceType, Kind, System,
	PricingModel, Per, Rate, Currency, ValidFrom, ValidTo, Event, ReceivedAt)`

const insertWallets = `INSERT INTO idlewatt_store.wallets (Source, Provider, Account, At, Balance, Currency, SpendPerHour,
	SpendLimit, Event, ReceivedAt)`

func instanceRow(d runtime.Delivered, i event.Instance, known time.Time) ([]any, error) {
	if i.SeenFrom.IsZero() {
		i.SeenFrom = d.Time
	}
	if i.Kind == "" {
		i.Kind = event.KindMachine
	}
	i.Provider = strings.ToLower(i.Provider)
	err := checkInstance(i)
	if i.SeenFrom.After(known.Add(ahead)) || i.SeenTo != nil && i.SeenTo.After(known.Add(ahead)) {
		err = errors.Join(err, fmt.Errorf("seen_from %v or seen_to %v is after %v, when it came: is a clock wrong?", i.SeenFrom, i.SeenTo, known))
	}
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", d.Type, err)
	}
	return []any{
		i.ResourceID, i.Kind, i.Source, i.Name, i.Provider, i.Account, i.Region, i.Zone, i.InstanceType, i.System, i.GPUModel,
		i.GPUCount, list(i.Hosts), list(i.GPUs), i.PricingModel, i.Rate, i.Currency, labels(i.Tags), i.SeenFrom, i.SeenTo,
		i.StartedAfter, i.EndedBefore, uint32(i.Step), "inventory", d.ID, known, //nolint:gosec // checked
	}, nil
}

func checkInstance(i event.Instance) error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(i.ResourceID == "", "resource_id is required")
	bad(i.Provider == "", "provider is required")
	bad(!storable(&i.SeenFrom), "seen_from %v is not storable", i.SeenFrom)
	bad(!storable(i.SeenTo), "seen_to %v is not storable", i.SeenTo)
	bad(i.SeenTo != nil && i.SeenTo.Before(i.SeenFrom), "seen_to %v is before seen_from %v", i.SeenTo, i.SeenFrom)
	bad(i.StartedAfter != nil && i.StartedAfter.After(i.SeenFrom), "started_after %v is after seen_from %v", i.StartedAfter, i.SeenFrom)
	bad(i.EndedBefore != nil && (i.SeenTo == nil || i.EndedBefore.Before(*i.SeenTo)), "ended_before %v needs a seen_to that is not after it", i.EndedBefore)
	bad(!storable(i.StartedAfter) || !storable(i.EndedBefore), "started_after or ended_before is not storable")
	bad(i.Step < 0 || i.Step > 86400, "billing_step_seconds %d is not between 0 and 86,400", i.Step)
	bad(!oneOf(i.Kind, event.KindMachine, event.KindStorage, event.KindVolume, event.KindServerless), "kind %q is none of machine, storage, volume, serverless", i.Kind)
	bad(i.Rate != nil && !currency.MatchString(i.Currency), "rate has currency %q: want three capital letters (ISO 4217)", i.Currency)
	for name, v := range map[string]*money.Decimal{"rate": i.Rate, "gpu_count": i.GPUCount} {
		if v == nil {
			continue
		}
		bad(v.IsNegative(), "%s is negative", name)
		if err := money.Check(*v); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func nodeRow(d runtime.Delivered, n event.Node, known time.Time) ([]any, error) {
	if n.Source == "" || n.Name == "" || n.At.IsZero() || !storable(&n.At) {
		return nil, fmt.Errorf("checking %s: want a source, a name and a storable time, got %+v", d.Type, n)
	}
	if !oneOf(n.State, event.NodeAvailable, event.NodeCordoned, event.NodeDrained, event.NodeMaintenance, event.NodeFailed) {
		return nil, fmt.Errorf("checking %s: state %q is none of available, cordoned, drained, maintenance, failed", d.Type, n.State)
	}
	return []any{n.Source, n.Cluster, n.Name, list(n.Hosts), n.ResourceID, n.State, n.Reason, n.At, d.ID, known}, nil
}

// ahead is how far a clock may be ahead of ours: what lies further in the future has not
// happened, and would cost for time that nobody used.
const ahead = 10 * time.Minute

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

func pollRow(d runtime.Delivered, p event.Poll, known time.Time) ([]any, error) {
	if p.Source == "" || p.At.IsZero() || !storable(&p.At) || p.Running < 0 {
		return nil, fmt.Errorf("checking %s: want a source, a storable time and a count, got %+v", d.Type, p)
	}
	if p.At.After(known.Add(ahead)) {
		return nil, fmt.Errorf("checking %s: it is of %v and came at %v: is a clock wrong?", d.Type, p.At, known)
	}
	return []any{p.Source, strings.ToLower(p.Provider), p.Account, p.Region, p.At, uint32(p.Running), d.ID, known}, nil //nolint:gosec // checked
}

func priceRow(d runtime.Delivered, p event.Price, known time.Time) ([]any, error) {
	if p.Kind == "" {
		p.Kind = event.KindMachine
	}
	var errs []error
	for name, v := range map[string]string{
		"provider": p.Provider, "instance_type": p.InstanceType, "pricing_model": p.PricingModel, "currency": p.Currency,
	} {
		if v == "" {
			errs = append(errs, fmt.Errorf("%s is required", name))
		}
	}
	if !oneOf(p.Per, event.PerMachine, event.PerGPU, event.PerVCPU) {
		errs = append(errs, fmt.Errorf("per %q is none of machine, gpu, vcpu", p.Per))
	}
	if p.Rate.IsNegative() {
		errs = append(errs, errors.New("rate is negative"))
	}
	if p.ValidFrom.IsZero() || !storable(&p.ValidFrom) || !storable(p.ValidTo) {
		errs = append(errs, errors.New("valid_from is required, and both bounds must be storable"))
	}
	if !currency.MatchString(p.Currency) {
		errs = append(errs, fmt.Errorf("currency %q: want three capital letters (ISO 4217)", p.Currency))
	}
	p.Provider = strings.ToLower(p.Provider)
	if err := errors.Join(append(errs, money.Check(p.Rate))...); err != nil {
		return nil, fmt.Errorf("checking %s: %w", d.Type, err)
	}
	return []any{
		p.Source, p.Provider, p.Region, p.Zone, p.InstanceType, p.Kind, p.System, p.PricingModel, p.Per, p.Rate, p.Currency,
		p.ValidFrom, p.ValidTo, d.ID, known,
	}, nil
}

func walletRow(d runtime.Delivered, w event.Wallet, known time.Time) ([]any, error) {
	if w.Source == "" || w.At.IsZero() || !storable(&w.At) || w.Currency == "" {
		return nil, fmt.Errorf("checking %s: want a source, a storable time and a currency, got %+v", d.Type, w)
	}
	for _, v := range []*money.Decimal{&w.Balance, w.SpendPerHour, w.SpendLimit} {
		if v == nil {
			continue
		}
		if err := money.Check(*v); err != nil {
			return nil, fmt.Errorf("checking %s: %w", d.Type, err)
		}
	}
	return []any{w.Source, w.Provider, w.Account, w.At, w.Balance, w.Currency, w.SpendPerHour, w.SpendLimit, d.ID, known}, nil
}
