package store

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
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

// Insert streams body into stmt, which ends with FORMAT and the name of body's format, under
// the pinned settings and those given.
func (h HTTP) Insert(ctx context.Context, stmt string, body io.Reader, settings map[string]any) error {
	q := url.Values{"query": {stmt}}
	for _, list := range []map[string]any{h.Settings, settings} {
		for k, v := range list {
			q.Set(k, fmt.Sprint(v))
		}
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
		return httpError(resp.Header.Get("X-ClickHouse-Exception-Code"), strings.TrimSpace(string(text)))
	}
	return nil
}

// httpError makes of an answer the error that the native client would have made.
func httpError(code, text string) error {
	n, err := strconv.ParseInt(code, 10, 32)
	if err != nil {
		return fmt.Errorf("streaming to ClickHouse: %s", text)
	}
	text = strings.TrimPrefix(text, "Code: "+code+". DB::Exception: ")
	return fmt.Errorf("streaming to ClickHouse: %w", &clickhouse.Exception{Code: int32(n), Name: "DB::Exception", Message: text})
}
