package awsprices

import (
	"context"
	"fmt"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Doctor asks for one price of each kind, in each region, of the first type that has any.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	s, err := awsapi.Open(ctx, c.cfg.Config, c.tune)
	if err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: "AWS credentials", Said: err.Error(), Fix: "correct profile, credentials_file or the environment"}}
	}
	defer s.Close()
	id, err := s.Account(ctx)
	if err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: "AWS credentials", Said: err.Error(), Fix: "renew them, or correct profile, credentials_file, role or the environment"}}
	}
	out := []connectors.Finding{{Level: connectors.OK, What: "AWS credentials", Said: "AWS answers to account " + id}}
	p := pass{connector: c, Session: s}
	for _, region := range c.cfg.Regions {
		out = append(out, p.list(ctx, region))
		if c.cfg.Spot {
			out = append(out, p.market(ctx, region))
		}
		if ctx.Err() != nil {
			return out
		}
	}
	return out
}

const policyFix = "allow the action; deploy/aws/policy.json has all that idlewatt needs"

func (p *pass) list(ctx context.Context, region string) connectors.Finding {
	what := "pricing:GetProducts for " + region
	for _, t := range p.types[:min(len(p.types), 20)] {
		prices, err := p.products(ctx, wanted{region, t, p.cfg.OperatingSystems[0]})
		if err != nil {
			return connectors.Finding{Level: connectors.Fail, What: what, Said: err.Error(), Fix: policyFix}
		}
		if prices.odd != nil {
			return connectors.Finding{Level: connectors.Warn, What: what, Said: prices.odd.Error(), Fix: "report it: the price list has another form than is known"}
		}
		if len(prices.found) > 0 {
			return connectors.Finding{Level: connectors.OK, What: what, Said: t + " costs " + say(prices.found[len(prices.found)-1])}
		}
	}
	return connectors.Finding{Level: connectors.Warn, What: what, Said: "the price list has none of the types looked at", Fix: "correct `regions:`, `instance_types:` or `operating_systems:`"}
}

func (p *pass) market(ctx context.Context, region string) connectors.Finding {
	what := "ec2:DescribeSpotPriceHistory in " + region
	prices, err := p.history(ctx, region, p.now())
	if err != nil {
		return connectors.Finding{Level: connectors.Fail, What: what, Said: err.Error(), Fix: policyFix}
	}
	if len(prices) == 0 {
		return connectors.Finding{Level: connectors.Warn, What: what, Said: "none of the types has a spot price there", Fix: "leave the region out, or write `spot: false`"}
	}
	last := prices[len(prices)-1]
	return connectors.Finding{Level: connectors.OK, What: what, Said: fmt.Sprintf("%d prices; %s in %s costs %s", len(prices), last.InstanceType, last.Zone, say(last))}
}

func say(x event.Price) string { return x.Rate.String() + " " + x.Currency + " an hour" }
