package dcgm

import (
	"context"
	"fmt"

	"github.com/idlewatt/idlewatt/connectors"
)

// Doctor scrapes every target once and says what keeps it from carrying a verdict.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	token, err := c.client.token()
	if err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: "bearer_token_file", Said: err.Error(), Fix: "let the user that runs idlewatt read it"}}
	}
	fresh := newDiscovery(c.config, c.now, c.dns)
	targets, _, _ := fresh.targets(ctx, nil) // what fails is told place by place
	out := fresh.findings()
	for _, t := range targets {
		out = append(out, c.examine(ctx, t, token))
	}
	return out
}

// findings tells what each place found.
func (d *discovery) findings() []connectors.Finding {
	var out []connectors.Finding
	for _, p := range d.places {
		f := connectors.Finding{Level: connectors.OK, What: "targets by " + p.name, Said: fmt.Sprintf("%d found", len(d.found[p.name]))}
		_, answered := d.found[p.name]
		switch err := d.failed[p.name]; {
		case !answered:
			f.Level, f.Said = connectors.Fail, err.Error()
			f.Fix = "see that it can be asked from here; until then the targets that were found before are scraped, and new ones are not seen"
		case err != nil:
			f.Level, f.Said, f.Fix = connectors.Warn, f.Said+"; left out: "+err.Error(), "mend those entries: nothing is scraped there"
		case len(d.found[p.name]) == 0:
			f.Level, f.Fix = connectors.Warn, "an empty list is believed: see whether name, selector or inventory are right"
		}
		out = append(out, f)
	}
	return out
}

func (c *connector) examine(ctx context.Context, t target, token string) connectors.Finding {
	f := connectors.Finding{Level: connectors.OK, What: "target " + t.Addr}
	gpus, rejected := 0, map[string]int{}
	for _, e := range c.scrape(ctx, t, token) {
		if !e.OK {
			f.Level, f.Said = connectors.Fail, e.Error
			f.Fix = "see whether dcgm-exporter runs there and the port is open from here; without it the node's hours stay unobserved"
			return f
		}
		gpus += len(e.GPUs)
		for reason, n := range e.Rejected {
			rejected[reason] += n
		}
	}
	f.Said = fmt.Sprintf("%d GPUs", gpus)
	if gpus == 0 {
		f.Level, f.Fix = connectors.Warn, "the exporter answers and shows no GPU: see its own log, or nvidia-smi on the node"
	}
	if len(rejected) > 0 {
		f.Level, f.Said = connectors.Warn, f.Said+fmt.Sprintf(", readings refused: %v", rejected)
		f.Fix = "see connectors/dcgm/README.md for what each reason means"
	}
	return f
}
