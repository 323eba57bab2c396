package awsprices

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// spotPrice reads one change of a spot price; nil if it is of a system that was not asked for.
func spotPrice(s types.SpotPrice, region, unit string, systems map[string]string) (*event.Price, error) {
	what := strings.TrimSuffix(string(s.ProductDescription), " (Amazon VPC)") // the same price since networks are all VPCs
	system, ok := systems[what]
	if !ok {
		return nil, nil
	}
	bad := func(format string, args ...any) error {
		return connectors.Permanent(fmt.Errorf("spot price of %s in %s: %w", s.InstanceType, region, fmt.Errorf(format, args...)))
	}
	zone := aws.ToString(s.AvailabilityZone)
	if zone == "" || s.InstanceType == "" || s.Timestamp == nil {
		return nil, bad("zone %q, type %q and time %v must all be there", zone, s.InstanceType, s.Timestamp)
	}
	rate, err := amount(aws.ToString(s.SpotPrice))
	if err != nil {
		return nil, bad("SpotPrice: %w", err)
	}
	if rate.IsZero() {
		return nil, nil
	}
	return &event.Price{
		Provider: "aws", Region: region, Zone: zone, InstanceType: string(s.InstanceType), Kind: event.KindMachine, System: system,
		PricingModel: "spot", Per: event.PerMachine, Rate: rate, Currency: unit, ValidFrom: s.Timestamp.UTC().Truncate(time.Second),
	}, nil
}
