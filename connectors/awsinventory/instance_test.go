package awsinventory

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// An instance for which the region's list price does not hold carries no system, or a pricing
// model that has no list price: no estimate is better than a wrong one.
func TestListPriceOnlyWhereItHolds(t *testing.T) {
	t.Parallel()
	place := func(zone string, tenancy types.Tenancy) *types.Placement {
		return &types.Placement{AvailabilityZone: &zone, Tenancy: tenancy}
	}
	linux := aws.String("Linux/UNIX")
	for name, x := range map[string]struct {
		i               types.Instance
		system, pricing string
	}{
		"plain":          {types.Instance{Placement: place("us-east-1a", "default"), PlatformDetails: linux}, "Linux", "on_demand"},
		"RHEL":           {types.Instance{Placement: place("us-east-1a", ""), PlatformDetails: aws.String("Red Hat Enterprise Linux")}, "RHEL", "on_demand"},
		"BYOL":           {types.Instance{Placement: place("us-east-1a", ""), PlatformDetails: aws.String("Windows BYOL")}, "Windows BYOL", "on_demand"},
		"Local Zone":     {types.Instance{Placement: place("us-east-1-bos-1a", ""), PlatformDetails: linux}, "", "on_demand"},
		"spot there":     {types.Instance{Placement: place("us-east-1-bos-1a", ""), PlatformDetails: linux, InstanceLifecycle: "spot"}, "Linux", "spot"},
		"dedicated":      {types.Instance{Placement: place("us-east-1a", "dedicated"), PlatformDetails: linux}, "", "on_demand"},
		"dedicated host": {types.Instance{Placement: place("us-east-1a", "host"), PlatformDetails: linux}, "", "dedicated_host"},
		"Outpost":        {types.Instance{Placement: place("us-east-1a", ""), PlatformDetails: linux, OutpostArn: aws.String("arn")}, "Linux", "outpost"},
		"scheduled":      {types.Instance{Placement: place("us-east-1a", ""), PlatformDetails: linux, InstanceLifecycle: "scheduled"}, "Linux", "reserved"},
		"capacity block": {types.Instance{Placement: place("us-east-1a", ""), PlatformDetails: linux, InstanceLifecycle: "capacity-block"}, "Linux", "capacity_block"},
		"nowhere":        {types.Instance{PlatformDetails: linux}, "", "on_demand"},
	} {
		x.i.InstanceId, x.i.LaunchTime, x.i.State = aws.String("i-1"), aws.Time(noon), &types.InstanceState{Name: "running"}
		s, ok := catalogOf(t).read(x.i, "1", "us-east-1")
		if !ok || s.run.System != x.system || s.run.PricingModel != x.pricing {
			t.Errorf("%s: %q %q, want %q %q", name, s.run.System, s.run.PricingModel, x.system, x.pricing)
		}
	}
}

func TestFractionsOfGPUsAndUnknownTypes(t *testing.T) {
	t.Parallel()
	k := catalogOf(t)
	for kind, want := range map[types.InstanceType]string{"g6f.large": "0.125", "p5.48xlarge": "8", "p5.999xlarge": "", "m5.large": ""} {
		s, _ := k.read(types.Instance{InstanceId: aws.String("i-1"), LaunchTime: aws.Time(noon), State: &types.InstanceState{Name: "running"}, InstanceType: kind}, "1", "us-east-1")
		got := ""
		if s.run.GPUCount != nil {
			got = s.run.GPUCount.String()
		}
		if got != want || (s.run.GPUModel == "") != (want == "") {
			t.Errorf("%s: %q of %q, want %q", kind, got, s.run.GPUModel, want)
		}
	}
	if n := len(k.families); n == 0 || n > 200 {
		t.Errorf("%d families; EC2 takes 200 values of a filter", n)
	}
	if _, ok := k.read(types.Instance{InstanceId: aws.String("i-1")}, "1", "us-east-1"); ok {
		t.Error("an instance without a start passes")
	}
}
