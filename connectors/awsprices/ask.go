package awsprices

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// The clients of EC2 and of the price list are only called by their methods. Where EC2's
// becomes an interface, as in the SDK's paginators, the linker keeps all its 700 operations:
// 38 MB more of binary.

var errTurning = errors.New("the pages of the answer turn in a circle")

// found are the prices of one machine; odd says why some that AWS told are not among them.
type found struct {
	found []event.Price
	odd   error
}

// priceList is the region where the price list of a region is asked for.
func priceList(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "cn-northwest-1"
	}
	return "us-east-1"
}

// products asks for the on-demand prices of one machine.
func (p *pass) products(ctx context.Context, w wanted) (found, error) {
	client := pricing.NewFromConfig(p.In(priceList(w.region)))
	in := &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), FormatVersion: aws.String("aws_v1"), MaxResults: aws.Int32(100)}
	has := w.attributes()
	for _, name := range slices.Sorted(maps.Keys(has)) {
		in.Filters = append(in.Filters, types.Filter{Field: aws.String(name), Type: types.FilterTypeTermMatch, Value: aws.String(has[name])})
	}
	var out found
	var odd []error
	for tokens := map[string]bool{}; ; {
		answer, err := client.GetProducts(ctx, in)
		if err != nil {
			return out, p.Failure(ctx, err, "pricing:GetProducts", priceList(w.region))
		}
		for _, text := range answer.PriceList {
			prices, err := parse(text, w)
			if err != nil {
				odd = append(odd, err)
			}
			out.found = append(out.found, prices...)
		}
		token := aws.ToString(answer.NextToken)
		if token == "" {
			break
		}
		if tokens[token] {
			return out, p.Failure(ctx, errTurning, "pricing:GetProducts", priceList(w.region))
		}
		tokens[token], in.NextToken = true, &token
	}
	var err error
	if out.found, err = single(out.found); err != nil {
		odd = append(odd, err)
	}
	if out.odd = errors.Join(odd...); out.odd != nil {
		out.odd = connectors.Permanent(out.odd)
	}
	return out, nil
}

// overlap is how far the next question reaches back behind the newest price told: prices of
// other zones may be published late.
const overlap = 6 * time.Hour

// spot tells the spot prices of a region that have not been told.
func (p *pass) spot(ctx context.Context, region string) error {
	told := p.cur.Spot[region]
	since := p.now().Add(-p.cfg.History)
	if len(told) > 0 {
		since = time.Unix(slices.Max(slices.Collect(maps.Values(told))), 0).Add(-overlap)
	}
	if oldest := p.now().Add(-longest); since.Before(oldest) {
		since = oldest
	}
	prices, err := p.history(ctx, region, since)
	if err != nil {
		return err
	}
	next := maps.Clone(told)
	if next == nil {
		next = map[string]int64{}
	}
	for _, x := range prices {
		series := x.Zone + "/" + x.InstanceType + "/" + x.System
		at := x.ValidFrom.Unix()
		if at <= told[series] {
			continue
		}
		if err := p.tell(ctx, x); err != nil {
			return err
		}
		next[series] = max(next[series], at)
	}
	p.cur.Spot[region] = next
	return nil
}

// history asks for the spot prices that held at since and all that came after.
func (p *pass) history(ctx context.Context, region string, since time.Time) ([]event.Price, error) {
	products := spotProducts()
	systems := map[string]string{}
	in := &ec2.DescribeSpotPriceHistoryInput{StartTime: aws.Time(since.UTC().Truncate(time.Second)), MaxResults: aws.Int32(1000)}
	for _, s := range p.cfg.OperatingSystems {
		systems[products[s]] = s
		in.ProductDescriptions = append(in.ProductDescriptions, products[s])
	}
	for _, t := range p.types {
		in.InstanceTypes = append(in.InstanceTypes, ec2types.InstanceType(t))
	}
	unit := "USD"
	if strings.HasPrefix(region, "cn-") {
		unit = "CNY" // EC2 tells no currency: each partition has one
	}
	client := ec2.NewFromConfig(p.In(region))
	var out []event.Price
	for tokens := map[string]bool{}; ; {
		answer, err := client.DescribeSpotPriceHistory(ctx, in)
		if err != nil {
			return nil, p.Failure(ctx, err, "ec2:DescribeSpotPriceHistory", region)
		}
		for _, s := range answer.SpotPriceHistory {
			x, err := spotPrice(s, region, unit, systems)
			if err != nil {
				return nil, err
			}
			if x != nil {
				out = append(out, *x)
			}
		}
		token := aws.ToString(answer.NextToken)
		if token == "" {
			break
		}
		if tokens[token] {
			return nil, p.Failure(ctx, errTurning, "ec2:DescribeSpotPriceHistory", region)
		}
		tokens[token], in.NextToken = true, &token
	}
	slices.SortStableFunc(out, func(a, b event.Price) int { return a.ValidFrom.Compare(b.ValidFrom) })
	return out, nil
}
