package lambda

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
)

// Doctor tries the key, and says what one should know of it.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	if _, err := c.cfg.Key.Read(); err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: "API key", Said: err.Error(), Fix: "make a key at " + vendor + " under API keys"}}
	}
	now := c.now().UTC()
	var out []connectors.Finding
	for _, x := range []struct {
		what, level, without string
		call                 rest.Call
	}{
		{"instances", connectors.Fail, "no machine is seen, and nothing costs", rest.Call{Path: "/instances"}},
		{"file systems", connectors.Warn, "file systems cost nothing", rest.Call{Path: "/file-systems"}},
		{"prices", connectors.Warn, "machines that no poll sees have no price", rest.Call{Path: "/instance-types"}},
		{
			"audit log", connectors.Warn, "runs begin and end only as exactly as polls see them",
			rest.Call{Path: "/audit-events", Query: url.Values{"start": {now.Add(-time.Hour).Format(time.RFC3339)}, "end": {now.Format(time.RFC3339)}}},
		},
	} {
		f := connectors.Finding{Level: connectors.OK, What: x.what, Said: "the key may read " + x.call.Path}
		if _, err := c.api.Do(ctx, x.call, nil); err != nil {
			f.Level, f.Said, f.Fix = x.level, err.Error(), "see whether "+c.cfg.BaseURL+" can be reached from here and the key is right; until then "+x.without
			var refused *rest.StatusError
			if errors.As(err, &refused) && refused.Status == 401 {
				f.Fix = "make a new key at " + vendor + "; until then " + x.without
			}
		}
		out = append(out, f)
	}
	out = append(out, connectors.Finding{
		Level: connectors.Warn, What: "rights of the key", Said: "every key of " + vendor + " may launch and terminate machines: there is none that only reads",
		Fix: "keep it in a file that only idlewatt reads, on the server, and out of jobs",
	})
	if skew, ok := c.api.Skew(); ok {
		f := connectors.Finding{Level: connectors.OK, What: "clock", Said: fmt.Sprintf("within %v of %s", skew.Abs().Truncate(time.Second), vendor)}
		if skew.Abs() > time.Minute {
			f.Level, f.Said, f.Fix = connectors.Warn, fmt.Sprintf("%v off %s: runs begin and end at wrong times", skew.Truncate(time.Second), vendor), "set this machine's clock, e.g. with NTP"
		}
		out = append(out, f)
	}
	return out
}
