package vast

import (
	"fmt"
	"regexp"

	"github.com/idlewatt/idlewatt/schema/lines"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Types of items. Those with words are ours, for rows of the older list.
const (
	itemGPU     = "gpu"
	itemDisk    = "disk"
	itemDown    = "bwd" // download: into the machine
	itemUp      = "bwu" // upload: out of it
	itemRunning = "disk running"
	itemStopped = "disk stopped"
	itemStorage = "disk, state unknown"
	itemNetwork = "bandwidth, direction unknown"
)

// What an item was for: "96.000 hours at $0.389/hour" in the documentation, and "79.1 GB
// Downloaded at $0.003/GB" in a third party's recording. Other wordings give no quantity.
var (
	hoursAt = regexp.MustCompile(`^(\d+(?:\.\d+)?) hours? at \$`)
	bytesAt = regexp.MustCompile(`^(\d+(?:\.\d+)?) GB (?:Down|Up)loaded at \$`)
)

// quantity is how much an item is of, in hours or GB; nil where it does not say.
func (r row) quantity() (*money.Decimal, string, error) {
	if m := hoursAt.FindStringSubmatch(r.Description); m != nil {
		d, _, err := money.Parse(m[1])
		return &d, "Hours", err
	}
	if m := bytesAt.FindStringSubmatch(r.Description); m != nil {
		d, _, err := money.Parse(m[1])
		return &d, "GB", err
	}
	if r.Type != itemGPU && r.Type != itemDisk {
		return nil, "", nil
	}
	d, err := amount("quantity", r.Quantity)
	if d == nil {
		return nil, "", err
	}
	return d, "Hours", err
}

// item returns the line of one item of a row, none if it is of nothing.
func (b booker) item(base lines.Line, r, item row) ([]lines.Line, error) {
	cost, err := amount("amount", item.Amount)
	if err == nil && cost == nil {
		err = fmt.Errorf("field amount is missing")
	}
	if err != nil {
		return nil, err
	}
	q, unit, err := item.quantity()
	if err != nil {
		return nil, err
	}
	if cost.IsZero() && (q == nil || q.IsZero()) {
		return nil, nil
	}
	l := base
	l.BilledCost, l.EffectiveCost, l.ConsumedQuantity, l.ConsumedUnit = *cost, cost, q, unit
	l.ChargeDescription, l.SkuMeter = item.Description, item.Type
	switch item.Type {
	case itemGPU:
		l.LineItemType = "compute"
		b.gpu(&l, *r.Source)
		if unit == "Hours" {
			l.MachineHours = q
		}
	case itemDisk:
		l.ServiceCategory, l.LineItemType = "Storage", diskClass(r)
	case itemRunning:
		l.ServiceCategory, l.LineItemType = "Storage", "storage_running"
	case itemStopped:
		l.ServiceCategory, l.LineItemType = "Storage", "storage_stopped"
	case itemStorage:
		l.ServiceCategory, l.LineItemType = "Storage", "storage"
	case itemDown:
		l.ServiceCategory, l.LineItemType = "Networking", "network_ingress"
	case itemUp:
		l.ServiceCategory, l.LineItemType = "Networking", "network_egress"
	case itemNetwork:
		l.ServiceCategory, l.LineItemType = "Networking", "network"
	default:
		l.LineItemType = "other"
	}
	return []lines.Line{l}, nil
}

// diskClass tells the disk of a contract that ran from one that was stopped all the time, and
// from a volume.
func diskClass(r row) string {
	if r.Type == "volume" {
		return "network_volume"
	}
	for _, i := range r.Items {
		if i.Type != itemGPU {
			continue
		}
		cost, err := amount("amount", i.Amount)
		q, _, qerr := i.quantity()
		if err != nil || qerr != nil || cost != nil && !cost.IsZero() || q != nil && !q.IsZero() {
			return "storage_running"
		}
	}
	return "storage_stopped"
}

// gpu adds what the list of contracts said of a contract, if it was ever seen there.
func (b booker) gpu(l *lines.Line, source string) {
	k, ok := b.contract(source)
	if !ok {
		return
	}
	l.InstanceType, l.GPUModel = k.GPU, model(k.GPU, k.RAM)
	if n, _, err := money.Parse(k.GPUs); err == nil {
		l.GPUCount = &n
	}
	if l.PricingModel == "" {
		l.PricingModel = k.Pricing
		l.PricingCategory = map[string]string{onDemand: "Standard", spot: "Dynamic", reserved: "Committed"}[k.Pricing]
	}
}
