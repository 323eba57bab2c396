package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/gpuseries"
)

// Factory describes this connector. Its clock is the machine's.
func Factory() connectors.Factory {
	return factory(time.Now)
}

func factory(now func() time.Time) connectors.Factory {
	return connectors.Factory{
		Type:      "prometheus",
		Summary:   "GPU telemetry that a Prometheus, Thanos or VictoriaMetrics has, with its history",
		NewConfig: func() connectors.Config { return defaults() },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: configuration is a %T", source, cfg)
			}
			cl, err := newClient(c)
			if err != nil {
				return nil, fmt.Errorf("building source %s: %w", source, err)
			}
			return &connector{source: source, config: c, client: cl, now: now}, nil
		},
		Every: time.Minute,
	}
}

type connector struct {
	source string
	config *Config
	client *client
	now    func() time.Time
}

// cursor is how far the history was read, and what it showed of the scrape configuration.
type cursor struct {
	Until    time.Time `json:"until"`
	Renaming []string  `json:"renaming,omitempty"` // jobs whose series carry exported_ labels
}

// firstHistory is how far back a first pull goes if the configuration does not say.
const firstHistory = time.Hour

// Pull reads what was scraped since the last pull, chunk by chunk, up to where samples are
// sure to be there.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	end := c.now().UTC().Add(-c.config.Lag).Truncate(time.Second)
	at, err := c.begin(cur, end)
	if err != nil {
		return cur, err
	}
	if !at.Until.Before(end) {
		return cur, ctx.Err()
	}
	renaming, err := c.renaming(ctx, end)
	if err != nil {
		return cur, err
	}
	memory := gpuseries.NewMemory(append(at.Renaming, renaming...))
	chunk, long := c.config.Chunk, end.Sub(at.Until) > 2*c.config.Chunk
	for at.Until.Before(end) {
		to := at.Until.Add(chunk)
		if to.After(end) {
			to = end
		}
		found, err := c.chunk(ctx, at.Until, to, memory, emit)
		switch {
		case errors.Is(err, errTooMuch) && chunk/2 >= minChunk:
			chunk /= 2
			continue
		case err != nil:
			return cur, err
		case found == 0 && to.Equal(end):
			return cur, nil // nothing new yet: what comes late is found by the next pull
		}
		at.Until, at.Renaming = to, memory.Renaming()
		if cur, err = json.Marshal(at); err != nil {
			return nil, fmt.Errorf("writing the cursor: %w", err)
		}
		line := ""
		if long {
			line = fmt.Sprintf("history up to %s, %d scrapes", to.Format(time.DateTime), found)
		}
		if err := connectors.Keep(ctx, emit, cur, line); err != nil {
			return cur, err
		}
	}
	return cur, nil
}

func (c *connector) begin(cur connectors.Cursor, end time.Time) (cursor, error) {
	var at cursor
	if len(cur) > 0 {
		if err := json.Unmarshal(cur, &at); err != nil || at.Until.IsZero() {
			return at, connectors.Permanent(fmt.Errorf("reading the cursor of %s: %s: %w", c.source, cur, errors.Join(err, errCursor)))
		}
		return at, nil
	}
	var err error
	if at.Until, err = since(c.config.Since); err != nil {
		return at, connectors.Permanent(err)
	}
	if at.Until.IsZero() {
		at.Until = end.Add(-firstHistory)
	}
	return at, nil
}

var errCursor = errors.New("it holds no time to go on from")

// chunk reads and emits what was scraped in (from, to]; it returns how many scrapes that were.
func (c *connector) chunk(ctx context.Context, from, to time.Time, m *gpuseries.Memory, emit connectors.Emitter) (int, error) {
	samples, err := c.client.samples(ctx, gpuseries.NewReader(c.labels(), c.config.NodeLabels), from, to)
	if err != nil {
		return 0, err
	}
	lanes := map[string][]gpuseries.Sample{}
	for _, s := range samples {
		lane := s.Series.Lane()
		lanes[lane] = append(lanes[lane], s)
	}
	n := 0
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		found := gpuseries.Fold(lanes[lane], gpuseries.Options{Target: c.source + "/" + lanes[lane][0].Series.Host()}, m)
		for i, e := range found {
			if !e.OK { // series without a UUID and the like
				continue
			}
			if err := gpuseries.Send(ctx, c.source, found[i:i+1], emit); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

func (c *connector) labels() []string {
	if len(c.config.Labels) == 0 {
		return nil
	}
	return c.config.Labels
}

// vector is one element of an instant query's result.
type vector struct {
	Metric map[string]string `json:"metric"`
}

// instant asks a question of the present.
func (c *connector) instant(ctx context.Context, query string, at time.Time) ([]vector, error) {
	var answer struct {
		Status   string   `json:"status"`
		Error    string   `json:"error"`
		Warnings []string `json:"warnings"`
		Data     struct {
			Result []vector `json:"result"`
		} `json:"data"`
	}
	q := url.Values{"query": {query}, "time": {formatTime(at)}, "partial_response": {"false"}}
	err := c.client.ask(ctx, "/api/v1/query", q, func(body io.Reader) error {
		return json.NewDecoder(body).Decode(&answer)
	})
	if err == nil && answer.Status != "success" {
		err = fmt.Errorf("asking /api/v1/query: the answer has status %q: %.300s", answer.Status, answer.Error)
	}
	return answer.Data.Result, err
}

func (c *connector) matchers(more string) string {
	m := `{__name__=~"` + gpuseries.Pattern + `"` + more
	if c.config.Selector != "" {
		m += "," + c.config.Selector
	}
	return m + "}"
}

// renaming asks which jobs rename the workload's labels now. A chunk in which nobody holds a
// GPU does not show it, and the exporter's own pod would look like a holder.
func (c *connector) renaming(ctx context.Context, at time.Time) ([]string, error) {
	found, err := c.instant(ctx, "count by (job) ("+c.matchers(`,exported_pod!=""`)+")", at)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, v := range found {
		out = append(out, v.Metric["job"])
	}
	return out, nil
}
