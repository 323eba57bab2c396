package awsinventory

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/idlewatt/idlewatt/schema/catalog"
	"github.com/idlewatt/idlewatt/schema/event"
)

// catalogue is what is known of instance types, and the families that have GPUs.
type catalogue struct {
	types    map[string]catalog.GPU
	families []string // as EC2 filters: p5.*, g6e.*, ...
}

func readCatalog() (catalogue, error) {
	all, err := catalog.Load()
	if err != nil {
		return catalogue{}, err
	}
	c := catalogue{types: map[string]catalog.GPU{}}
	for _, g := range all {
		if g.Provider != "aws" {
			continue
		}
		c.types[g.InstanceType] = g
		family, _, _ := strings.Cut(g.InstanceType, ".")
		c.families = append(c.families, family+".*")
	}
	slices.Sort(c.families)
	c.families = slices.Compact(c.families)
	return c, nil
}

// sight is one instance as one answer shows it.
type sight struct {
	run   event.Instance // SeenFrom is its last start
	state types.InstanceStateName
	ended time.Time // when it stopped running, if AWS says; else zero
}

// read says what an instance of an answer is. owner is the account that its reservation names.
// Without an id or a start it is none.
func (k catalogue) read(i types.Instance, owner, region string) (sight, bool) {
	launch := aws.ToTime(i.LaunchTime).UTC().Truncate(time.Second)
	if aws.ToString(i.InstanceId) == "" || launch.Unix() <= 0 || i.State == nil {
		return sight{}, false
	}
	r := event.Instance{
		ResourceID: *i.InstanceId, Kind: event.KindMachine, Provider: "aws", Account: owner, Region: region,
		InstanceType: string(i.InstanceType), PricingModel: pricing(i), SeenFrom: launch, Step: 1, // by the second; from 60 of them
	}
	if i.Placement != nil {
		r.Zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	if g, ok := k.types[r.InstanceType]; ok {
		n := g.Count
		r.GPUModel, r.GPUCount = g.Model, &n
	}
	for _, t := range i.Tags {
		if r.Tags == nil {
			r.Tags = map[string]string{}
		}
		r.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	r.Name = r.Tags["Name"]
	r.Hosts = hosts(r.ResourceID, aws.ToString(i.PrivateDnsName), r.Name, aws.ToString(i.PrivateIpAddress))
	if listed(i, region, r.Zone) {
		r.System = system(aws.ToString(i.PlatformDetails))
	}
	s := sight{run: r, state: i.State.Name}
	if at := stopped(aws.ToString(i.StateTransitionReason)); s.state != types.InstanceStateNameRunning && !at.Before(launch) {
		s.ended = at
	}
	return s, true
}

// hosts are the names that telemetry and schedulers may know the machine by. Two machines of
// one name are told apart, or matched by neither, where hosts are matched.
func hosts(id, dns, name, ip string) []string {
	short, _, _ := strings.Cut(dns, ".")
	var out []string
	for _, h := range []string{id, dns, short, name, ip} {
		if h != "" && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}

// pricing is how the instance is paid. A reservation or a savings plan covers usage and no
// instance: it cannot be seen here and counts as on-demand until the bill tells.
func pricing(i types.Instance) string {
	switch {
	case aws.ToString(i.OutpostArn) != "":
		return "outpost" // paid with its rack
	case i.Placement != nil && i.Placement.Tenancy == types.TenancyHost:
		return "dedicated_host" // paid with its host
	case i.InstanceLifecycle == "":
		return "on_demand"
	case i.InstanceLifecycle == types.InstanceLifecycleTypeScheduled:
		return "reserved"
	default: // spot, capacity-block, and what comes
		return strings.ReplaceAll(string(i.InstanceLifecycle), "-", "_")
	}
}

// listed reports whether the region's list price for shared machines holds for the instance.
// On-demand machines of Local Zones, of Wavelength and of dedicated tenancy cost more; spot
// prices are of the zone.
func listed(i types.Instance, region, zone string) bool {
	if i.InstanceLifecycle == types.InstanceLifecycleTypeSpot {
		return true
	}
	tenancy := types.TenancyDefault
	if i.Placement != nil && i.Placement.Tenancy != "" {
		tenancy = i.Placement.Tenancy
	}
	return tenancy == types.TenancyDefault && len(zone) == len(region)+1 && strings.HasPrefix(zone, region)
}

// system is the price list's word for EC2's platform details. What is not listed here is
// another product with a price of its own, and keeps its words.
func system(details string) string {
	switch details {
	case "Linux/UNIX":
		return "Linux"
	case "Red Hat Enterprise Linux":
		return "RHEL"
	case "SUSE Linux":
		return "SUSE"
	}
	return details
}

var transition = regexp.MustCompile(`\((\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}) (?:GMT|UTC)\)`)

// stopped reads the time in a reason such as `User initiated (2026-10-01 12:00:00 GMT)`; zero
// if there is none.
func stopped(reason string) time.Time {
	m := transition.FindStringSubmatch(reason)
	if m == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.DateTime, m[1])
	if err != nil {
		return time.Time{}
	}
	return t
}
