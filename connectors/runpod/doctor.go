package runpod

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

// maxSkew is the largest difference of the clocks that moves nothing into another hour's bill.
const maxSkew = time.Minute

const readOnly = "make a key with read access to this in RunPod's console under Settings, API keys (Read Only does), and set it again"

// Doctor asks each route once for as little as it gives, and says what came.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	if _, err := c.cfg.Read(); err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: "API key", Said: err.Error(), Fix: "set it where the configuration says"}}
	}
	var out []connectors.Finding
	accepted := true
	for _, path := range []string{"/pods", "/serverless", "/network-volumes", "/clusters", "/catalog/gpus"} {
		_, err := c.api.rest.Do(ctx, rest.Call{Path: path, Query: url.Values{"limit": {"1"}}}, nil)
		if refusedKey(err) {
			accepted = false
		}
		out = append(out, c.route(path, err))
		if !accepted {
			break // the others say the same
		}
	}
	if accepted {
		out = append(out, c.bills(ctx)...)
	}
	out = append(out, c.clock())
	if accepted && c.cfg.Balance {
		out = append(out, c.purse(ctx))
	}
	return out
}

func (c *connector) route(path string, err error) connectors.Finding {
	f := connectors.Finding{Level: connectors.OK, What: "GET " + path, Said: "read access"}
	if err == nil {
		return f
	}
	f.Level, f.Said, f.Fix = connectors.Fail, err.Error(), readOnly
	var status *rest.StatusError
	_, throttled := connectors.RetryAfter(err)
	switch {
	case refusedKey(err):
		f.Fix = "the key in " + c.cfg.Where() + " is not accepted: make a new one in RunPod's console under Settings, API keys"
	case throttled:
		f.Level, f.Fix = connectors.Warn, "wait; limits are per account: see what else uses the API"
	case errors.As(err, &status) && (status.Status == http.StatusGone || status.Status == http.StatusNotFound):
		f.Fix = "check base_url: it should be " + defaults().BaseURL + "; v1 is switched off"
	case !connectors.IsPermanent(err):
		f.Fix = "check the network and base_url"
	}
	return f
}

func refusedKey(err error) bool {
	var status *rest.StatusError
	return errors.As(err, &status) && status.Status == http.StatusUnauthorized
}

// bills asks every billing route for the last day, and the whole for a month.
func (c *connector) bills(ctx context.Context) []connectors.Finding {
	var out []connectors.Finding
	for _, r := range routes {
		_, err := c.api.rest.Do(ctx, rest.Call{Path: r.path, Query: url.Values{"lastN": {"1"}, "bucketSize": {"day"}}}, nil)
		out = append(out, c.route(r.path, err))
	}
	var p billingPage
	_, err := c.api.rest.Do(ctx, rest.Call{Path: overall.path, Query: url.Values{"lastN": {"30"}, "bucketSize": {"day"}}}, &p)
	f := c.route(overall.path, err)
	if err == nil {
		s := &statement{route: overall}
		switch err := s.add(p, "the answer"); {
		case err != nil:
			f.Level, f.Said, f.Fix = connectors.Fail, err.Error(), "report it: the answer is not of the documented form"
		case s.told(0).IsZero():
			f.Level, f.Said, f.Fix = connectors.Warn, "nothing was billed in 30 days", "check that the key belongs to the account (or team) that pays"
		default:
			f.Said = fmt.Sprintf("%s USD in the last 30 days", s.told(0).StringFixedBank(2))
		}
	}
	return append(out, f)
}

func (c *connector) clock() connectors.Finding {
	f := connectors.Finding{Level: connectors.OK, What: "clock", Said: "within a minute of RunPod's"}
	skew, ok := c.api.rest.Skew()
	switch {
	case !ok:
		f.Level, f.Said, f.Fix = connectors.Warn, "RunPod's answers carried no Date to compare with", "check base_url: something else may answer"
	case skew.Abs() > maxSkew:
		f.Level, f.Said = connectors.Warn, fmt.Sprintf("this machine's clock is %s off RunPod's (ahead is positive)", skew.Round(time.Second))
		f.Fix = "run a time service: what runs would be seen in another hour than it is billed for"
	}
	return f
}

func (c *connector) purse(ctx context.Context) connectors.Finding {
	f := connectors.Finding{Level: connectors.OK, What: "GraphQL myself (balance)", Said: "answers"}
	if _, err := c.api.balance(ctx); err != nil {
		f.Level, f.Said, f.Fix = connectors.Warn, err.Error(), "set balance: false if RunPod has switched GraphQL off, or give the key access to it"
	}
	return f
}
