package store

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// HTTP is ClickHouse's HTTP port, for statements whose data is streamed to the server. The
// native client drops the SELECT of INSERT ... SELECT FROM input() (seen in v2.51).
type HTTP struct {
	URL      string // http://host:port
	User     string
	Password string
	Settings map[string]any // the pinned settings
	Client   *http.Client
}

// Insert streams body into stmt, which ends with FORMAT and the name of body's format.
func (h HTTP) Insert(ctx context.Context, stmt string, body io.Reader) error {
	q := url.Values{"query": {stmt}}
	for k, v := range h.Settings {
		q.Set(k, fmt.Sprint(v))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(h.URL, "/")+"/?"+q.Encode(), body)
	if err != nil {
		return fmt.Errorf("building request: %w", err)
	}
	req.Header.Set("X-ClickHouse-User", h.User)
	req.Header.Set("X-ClickHouse-Key", h.Password)
	client := h.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("streaming to ClickHouse: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("reading ClickHouse's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-ClickHouse-Exception-Code") != "" {
		return HTTPError{Code: resp.Header.Get("X-ClickHouse-Exception-Code"), Text: strings.TrimSpace(string(text))}
	}
	return nil
}

// HTTPError is what ClickHouse answers to a refused statement.
type HTTPError struct{ Code, Text string }

func (e HTTPError) Error() string { return e.Text }
