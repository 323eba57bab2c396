package vast

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/lines"
	"github.com/idlewatt/idlewatt/schema/money"
)

const (
	provider = "vast"    // of inventory events
	vendor   = "Vast.ai" // of charge lines
	currency = "USD"     // the only one Vast.ai knows
)

// Pricing models. The marketplace is the venue of them all and no model of its own.
const (
	onDemand   = "on_demand"
	spot       = "spot" // interruptible: a bid
	reserved   = "reserved"
	serverless = "serverless"
)

// booker makes charge lines of rows.
type booker struct {
	account  string
	labels   labeller
	contract func(source string) (known, bool)
}

var chargedSource = regexp.MustCompile(`^(instance|volume|endpoint|workergroup)-\d+$`)

// charge reports whether a row is money spent on a resource; payments are not.
func (r row) charge() bool {
	return r.Source != nil && chargedSource.MatchString(*r.Source) || r.InstanceID != "" && !payments[r.Type]
}

// modern brings a row of the older list into the form of today: one row with one item.
func (r row) modern() row {
	if r.InstanceID == "" || r.Timestamp == "" {
		return r
	}
	source := "instance-" + r.InstanceID.String()
	item := row{Type: oldKind(r.Description), Description: r.Description, Amount: r.Amount, Quantity: r.Quantity}
	return row{
		Type: "instance", Source: &source, Start: r.Timestamp, End: r.Timestamp, Description: r.Description, Amount: r.Amount,
		Metadata: r.Metadata, Items: []row{item},
	}
}

func oldKind(description string) string {
	d := strings.ToLower(description)
	switch {
	case strings.Contains(d, "storage"), strings.Contains(d, "disk"):
		switch {
		case strings.Contains(d, "stop"):
			return itemStopped
		case strings.Contains(d, "running"):
			return itemRunning
		}
		return itemStorage
	case strings.Contains(d, "download"):
		return itemDown
	case strings.Contains(d, "upload"):
		return itemUp
	case strings.Contains(d, "bandwidth"):
		return itemNetwork
	case strings.Contains(d, "gpu"):
		return itemGPU
	}
	return d
}

// span is the time of a row: whole UTC days, End being the last one.
func (r row) span() (from, to time.Time, err error) {
	if from, err = day("start", r.Start); err != nil {
		return from, to, err
	}
	if to, err = day("end", r.End); err != nil {
		return from, to, err
	}
	if to.Before(from) {
		return from, to, fmt.Errorf("end %s is before start %s", r.End, r.Start)
	}
	return from, to.AddDate(0, 0, 1), nil
}

// book returns the lines of a row; they add up to its amount exactly. What its parts miss of
// it is a line of its own: rows and items are rounded apart.
func (b booker) book(r row) ([]lines.Line, error) {
	r = r.modern()
	whole, err := amount("amount", r.Amount)
	if err == nil && whole == nil {
		err = fmt.Errorf("field amount is missing")
	}
	if err != nil {
		return nil, err
	}
	base, err := b.base(r)
	if err != nil {
		return nil, err
	}
	var out []lines.Line
	rest := *whole
	for i, item := range r.Items {
		var part []lines.Line
		if item.Source != nil { // a wrapper of rows, in the form tree
			part, err = b.book(item.inherit(r))
		} else {
			part, err = b.item(base, r, item)
		}
		if err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		for _, l := range part {
			rest = rest.Sub(l.BilledCost)
		}
		out = append(out, part...)
	}
	if !rest.IsZero() {
		out = append(out, remainder(base, r, rest))
	}
	return out, nil
}

// inherit gives a row inside a wrapper what only the wrapper says.
func (r row) inherit(w row) row {
	if r.Start == "" {
		r.Start, r.End = w.Start, w.End
	}
	if r.Metadata.Label == "" {
		r.Metadata.Label = w.Metadata.Label
	}
	if w.Type == serverless && r.Metadata.EndpointID == "" && r.Metadata.WorkerGroup == "" {
		kind, id, _ := strings.Cut(*w.Source, "-")
		if kind == "workergroup" {
			r.Metadata.WorkerGroup = json.Number(id)
		} else {
			r.Metadata.EndpointID = json.Number(id)
		}
	}
	return r
}

// remainder is what a row's items miss of its amount: rounding where it can be that (each is
// rounded to a thousandth), else a charge that Vast.ai does not itemise.
func remainder(base lines.Line, r row, rest money.Decimal) lines.Line {
	l := base
	l.BilledCost, l.EffectiveCost, l.LineItemType = rest, &rest, "rounding"
	l.ChargeDescription = "difference between the charge and its items"
	if n := int64(len(r.Items)); n == 0 || rest.Abs().GreaterThan(decimal.New(5*(n+1), -4)) {
		l.LineItemType, l.ChargeDescription = "other", r.Description
	}
	return l
}

// base is what all lines of a row share.
func (b booker) base(r row) (lines.Line, error) {
	from, to, err := r.span()
	if err != nil {
		return lines.Line{}, err
	}
	if r.Source == nil {
		return lines.Line{}, fmt.Errorf("field source is missing")
	}
	k, _ := b.contract(*r.Source)
	label := r.Metadata.Label
	if label == "" {
		label = k.Label
	}
	tags := b.labels.tags(label)
	l := lines.Line{
		BillingAccountID: b.account, BillingCurrency: currency, ChargePeriodStart: from, ChargePeriodEnd: to,
		ChargeCategory: "Usage", ChargeFrequency: "Usage-Based", ServiceProviderName: vendor, HostProviderName: vendor, InvoiceIssuerName: vendor,
		ServiceCategory: "Compute", ServiceName: "Instances", ResourceID: *r.Source, ResourceName: label, ResourceType: "instance",
		RegionID: country(k.Place), RegionName: k.Place,
	}
	switch m := r.Metadata; {
	case m.EndpointID != "" || m.WorkerGroup != "" || r.Type == serverless:
		if tags == nil {
			tags = map[string]string{}
		}
		maps.Copy(tags, map[string]string{"endpoint_id": m.EndpointID.String(), "workergroup_id": m.WorkerGroup.String()})
		maps.DeleteFunc(tags, func(_, v string) bool { return v == "" })
		l.ServiceName, l.ResourceType, l.PricingModel, l.PricingCategory = "Serverless", "serverless worker", serverless, "Other"
	case r.Type == "volume":
		l.ServiceName, l.ResourceType, l.ServiceCategory = "Volumes", "volume", "Storage"
	}
	l.Tags = tags
	return l, nil
}
