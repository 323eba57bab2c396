package event

import (
	"time"

	"github.com/idlewatt/idlewatt/schema/money"
)

// Kinds of resources in an inventory. The empty kind is a machine.
const (
	KindMachine    = "machine"
	KindStorage    = "storage"    // disk of one machine, running or stopped
	KindVolume     = "volume"     // file system or network volume of its own
	KindServerless = "serverless" // workers that come and go
)

// Instance is the payload of inventory.instance: one run of a resource, at one rate. What
// changes the rate (a stop, a resize, a new price) ends the run and begins another. The same
// run told again, by (resource, kind, seen_from), replaces what was told of it.
type Instance struct {
	Source       string            `json:"source,omitempty"` // the configured source that saw it; see Poll
	ResourceID   string            `json:"resource_id"`      // as the bill writes it
	Name         string            `json:"name,omitempty"`
	Kind         string            `json:"kind,omitempty"`
	Provider     string            `json:"provider"` // aws, gcp, azure, runpod, vast, lambda, ...
	Account      string            `json:"account,omitempty"`
	Region       string            `json:"region,omitempty"`
	Zone         string            `json:"zone,omitempty"`
	InstanceType string            `json:"instance_type,omitempty"`
	System       string            `json:"operating_system,omitempty"` // as the price list says: Linux, Windows, ...
	GPUModel     string            `json:"gpu_model,omitempty"`
	GPUCount     *money.Decimal    `json:"gpu_count,omitempty"`
	Hosts        []string          `json:"hosts,omitempty"` // every name this machine goes by
	GPUs         []string          `json:"gpus,omitempty"`  // GPU UUIDs, if known
	PricingModel string            `json:"pricing_model,omitempty"`
	Rate         *money.Decimal    `json:"rate,omitempty"` // per hour of the whole resource, if the provider tells it
	Currency     string            `json:"currency,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"`
	// SeenFrom and SeenTo bound what is sure: the run was seen, or the provider says so. No
	// SeenTo is a run that was not seen to end: it lasts until its source's last Poll.
	SeenFrom time.Time  `json:"seen_from"`
	SeenTo   *time.Time `json:"seen_to,omitempty"`
	// StartedAfter and EndedBefore are the widest bounds where polls left them open.
	StartedAfter *time.Time `json:"started_after,omitempty"`
	EndedBefore  *time.Time `json:"ended_before,omitempty"`
	// Step is the billing step of a run in seconds, counted up; 0 is exact time.
	Step int `json:"billing_step_seconds,omitempty"`
}

// Poll is the payload of inventory.poll: at this moment everything that ran in this account
// and region had been told. Without it a run that was never seen to end would cost for ever.
type Poll struct {
	Source   string    `json:"source"`
	Provider string    `json:"provider"`
	Account  string    `json:"account,omitempty"` // empty: all accounts of the source
	Region   string    `json:"region,omitempty"`  // empty: all regions of the source
	At       time.Time `json:"at"`
	Running  int       `json:"running"`
}

// Scopes of a price.
const (
	PerMachine = "machine"
	PerGPU     = "gpu"
	PerVCPU    = "vcpu"
)

// Price is the payload of inventory.price: what one hour costs from a moment on. The newest
// price whose ValidFrom is not after an hour rates that hour.
type Price struct {
	Source       string        `json:"source"`
	Provider     string        `json:"provider"`
	Region       string        `json:"region,omitempty"` // empty: everywhere
	Zone         string        `json:"zone,omitempty"`   // empty: everywhere in the region
	InstanceType string        `json:"instance_type"`    // or the provider's GPU type
	Kind         string        `json:"kind,omitempty"`   // kind of resource; empty is a machine
	System       string        `json:"operating_system,omitempty"`
	PricingModel string        `json:"pricing_model"` // on_demand, spot, community, secure, ...
	Per          string        `json:"per"`           // machine, gpu or vcpu
	Rate         money.Decimal `json:"rate"`          // per hour
	Currency     string        `json:"currency"`
	ValidFrom    time.Time     `json:"valid_from"`
	ValidTo      *time.Time    `json:"valid_to,omitempty"`
}

// Wallet is the payload of inventory.wallet: a prepaid balance at a moment. It is never a
// cost, and neither is what fills it.
type Wallet struct {
	Source       string         `json:"source"`
	Provider     string         `json:"provider"`
	Account      string         `json:"account,omitempty"`
	At           time.Time      `json:"at"`
	Balance      money.Decimal  `json:"balance"`
	Currency     string         `json:"currency"`
	SpendPerHour *money.Decimal `json:"spend_per_hour,omitempty"` // as the provider tells it
	SpendLimit   *money.Decimal `json:"spend_limit,omitempty"`    // per hour
}

// States of a node, as a scheduler says them. All but NodeAvailable take its GPUs out of use:
// what they cost then is nobody's waste.
const (
	NodeAvailable   = "available"
	NodeCordoned    = "cordoned"    // takes no new work; what runs goes on
	NodeDrained     = "drained"     // takes no work
	NodeMaintenance = "maintenance" // reserved for maintenance
	NodeFailed      = "failed"      // down, not responding, or a condition that forbids work
)

// Node is the payload of inventory.node: what a scheduler knows of a host from a moment on.
// It is told when it changes.
type Node struct {
	Source     string    `json:"source"`
	Cluster    string    `json:"cluster,omitempty"`
	Name       string    `json:"name"`                  // as the scheduler calls it
	Hosts      []string  `json:"hosts,omitempty"`       // other names of the same host
	ResourceID string    `json:"resource_id,omitempty"` // as the bill writes it, if the scheduler knows (spec.providerID)
	State      string    `json:"state"`
	Reason     string    `json:"reason,omitempty"` // in the scheduler's words
	At         time.Time `json:"at"`
}
