package prometheus

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/idlewatt/idlewatt/connectors"
)

// Doctor asks which GPU series the server has now and says what they lack for a verdict.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	at := c.now().UTC().Add(-c.config.Lag)
	names, err := c.instant(ctx, "count by (__name__) ("+c.matchers("")+")", at)
	what := "GPU series at " + c.config.URL
	if err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: what, Said: err.Error(), Fix: "see whether url, token and network are right; ask the same with curl"}}
	}
	targets, err := c.instant(ctx, "count by (instance) ("+c.matchers("")+")", at)
	if err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: what, Said: err.Error(), Fix: "see the server's log"}}
	}
	if len(names) == 0 {
		return []connectors.Finding{{
			Level: connectors.Warn, What: what, Said: fmt.Sprintf("none %v ago", c.config.Lag),
			Fix: "see whether this Prometheus scrapes dcgm-exporter, and whether selector fits its labels",
		}}
	}
	var have []string
	for _, v := range names {
		have = append(have, v.Metric["__name__"])
	}
	slices.Sort(have)
	out := []connectors.Finding{{Level: connectors.OK, What: what, Said: fmt.Sprintf("%d targets, %s", len(targets), strings.Join(have, ", "))}}
	for _, need := range []struct{ what, names, fix string }{
		{"an engine signal", "GPU_UTIL gpu_utilization GR_ENGINE", "add DCGM_FI_PROF_GR_ENGINE_ACTIVE and DCGM_FI_DEV_GPU_UTIL to the exporter's counters: without one every hour is unknown"},
		{"power or energy", "POWER power ENERGY energy", "add DCGM_FI_DEV_POWER_USAGE to the exporter's counters: without it nothing checks an idle verdict"},
	} {
		f := connectors.Finding{Level: connectors.Warn, What: need.what, Said: "no series", Fix: need.fix}
		for _, part := range strings.Fields(need.names) {
			if slices.ContainsFunc(have, func(n string) bool { return strings.Contains(n, part) }) {
				f = connectors.Finding{Level: connectors.OK, What: need.what, Said: "there"}
			}
		}
		out = append(out, f)
	}
	return out
}
