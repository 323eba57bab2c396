package runpod

import (
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Pricing models, in the words of the charges.
const (
	modelOnDemand   = "on_demand"
	modelCommunity  = "community"
	modelServerless = "serverless"
	modelCluster    = "cluster"
)

func pricingOf(cloud string) string {
	switch cloud {
	case "SECURE":
		return modelOnDemand
	case "COMMUNITY":
		return modelCommunity
	}
	return ""
}

// fold takes one poll into the memory and returns what runs now.
func (c *connector) fold(m *memory, s *sight, now time.Time) []event.Instance {
	var out []event.Instance
	members := map[string][]pod{}
	for _, p := range s.Pods {
		if p.Cluster != nil && p.Cluster.ID != "" {
			members[p.Cluster.ID] = append(members[p.Cluster.ID], p) // billed by the cluster
			continue
		}
		out = append(out, c.foldPod(m, p, now)...)
	}
	for _, x := range s.Clusters {
		out = append(out, c.foldCluster(m, x, members[x.ID], now)...)
	}
	for _, e := range s.Endpoints {
		out = append(out, c.foldEndpoint(m, e, s.workers[e.ID], now)...)
	}
	for _, v := range s.Volumes {
		out = append(out, c.foldVolume(m, v, now))
	}
	m.closeAll(now)
	return out
}

// thingOf is what the bill will not say of a pod.
func (c *Config) thingOf(p pod) thing {
	t := thing{Name: p.Name, Cloud: p.Cloud, Tags: c.tagsOf(p.Name, p.Env)}
	if p.DataCenter != nil {
		t.Region = *p.DataCenter
	}
	switch {
	case p.GPU != nil:
		t.GPU, t.Count = p.GPU.ID, p.GPU.Count.IntPart()
		if !p.GPU.Count.set {
			t.Count = 1 // the documented default
		}
	case p.CPU != nil:
		t.GPU, t.CPU = p.CPU.ID, true
	}
	if p.Cost.IsPositive() {
		t.Rate = p.Cost.pointer()
	}
	return t
}

// started is when a pod says that it began, if that is believable.
func started(p pod, now time.Time) time.Time {
	for _, t := range []*time.Time{p.StartedAt, p.CreatedAt} {
		if t != nil && !t.After(now) {
			return t.UTC()
		}
	}
	return time.Time{}
}

func (c *connector) foldPod(m *memory, p pod, now time.Time) []event.Instance {
	t := c.cfg.thingOf(p)
	var running *span
	if p.Status == statusRunning {
		running = m.begin(started(p, now), now, t.Rate)
	}
	m.see(whatPod+"/"+p.ID, t, now, running)
	i := t.instance(p.ID, c.cfg.Account)
	var out []event.Instance
	if running != nil {
		i.Kind, i.PricingModel = event.KindMachine, pricingOf(p.Cloud)
		i.Hosts = []string{p.ID, p.Name}
		i.rated(t.Rate)
		i.SeenFrom = started(p, now)
		out = append(out, i.Instance)
	}
	if d, ok := c.disk(p, t, now); ok {
		out = append(out, d)
	}
	return out
}

// disk is the storage of a pod: container and volume disk while it runs, the volume at another
// price while it is stopped.
func (c *connector) disk(p pod, t thing, now time.Time) (event.Instance, bool) {
	var size money.Decimal
	if p.Mounts.Persistent != nil {
		size = p.Mounts.Persistent.Size.Decimal
	}
	i := t.instance(p.ID, c.cfg.Account)
	i.Kind, i.GPUModel, i.GPUCount, i.InstanceType = event.KindStorage, "", nil, "disk"
	var rate money.Decimal
	switch p.Status {
	case statusRunning:
		rate = p.Disk.Mul(c.gb["container_running"]).Add(size.Mul(c.gb["volume_running"]))
		i.SeenFrom = started(p, now)
	case statusExited:
		i.InstanceType = "disk, stopped"
		rate = size.Mul(c.gb["volume_stopped"])
		if from := started(p, now); !from.IsZero() {
			i.StartedAfter = &from
		}
	}
	rate = rate.RoundBank(hourDigits)
	i.rated(&rate)
	return i.Instance, rate.IsPositive()
}

// foldCluster takes a cluster with its members as one machine, as the bill does.
func (c *connector) foldCluster(m *memory, x cluster, members []pod, now time.Time) []event.Instance {
	t := thing{Name: x.Name, GPU: x.Compute.GPU, Region: x.DataCenter, Tags: c.cfg.tagsOf(x.Name, nil)}
	t.Count = x.Compute.PerPod.IntPart() * x.Compute.Pods.IntPart()
	hosts := []string{x.ID, x.Name}
	rate, runs, whole := money.Decimal{}, 0, true
	var from time.Time
	for _, p := range members {
		hosts = append(hosts, p.ID, p.Name)
		if p.Status != statusRunning {
			continue
		}
		runs++
		rate, whole = rate.Add(p.Cost.Decimal), whole && p.Cost.IsPositive()
		if at := started(p, now); at.After(from) {
			from = at // all of them run since the last began
		}
	}
	whole = whole && decimal.NewFromInt(int64(runs)).Equal(x.Compute.Pods.Decimal)
	if whole && runs > 0 {
		t.Rate = &rate
	}
	var running *span
	if runs > 0 {
		running = m.begin(from, now, t.Rate)
	}
	m.see(whatCluster+"/"+x.ID, t, now, running)
	if running == nil {
		return nil
	}
	i := t.instance(x.ID, c.cfg.Account)
	i.Kind, i.PricingModel, i.Hosts, i.SeenFrom = event.KindMachine, modelCluster, hosts, from
	i.rated(t.Rate)
	return []event.Instance{i.Instance}
}

// foldEndpoint takes all active workers of an endpoint as one run at their common rate.
func (c *connector) foldEndpoint(m *memory, e endpoint, workers []worker, now time.Time) []event.Instance {
	t := c.cfg.endpointOf(e, m.GPUs)
	m.see(whatServerless+"/"+e.ID, t, now, nil)
	var gpus, rate money.Decimal
	var from time.Time
	types := map[string]bool{}
	priced, dated := true, true
	for _, w := range workers {
		if w.GPU == nil || !w.Count.IsPositive() || w.Status == "THROTTLED" {
			continue // not placed, so not billed; or no GPU
		}
		types[*w.GPU] = true
		price := m.GPUs[*w.GPU].Price.Serverless
		gpus, rate, priced = gpus.Add(w.Count.Decimal), rate.Add(price.Mul(w.Count.Decimal)), priced && price.IsPositive()
		dated = dated && w.StartedAt != nil && !w.StartedAt.After(now)
		if dated && w.StartedAt.After(from) {
			from = w.StartedAt.UTC()
		}
	}
	if gpus.IsZero() {
		return nil
	}
	i := t.instance(e.ID, c.cfg.Account)
	i.Kind, i.PricingModel, i.GPUCount, i.GPUModel, i.InstanceType = event.KindServerless, modelServerless, &gpus, "", ""
	if len(types) == 1 {
		for id := range types {
			i.GPUModel, i.InstanceType = model(id), id
		}
	}
	if dated {
		i.SeenFrom = from
	}
	if priced {
		i.rated(&rate)
	}
	return []event.Instance{i.Instance}
}

// endpointOf is what the bill will not say of an endpoint. Its GPU is known if its pools leave
// one type.
func (c *Config) endpointOf(e endpoint, gpus map[string]offer) thing {
	t := thing{Name: e.Name, Tags: c.tagsOf(e.Name, e.Env)}
	if len(e.DataCenters) == 1 {
		t.Region = e.DataCenters[0]
	}
	if e.GPU == nil {
		return t
	}
	var types []string
	for id, o := range gpus {
		if o.Pool != nil && slices.Contains(e.GPU.Pools, *o.Pool) && !slices.Contains(e.GPU.Excluded, id) {
			types = append(types, id)
		}
	}
	if len(types) != 1 {
		return t
	}
	t.GPU, t.Count = types[0], max(1, e.GPU.Count.IntPart())
	// Workers that are always on have discounts, so that money tells no hours of them.
	if e.Workers.Min.set && e.Workers.Min.IsZero() {
		if p := gpus[types[0]].Price.Serverless; p.IsPositive() {
			rate := p.Mul(decimal.NewFromInt(t.Count))
			t.Rate, t.Max = &rate, e.Workers.Max.IntPart()
		}
	}
	return t
}

func (c *connector) foldVolume(m *memory, v volume, now time.Time) event.Instance {
	t := thing{Name: v.Name, Region: v.DataCenter, Tags: c.cfg.tagsOf(v.Name, nil)}
	m.see(whatVolume+"/"+v.ID, t, now, nil)
	i := t.instance(v.ID, c.cfg.Account)
	i.Kind, i.InstanceType = event.KindVolume, strings.ToLower(v.Type)
	i.rated(c.volumeRate(v))
	return i.Instance
}

// begin is the span of a run that this poll sees. What began before the last poll, unseen by
// it, ran for sure only now.
func (m *memory) begin(from, now time.Time, rate *money.Decimal) *span {
	s := &span{From: from, Rate: rate}
	seen := m.Runs.Seen
	if from.IsZero() || from.Before(seen) {
		s.From = now
		if !seen.IsZero() {
			s.After = &seen
		}
	}
	return s
}

// filling is an instance being filled.
type filling struct{ event.Instance }

func (i *filling) rated(rate *money.Decimal) {
	if rate != nil && rate.IsPositive() {
		i.Rate, i.Currency = rate, currency
	}
}

func (t *thing) instance(id, account string) filling {
	i := filling{event.Instance{ResourceID: id, Name: t.Name, Provider: provider, Account: account, Region: t.Region, Tags: t.Tags, InstanceType: t.GPU}}
	if t.GPU != "" && !t.CPU {
		n := decimal.NewFromInt(t.Count)
		i.GPUModel, i.GPUCount = model(t.GPU), &n
	}
	return i
}
