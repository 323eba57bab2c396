package runpod

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/lines"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Charge classes of lines.Line.LineItemType.
const (
	itemCompute    = "compute"
	itemRunning    = "storage_running"
	itemStopped    = "storage_stopped"
	itemVolume     = "network_volume"
	itemFee        = "platform_fee"
	itemNetworking = "cluster_networking"
	itemEndpoint   = "public_endpoint"
	itemRounding   = "rounding"
	itemUnknown    = "unexplained"
)

// meter says what an amount is, by route and field.
type meter struct {
	item, category, service, meter string
}

var meters = map[string]meter{
	"pods.gpuAmount":                        {itemCompute, "Compute", "Pods", "GPU"},
	"pods.cpuAmount":                        {itemCompute, "Compute", "Pods", "CPU"},
	"pods.diskAmount":                       {itemRunning, "Storage", "Pods", "Disk"},
	"serverless.gpuAmount":                  {itemCompute, "Compute", "Serverless", "GPU"},
	"serverless.cpuAmount":                  {itemCompute, "Compute", "Serverless", "CPU"},
	"serverless.diskAmount":                 {itemRunning, "Storage", "Serverless", "Disk"},
	"serverless.feeAmount":                  {itemFee, "Compute", "Serverless", "Platform fee"},
	"endpoints.totalAmount":                 {itemEndpoint, "AI and Machine Learning", "Public Endpoints", "Requests"},
	"network-volumes.standardAmount":        {itemVolume, "Storage", "Network Volumes", "Standard"},
	"network-volumes.highPerformanceAmount": {itemVolume, "Storage", "Network Volumes", "High performance"},
	"clusters.gpuAmount":                    {itemCompute, "Compute", "Instant Clusters", "GPU"},
	"clusters.diskAmount":                   {itemRunning, "Storage", "Instant Clusters", "Disk"},
	"clusters.networkingAmount":             {itemNetworking, "Networking", "Instant Clusters", "Networking"},
}

var resourceTypes = map[string]string{
	whatPod: "Pod", whatServerless: "Serverless endpoint", whatVolume: "Network volume", whatCluster: "Instant Cluster",
}

// ledger writes records as charge lines, with what is remembered of their resources.
type ledger struct {
	account string
	things  map[string]*thing
	gpus    map[string]offer
}

// lines are the charges of a route's records: one for each amount that is not zero, and one
// for what a record's total holds beside its parts, so that the total stands. They are in an
// order that does not depend on the answer's.
func (k ledger) lines(s *statement) []lines.Line {
	rows := slices.Clone(s.rows)
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(a.from.Compare(b.from), strings.Compare(a.id, b.id)) })
	var out []lines.Line
	for _, r := range rows {
		t := k.thing(s.route.what, r.id)
		rest := r.total
		for i, v := range r.parts {
			rest = rest.Sub(v)
			if v.IsZero() {
				continue
			}
			l := k.line(s.route, r, t, meters[s.route.name+"."+s.route.parts[i].field], v)
			switch l.SkuMeter {
			case "GPU":
				k.gpu(&l, s.route, r, t, v)
			case "Disk":
				if s.route.what == whatPod && r.parts[0].IsZero() && r.parts[1].IsZero() {
					l.LineItemType = itemStopped // neither GPU nor CPU in this bucket
				}
			}
			out = append(out, l)
		}
		if !rest.IsZero() {
			out = append(out, k.rest(s.route, r, t, rest))
		}
	}
	return out
}

func (k ledger) line(r *route, x row, t *thing, m meter, v money.Decimal) lines.Line {
	l := lines.Line{
		BillingAccountID: k.account, BillingCurrency: currency, ChargePeriodStart: x.from, ChargePeriodEnd: x.to,
		ChargeCategory: "Usage", ChargeFrequency: "Usage-Based", BilledCost: v, EffectiveCost: &v,
		ServiceProviderName: "RunPod", HostProviderName: "RunPod", InvoiceIssuerName: "RunPod",
		ServiceCategory: m.category, ServiceName: m.service, SkuMeter: m.meter, LineItemType: m.item,
		RegionID: t.Region, ResourceID: x.id, ResourceName: t.Name, ResourceType: resourceTypes[r.what], Tags: t.Tags,
		ChargeDescription: m.service + ": " + m.meter,
	}
	if m.item == itemCompute {
		l.PricingModel, l.InstanceType = k.pricing(r, t), t.GPU
		if l.PricingModel == modelOnDemand || l.PricingModel == modelServerless {
			l.PricingCategory = "Standard"
		}
	}
	return l
}

func (k ledger) pricing(r *route, t *thing) string {
	switch r.what {
	case whatServerless:
		return modelServerless
	case whatCluster:
		return modelCluster
	}
	return pricingOf(t.Cloud)
}

// rest is what a record's total holds beside its parts. What is more than the rounding of
// doubles is not called so.
func (k ledger) rest(r *route, x row, t *thing, v money.Decimal) lines.Line {
	first := meters[r.name+"."+r.parts[0].field]
	m := meter{itemRounding, first.category, first.service, "Rounding"}
	var parts sum
	for _, p := range x.parts {
		parts.add(p)
	}
	if !parts.near(x.total) {
		m.item, m.meter = itemUnknown, "Not broken down"
	}
	l := k.line(r, x, t, m, v)
	l.ChargeDescription += " (totalAmount minus its parts)"
	return l
}

// generous is how much more than its bucket a price may give, from rounded amounts.
var generous = decimal.New(1001, -3)

// gpu says which GPUs an amount is for and for how many hours, where that is known: by the
// price, else by what polls saw, else not at all. RunPod bills no time.
func (k ledger) gpu(l *lines.Line, r *route, x row, t *thing, v money.Decimal) {
	if t.GPU == "" || t.CPU || t.Count <= 0 {
		l.ChargeDescription += ", of a type and for hours that are not known: no inventory of this resource"
		return
	}
	n := decimal.NewFromInt(t.Count)
	l.GPUModel, l.GPUCount = model(t.GPU), &n
	bucket, most := hours(x.to.Sub(x.from)), hours(x.to.Sub(x.from))
	if r.what == whatServerless {
		most = bucket.Mul(decimal.NewFromInt(t.Max)) // workers side by side
	}
	if rate := k.rate(r, t, x.from, x.to); rate != nil && v.IsPositive() {
		if h := v.DivRound(*rate, hourDigits); h.LessThanOrEqual(most.Mul(generous)) {
			h = decimal.Min(h, most)
			l.MachineHours = &h
		}
	}
	if h, ok := t.seenHours(x.from, x.to); l.MachineHours == nil && ok && r.what != whatServerless {
		l.MachineHours = &h
		l.ChargeDescription += ", hours as polls saw them"
	}
	if l.MachineHours == nil {
		l.ChargeDescription += ", for hours that are not known: no price fits and no poll saw it"
		return
	}
	l.ConsumedQuantity, l.ConsumedUnit = l.MachineHours, "Hours"
}

// rate is what an hour of the resource costs: as the provider told it, else by the catalogue.
func (k ledger) rate(r *route, t *thing, from, to time.Time) *money.Decimal {
	if rate := t.rateIn(from, to); rate != nil && rate.IsPositive() {
		return rate
	}
	o := k.gpus[t.GPU]
	price := map[string]amount{"SECURE": o.Price.Secure, "COMMUNITY": o.Price.Community}[t.Cloud]
	if r.what != whatPod || !price.IsPositive() {
		return nil
	}
	rate := price.Mul(decimal.NewFromInt(t.Count))
	return &rate
}
