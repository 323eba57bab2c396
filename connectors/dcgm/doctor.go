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
	var out []connectors.Finding
	for _, t := range c.config.Targets {
		out = append(out, c.examine(ctx, t, token))
	}
	return out
}

func (c *connector) examine(ctx context.Context, target, token string) connectors.Finding {
	f := connectors.Finding{Level: connectors.OK, What: "target " + target}
	gpus, rejected := 0, map[string]int{}
	for _, e := range c.scrape(ctx, target, token) {
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
