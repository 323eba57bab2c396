package together

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/lines"
)

const month = "2006-01"

type connector struct {
	source string
	cfg    Config
	api    *rest.Client
	now    func() time.Time
}

func newConnector(source string, cfg Config) *connector {
	return &connector{
		source: source, cfg: cfg, now: time.Now,
		api: &rest.Client{Provider: "Together AI", Base: cfg.BaseURL, Key: cfg.Key, Interval: time.Second},
	}
}

// cursor remembers the last month that was over and read, and what the answers were.
type cursor struct {
	Through string            `json:"through"`        // YYYY-MM
	Seen    map[string]string `json:"seen,omitempty"` // hash of the last answer, by month
}

// Pull reads this month and the last, and on the first pull all months since the configured
// one. Only finalised days are in an answer.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	var last cursor
	if cur != nil {
		if err := json.Unmarshal(cur, &last); err != nil {
			return cur, connectors.Permanent(fmt.Errorf("reading cursor: %w", err))
		}
	}
	asked := c.now().UTC()
	this := time.Date(asked.Year(), asked.Month(), 1, 0, 0, 0, 0, time.UTC)
	from := this.AddDate(0, -1, 0)
	for _, text := range []string{c.cfg.Since, last.Through} {
		if t, err := time.Parse(month, text); err == nil && t.Before(from) && (last.Through == "" || text == last.Through) {
			from = t
		}
	}
	next := cursor{Through: this.AddDate(0, -1, 0).Format(month), Seen: map[string]string{}}
	for m := from; !m.After(this); m = m.AddDate(0, 1, 0) {
		seen, err := c.month(ctx, m, asked, last.Seen[m.Format(month)], emit)
		if err != nil {
			return cur, err
		}
		next.Seen[m.Format(month)] = seen
	}
	return json.Marshal(next)
}

// month reads one month and delivers its finalised days, unless all is as it was. It returns
// the hash of what it read.
func (c *connector) month(ctx context.Context, m, asked time.Time, seen string, emit connectors.Emitter) (string, error) {
	all, raws, err := c.pages(ctx, m)
	if err != nil {
		return "", err
	}
	over := !asked.Before(m.AddDate(0, 1, 1))
	hash := fmt.Sprintf("%x %v", sha256.Sum256(bytes.Join(raws, nil)), over)
	if hash == seen {
		return hash, nil
	}
	for i, raw := range raws {
		name := fmt.Sprintf("usage-%s-%d.json", m.Format(month), i+1)
		if err := connectors.Evidence(ctx, emit, c.source, "together", name, raw, asked); err != nil {
			return "", err
		}
	}
	days, err := all.days()
	if err != nil {
		return "", err
	}
	if over {
		days = between(m, m.AddDate(0, 1, 0)) // days without a window included
	} else if len(days) > 0 {
		d, err := time.Parse(time.DateOnly, days[len(days)-1])
		if err != nil {
			return "", err
		}
		days = between(m, d.AddDate(0, 0, 1))
	}
	return hash, connectors.DeliverLines(ctx, emit, c.source, "together "+m.Format(month), asked, days, func(w *lines.Writer) error {
		return all.write(w, c.account(), m.Format(month))
	})
}

// pages asks for a month page by page.
func (c *connector) pages(ctx context.Context, m time.Time) (all answer, raws [][]byte, err error) {
	after := ""
	for page := 1; ; page++ {
		var a answer
		raw, err := c.ask(ctx, m, after, 1000, &a)
		if err != nil {
			return all, nil, err
		}
		if err := all.add(a); err != nil {
			return all, nil, fmt.Errorf("usage of %s, page %d: %w", m.Format(month), page, err)
		}
		raws = append(raws, raw)
		if a.Next == nil || *a.Next == "" {
			return all, raws, nil
		}
		if *a.Next == after || page > 1000 {
			return all, nil, fmt.Errorf("asking Together AI: the cursor of page %d of %s does not move on", page, m.Format(month))
		}
		after = *a.Next
	}
}

func (c *connector) account() string {
	if c.cfg.Organization != "" {
		return c.cfg.Organization
	}
	return c.source
}

func (c *connector) ask(ctx context.Context, m time.Time, after string, limit int, a *answer) ([]byte, error) {
	q := url.Values{"month": {m.Format(month)}, "granularity": {"day"}, "limit": {fmt.Sprint(limit)}}
	if c.cfg.Organization != "" {
		q.Set("organization_id", c.cfg.Organization)
	}
	if after != "" {
		q.Set("after", after)
	}
	raw, err := c.api.Do(ctx, rest.Call{Path: "/billing/usage", Query: q}, a)
	var s *rest.StatusError
	if errors.As(err, &s) && s.Status == http.StatusNotFound {
		return raw, connectors.Permanent(fmt.Errorf("%w; the usage API is a beta: ask Together's support to enable it for your organisation", err))
	}
	return raw, err
}

// Doctor asks for one window of this month.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	var a answer
	f := connectors.Finding{Level: connectors.OK, What: "GET /billing/usage"}
	if _, err := c.ask(ctx, c.now().UTC(), "", 1, &a); err != nil {
		f.Level, f.Said, f.Fix = connectors.Fail, err.Error(), "any project's key of the organisation may read it, once Together has enabled the beta"
		return []connectors.Finding{f}
	}
	f.Said = fmt.Sprintf("answers, %d windows on the first page", len(a.Data))
	return []connectors.Finding{f}
}

// between lists the days from one to another, exclusive.
func between(from, to time.Time) []string {
	var out []string
	for d := from; d.Before(to); d = d.AddDate(0, 0, 1) {
		out = append(out, d.Format(time.DateOnly))
	}
	return out
}
