package awsinventory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
)

// policyFix is what to do about a right that is missing.
const policyFix = "allow it; deploy/aws/policy.json has all that idlewatt needs"

// Doctor asks each account who is asked for, and each region once.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	s, err := awsapi.Open(ctx, c.cfg.Config, c.tune)
	if err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: "AWS credentials", Said: err.Error(), Fix: "correct profile, credentials_file or the environment"}}
	}
	defer s.Close()
	logins, err := c.logins(ctx, s)
	if err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: "AWS credentials", Said: err.Error(), Fix: "renew them, or write `own_account: false` if they may only take on roles"}}
	}
	var out []connectors.Finding
	for _, l := range logins {
		out = append(out, c.examine(ctx, l)...)
	}
	return out
}

// examine looks at one account.
func (c *connector) examine(ctx context.Context, l login) []connectors.Finding {
	id, err := l.Account(ctx)
	if err != nil {
		return []connectors.Finding{{
			Level: connectors.Fail, What: "identity for account " + l.account, Said: err.Error(),
			Fix: "the role must trust idlewatt's identity, with the external id if it asks for one, and the identity needs sts:AssumeRole on it",
		}}
	}
	out := []connectors.Finding{{Level: connectors.OK, What: "identity for account " + l.account, Said: "AWS answers to account " + id}}
	regions, err := c.regions(ctx, l)
	if err != nil {
		return append(out, connectors.Finding{Level: connectors.Fail, What: "ec2:DescribeRegions in account " + l.account, Said: err.Error(), Fix: policyFix + "; or list `regions:`"})
	}
	return append(append(out, c.running(ctx, l, regions)...), c.standing(ctx, l, regions)...)
}

// running counts machines by region, and groups the regions that do not answer by what they say.
func (c *connector) running(ctx context.Context, l login, regions []string) []connectors.Finding {
	what := "ec2:DescribeInstances in account " + l.account
	p := pass{connector: c}
	var found, off []string
	unknown := map[string]bool{}
	mute := group{}
	for _, region := range regions {
		seen, err := p.instances(ctx, l, region)
		switch {
		case awsapi.Disabled(err):
			off = append(off, region)
		case err != nil:
			mute.add(region, err.Error())
		}
		n := 0
		for _, s := range seen {
			if s.state == types.InstanceStateNameRunning {
				n++
				if s.run.GPUCount == nil && !c.cfg.AllInstances {
					unknown[s.run.InstanceType] = true
				}
			}
		}
		if n > 0 {
			found = append(found, fmt.Sprintf("%s %d", region, n))
		}
	}
	kind := "GPU instances"
	if c.cfg.AllInstances {
		kind = "instances"
	}
	said := fmt.Sprintf("%d regions asked; no %s run", len(regions)-len(off), kind)
	if len(found) > 0 {
		said = fmt.Sprintf("%d regions asked; %s run: %s", len(regions)-len(off), kind, strings.Join(found, ", "))
	}
	level := connectors.Warn // some regions answer
	if mute.size() == len(regions)-len(off) {
		level = connectors.Fail
	}
	out := mute.findings(level, what)
	if level != connectors.Fail {
		out = append(out, connectors.Finding{Level: connectors.OK, What: what, Said: said})
	}
	if len(off) > 0 {
		out = append(out, connectors.Finding{Level: connectors.OK, What: what, Said: "not enabled, left out: " + strings.Join(off, ", ")})
	}
	if len(unknown) > 0 {
		var names []string
		for t := range unknown {
			names = append(names, t)
		}
		slices.Sort(names)
		out = append(out, connectors.Finding{
			Level: connectors.Warn, What: "GPU catalogue", Said: "no GPU count known for " + strings.Join(names, ", "),
			Fix: "report the types: machines of them are told without GPUs until the catalogue has them",
		})
	}
	return out
}

// standing names capacity that is reserved and stands empty. It is no machine and no event:
// its money is on the bill, as UnusedBox usage.
func (c *connector) standing(ctx context.Context, l login, regions []string) []connectors.Finding {
	what := "ec2:DescribeCapacityReservations in account " + l.account
	var said []string
	mute := group{}
	for _, region := range regions {
		all, err := c.reservations(ctx, l, region)
		if err != nil && !awsapi.Disabled(err) {
			mute.add(region, err.Error())
		}
		for _, r := range all {
			said = append(said, fmt.Sprintf("%s: %d of %d %s stand empty (%s)", region, r.free, r.total, r.instanceType, r.id))
		}
	}
	if mute.size() > 0 {
		return mute.findings(connectors.Warn, what) // only the doctor asks for them
	}
	if len(said) > 0 {
		return []connectors.Finding{{
			Level: connectors.Warn, What: what, Said: strings.Join(said, "; "),
			Fix: "cancel or shrink what is not needed; it is paid for, and the bill shows it as UnusedBox usage",
		}}
	}
	return []connectors.Finding{{Level: connectors.OK, What: what, Said: "no reserved capacity stands empty"}}
}

// group gathers regions that say the same.
type group struct {
	texts   []string
	regions [][]string
}

// add counts a region under its text, without the region's own name in it.
func (g *group) add(region, text string) {
	text = strings.ReplaceAll(text, ", "+region, "")
	i := slices.Index(g.texts, text)
	if i < 0 {
		i = len(g.texts)
		g.texts, g.regions = append(g.texts, text), append(g.regions, nil)
	}
	g.regions[i] = append(g.regions[i], region)
}

func (g *group) size() int {
	n := 0
	for _, r := range g.regions {
		n += len(r)
	}
	return n
}

func (g *group) findings(level, what string) []connectors.Finding {
	var out []connectors.Finding
	for i, text := range g.texts {
		out = append(out, connectors.Finding{Level: level, What: what + ": " + strings.Join(g.regions[i], ", "), Said: text, Fix: policyFix})
	}
	return out
}
