package awsinventory

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// The client of EC2 is only called here, and by its methods. Where it becomes an interface, as
// in the SDK's paginators, the linker keeps all its 700 operations: 38 MB more of binary.

type instance = types.Instance

// pageSize is the most that EC2 gives in one answer.
const pageSize = 1000

// pages hands on every instance of a region with the account of its reservation: those of GPU
// families, unless all are asked for.
func (p *pass) pages(ctx context.Context, cfg aws.Config, take func(owner string, i instance) error) error {
	in := &ec2.DescribeInstancesInput{MaxResults: aws.Int32(pageSize)}
	if !p.cfg.AllInstances {
		in.Filters = []types.Filter{{Name: aws.String("instance-type"), Values: p.known.families}}
	}
	client := ec2.NewFromConfig(cfg)
	for tokens := map[string]bool{}; ; {
		out, err := client.DescribeInstances(ctx, in)
		if err != nil {
			return err
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				if err := take(aws.ToString(r.OwnerId), i); err != nil {
					return err
				}
			}
		}
		token := aws.ToString(out.NextToken)
		if token == "" {
			return nil
		}
		if tokens[token] {
			return errTurning
		}
		tokens[token], in.NextToken = true, &token
	}
}

// regions returns the configured regions, or those that the account has enabled.
func (c *connector) regions(ctx context.Context, l login) ([]string, error) {
	if len(c.cfg.Regions) > 0 {
		return c.cfg.Regions, nil
	}
	out, err := ec2.NewFromConfig(l.In(l.home)).DescribeRegions(ctx, &ec2.DescribeRegionsInput{})
	if err != nil {
		return nil, l.Failure(ctx, err, "ec2:DescribeRegions", l.where(l.home)+" (or list `regions:`)")
	}
	var names []string
	for _, r := range out.Regions {
		if name := aws.ToString(r.RegionName); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// empty is a capacity reservation of which a part stands empty.
type empty struct {
	id, instanceType string
	free, total      int32
}

// reservations returns the capacity reservations of a region that stand empty in part.
func (c *connector) reservations(ctx context.Context, l login, region string) ([]empty, error) {
	client := ec2.NewFromConfig(l.In(region))
	in := &ec2.DescribeCapacityReservationsInput{Filters: []types.Filter{{Name: aws.String("state"), Values: []string{"active"}}}}
	var all []empty
	for tokens := map[string]bool{}; ; {
		out, err := client.DescribeCapacityReservations(ctx, in)
		if err != nil {
			return nil, l.Failure(ctx, err, "ec2:DescribeCapacityReservations", l.where(region))
		}
		for _, r := range out.CapacityReservations {
			if _, gpu := c.known.types[aws.ToString(r.InstanceType)]; aws.ToInt32(r.AvailableInstanceCount) > 0 && (gpu || c.cfg.AllInstances) {
				all = append(all, empty{aws.ToString(r.CapacityReservationId), aws.ToString(r.InstanceType), *r.AvailableInstanceCount, aws.ToInt32(r.TotalInstanceCount)})
			}
		}
		token := aws.ToString(out.NextToken)
		if token == "" {
			return all, nil
		}
		if tokens[token] {
			return nil, errTurning
		}
		tokens[token], in.NextToken = true, &token
	}
}
