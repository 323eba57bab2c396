package vast

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
)

// Doctor tries what the key may read, and compares the clocks.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	if _, err := c.cfg.Key.Read(); err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: "API key", Said: err.Error(), Fix: "make a key at " + vendor + " under Account, API keys, with instance_read, billing_read and user_read"}}
	}
	yesterday := c.now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)
	filter := fmt.Sprintf(`{"day":{"gte":%d,"lte":%d}}`, yesterday.Unix(), yesterday.Unix()+86399)
	var out []connectors.Finding
	for _, x := range []struct {
		scope, level, without string
		call                  rest.Call
	}{
		{
			"instance_read", connectors.Fail, "contracts, their GPUs and today's cost stay unknown",
			rest.Call{Path: "/api/v1/instances/", Lane: "instances", Interval: time.Second, Query: url.Values{"limit": {"1"}, "select_cols": {`["id"]`}}},
		},
		{
			"billing_read", connectors.Fail, "nothing is billed",
			rest.Call{Path: "/api/v0/charges/", Lane: "charges", Interval: time.Second, Query: url.Values{"limit": {"1"}, "format": {"table"}, "select_filters": {filter}}},
		},
		{
			"user_read", connectors.Warn, "the prepaid balance stays unknown",
			rest.Call{Path: "/api/v0/users/current/", Lane: "users", Interval: time.Second},
		},
	} {
		out = append(out, c.try(ctx, x.scope, x.level, x.without, x.call))
	}
	if skew, ok := c.api.Skew(); ok {
		f := connectors.Finding{Level: connectors.OK, What: "clock", Said: fmt.Sprintf("within %v of %s", skew.Abs().Truncate(time.Second), vendor)}
		if skew.Abs() > time.Minute {
			f.Level, f.Said, f.Fix = connectors.Warn, fmt.Sprintf("%v off %s: runs begin and end at wrong times", skew.Truncate(time.Second), vendor), "set this machine's clock, e.g. with NTP"
		}
		out = append(out, f)
	}
	return out
}

func (c *connector) try(ctx context.Context, scope, level, without string, call rest.Call) connectors.Finding {
	f := connectors.Finding{Level: connectors.OK, What: scope, Said: "the key may read " + call.Path}
	var p page
	_, err := c.api.Do(ctx, call, &p)
	if err == nil && p.Success != nil && !*p.Success {
		err = fmt.Errorf("%s answered success false: %s", call.Path, p.Error+p.Msg)
	}
	if err == nil {
		return f
	}
	f.Level, f.Said = level, err.Error()
	f.Fix = "see whether " + c.cfg.BaseURL + " can be reached from here; until then " + without
	var refused *rest.StatusError
	if errors.As(err, &refused) && (refused.Status == http.StatusForbidden || refused.Status == http.StatusUnauthorized) {
		f.Fix = fmt.Sprintf("give the key %s at %s; until then %s", scope, vendor, without)
	}
	return f
}
