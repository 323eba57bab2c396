package vast

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

// maxPages ends an answer whose tokens never do.
const maxPages = 2000

// each asks for all pages of an answer.
func (c *connector) each(ctx context.Context, call rest.Call, take func(p page, raw []byte) error) error {
	seen := map[string]bool{}
	for range maxPages {
		var p page
		raw, err := c.api.Do(ctx, call, &p)
		if err == nil {
			if cerr := p.check(); cerr != nil {
				err = fmt.Errorf("asking %s: %s: %w", vendor, call.Path, cerr)
			}
		}
		if err != nil {
			return refusal{err}
		}
		if err := take(p, raw); err != nil {
			return err
		}
		token := p.next()
		if token == "" {
			return nil
		}
		if seen[token] {
			return refusal{fmt.Errorf("asking %s: %s gives the same next_token again", vendor, call.Path)}
		}
		seen[token] = true
		call.Query.Set("after_token", token)
	}
	return refusal{fmt.Errorf("asking %s: %s has more than %d pages", vendor, call.Path, maxPages)}
}

// contracts reads the whole list: GET /api/v1/instances/, 25 rows a page (show_instances.yaml).
func (c *connector) contracts(ctx context.Context) ([]contract, error) {
	cols, err := json.Marshal(columns)
	if err != nil {
		return nil, err
	}
	var out []contract
	ids := map[string]bool{}
	found := 0
	err = c.each(ctx, rest.Call{
		Path: "/api/v1/instances/", Lane: "instances", Interval: time.Second,
		Query: url.Values{"limit": {"25"}, "select_cols": {string(cols)}},
	}, func(p page, _ []byte) error {
		if p.Found != nil {
			found = max(found, *p.Found)
		}
		for n, raw := range p.Contracts {
			k, err := decodeContract(raw)
			if err != nil {
				return refusal{fmt.Errorf("asking %s: instances[%d]: %w", vendor, n, err)}
			}
			if !ids[k.ID.String()] {
				out = append(out, k)
			}
			ids[k.ID.String()] = true
		}
		return nil
	})
	if err == nil && len(out) < found {
		err = refusal{fmt.Errorf("asking %s: the list has %d contracts and says that there are %d: it changed while it was read", vendor, len(out), found)}
	}
	return out, err
}

// runs are what a contract costs by the hour now: its GPUs while it is running, its disk as
// long as it exists, but nothing while its host is offline.
func (c *connector) runs(k contract, now time.Time) ([]event.Instance, error) {
	base := event.Instance{
		ResourceID: k.source(), Name: k.Label, Provider: provider, Account: c.account, Region: country(k.Geolocation),
		Hosts: []string{k.source()}, Currency: currency, Tags: c.labels.tags(k.Label),
	}
	if k.ActualStatus == statusOffline {
		return nil, nil
	}
	gpuRate, err := amount("dph_base", k.DPHBase)
	if err != nil {
		return nil, err
	}
	diskRate, err := amount("storage_total_cost", k.StorageTotal)
	if err != nil {
		return nil, err
	}
	gpus, err := amount("num_gpus", k.NumGPUs)
	if err != nil {
		return nil, err
	}
	made, err := c.made(k.StartDate, now)
	if err != nil {
		return nil, err
	}
	disk := base
	disk.Kind, disk.Rate, disk.PricingModel = event.KindStorage, diskRate, onDemand
	if made != nil {
		disk.SeenFrom = *made
	}
	out := []event.Instance{disk}
	if k.ActualStatus == statusRunning {
		machine := base
		machine.Kind, machine.Rate, machine.PricingModel = event.KindMachine, gpuRate, k.pricing()
		machine.InstanceType, machine.GPUModel, machine.GPUCount = k.GPUName, model(k.GPUName, k.GPURAM.String()), gpus
		machine.StartedAfter = made // of the contract; it may have been stopped and started since
		out = append(out, machine)
	}
	return out, nil
}

// made is when a contract was made, but not before yesterday: what is older is in the bill.
func (c *connector) made(start json.Number, now time.Time) (*time.Time, error) {
	if start == "" {
		return nil, nil //nolint:nilnil // not said
	}
	t, err := epoch("start_date", start)
	if err != nil {
		return nil, err
	}
	if floor := now.Truncate(24*time.Hour).AddDate(0, 0, -1); t.Before(floor) {
		t = floor
	}
	if t.After(now) {
		return nil, nil //nolint:nilnil // a clock is wrong: the poll is what is sure
	}
	return &t, nil
}

// volume is one row of GET /api/v0/volumes/ (show_volumes.yaml).
type volume struct {
	ID           json.Number `json:"id"`
	Label        string      `json:"label"`
	StorageTotal json.Number `json:"storage_total_cost"` // USD/h
	StartDate    json.Number `json:"start_date"`
}

// volumes reads the volumes and tells them as runs.
func (c *connector) volumes(ctx context.Context, s *state, now time.Time, emit connectors.Emitter) error {
	var answer struct {
		Volumes []volume `json:"volumes"`
	}
	if _, err := c.api.Do(ctx, rest.Call{Path: "/api/v0/volumes/", Lane: "volumes", Interval: 5500 * time.Millisecond}, &answer); err != nil {
		return refusal{err}
	}
	if answer.Volumes == nil {
		return refusal{fmt.Errorf("asking %s: /api/v0/volumes/ answered no volumes", vendor)}
	}
	var running []event.Instance
	for _, v := range answer.Volumes {
		rate, err := amount("storage_total_cost", v.StorageTotal)
		if err != nil {
			return refusal{fmt.Errorf("asking %s: volume %s: %w", vendor, v.ID, err)}
		}
		made, err := c.made(v.StartDate, now)
		if err != nil {
			return refusal{fmt.Errorf("asking %s: volume %s: %w", vendor, v.ID, err)}
		}
		i := event.Instance{
			ResourceID: "volume-" + v.ID.String(), Name: v.Label, Kind: event.KindVolume, Provider: provider, Account: c.account,
			PricingModel: onDemand, Rate: rate, Currency: currency, Tags: c.labels.tags(v.Label),
		}
		if made != nil {
			i.SeenFrom = *made
		}
		running = append(running, i)
	}
	if err := connectors.TellRuns(ctx, emit, c.source, s.Volumes.Poll(now, running, false)); err != nil {
		return err
	}
	kept, err := s.cursor()
	if err != nil {
		return err
	}
	if err := connectors.Keep(ctx, emit, kept, ""); err != nil {
		return err
	}
	return connectors.TellRuns(ctx, emit, c.source, s.Volumes.Begun())
}

// samples tells the utilisation that Vast.ai shows of running contracts. It is one reading for
// all GPUs of a contract, without power: weak evidence, marked so.
func (c *connector) samples(ctx context.Context, contracts []contract, now time.Time, emit connectors.Emitter) error {
	for _, k := range contracts {
		n, err := strconv.Atoi(k.NumGPUs.String())
		if k.ActualStatus != statusRunning || k.GPUUtil == "" || err != nil || n < 1 || n > 64 {
			continue
		}
		s := event.GPUSamples{
			Target: "vast/" + k.source(), Node: k.source(), At: now, ReceivedAt: now, OK: true, Complete: true, Generation: "vast",
		}
		var ratio *float64
		if percent, err := k.GPUUtil.Float64(); err == nil && percent >= 0 && percent <= 100 {
			ratio = new(percent / 100)
		} else {
			s.Rejected = map[string]int{"out_of_bounds": 1}
		}
		name := k.Label
		if name == "" {
			name = k.source()
		}
		for i := range n {
			s.GPUs = append(s.GPUs, event.GPUSample{
				UUID: fmt.Sprintf("vast:%s:%d", k.ID, i), Model: model(k.GPUName, k.GPURAM.String()), Node: k.source(), Utilization: ratio,
				Owners:   []event.Owner{{Kind: "vast", Pod: name, Labels: c.labels.tags(k.Label), Confidence: "low"}},
				Findings: []string{"one_reading_for_all"},
			})
		}
		e, err := event.New(event.TypeGPUSamples, "idlewatt/"+c.source, s.Target+"@"+now.Format(time.RFC3339Nano), "", now, s)
		if err != nil {
			return err
		}
		if err := emit.Event(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// spend is what runs now by the hour; nil if one of the rates is not known.
func spend(runs ...connectors.Runs) *money.Decimal {
	var sum money.Decimal
	for _, r := range runs {
		for _, o := range r.Open {
			if o.Rate == nil {
				return nil
			}
			sum = sum.Add(*o.Rate)
		}
	}
	return &sum
}
