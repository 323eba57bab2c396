package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/gpuseries"
)

// client asks one server.
type client struct {
	config *Config
	http   *http.Client
}

func newClient(c *Config) (*client, error) {
	transport, err := c.TLS.Transport()
	if err != nil {
		return nil, err
	}
	return &client{config: c, http: &http.Client{Transport: transport}}, nil
}

// errTooMuch says that a query covers more than the server or we take: less may do.
var errTooMuch = errors.New("the answer is too large")

// ask sends one query and hands its answer's body to read. Errors are classified.
func (c *client) ask(ctx context.Context, path string, query url.Values, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	what := "asking " + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.config.URL, "/")+path, strings.NewReader(query.Encode()))
	if err != nil {
		return connectors.Permanent(fmt.Errorf("%s: %w", what, err))
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User-Agent", "idlewatt")
	if err := c.authorize(req); err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return status(what, resp)
	}
	body := &io.LimitedReader{R: resp.Body, N: c.config.MaxBody + 1}
	err = read(body)
	if body.N <= 0 {
		return fmt.Errorf("%s: more than %d bytes (max_body): %w", what, c.config.MaxBody, errTooMuch)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (c *client) authorize(req *http.Request) error {
	file, field := c.config.BearerTokenFile, "bearer_token_file"
	if c.config.BasicAuth.PasswordFile != "" {
		file, field = c.config.BasicAuth.PasswordFile, "basic_auth.password_file"
	}
	if file == "" {
		return nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", field, err)
	}
	secret := strings.TrimSpace(string(b))
	if c.config.BasicAuth.Username != "" {
		req.SetBasicAuth(c.config.BasicAuth.Username, secret)
	} else {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	return nil
}

// status turns an answer other than 200 into an error. 422 is how all three servers say that a
// query touches too much, among other things; 400 and 401 do not mend themselves.
func status(what string, resp *http.Response) error {
	head, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(head, &said) != nil || said.Error == "" {
		said.Error = http.StatusText(resp.StatusCode)
	}
	err := fmt.Errorf("%s: HTTP status %d: %.300s", what, resp.StatusCode, said.Error)
	switch resp.StatusCode {
	case http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return errors.Join(err, errTooMuch)
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return connectors.Permanent(err)
	case http.StatusTooManyRequests:
		if s, e := strconv.Atoi(resp.Header.Get("Retry-After")); e == nil && s > 0 {
			return connectors.RetryAfterError{Err: err, After: time.Duration(s) * time.Second}
		}
	}
	return err
}

// samples asks for everything stored in (from, to], as it was stored: a range vector has the
// samples' own times, and no value stands in for one that is missing. Thanos is told not to
// answer with what only some of its stores have.
func (c *client) samples(ctx context.Context, r *gpuseries.Reader, from, to time.Time) ([]gpuseries.Sample, error) {
	matchers := `__name__=~"` + gpuseries.Pattern + `"`
	if c.config.Selector != "" {
		matchers += "," + c.config.Selector
	}
	q := url.Values{
		"query": {fmt.Sprintf("{%s}[%dms]", matchers, to.Sub(from).Milliseconds())}, "time": {formatTime(to)},
		"partial_response": {"false"}, "dedup": {"true"}, "max_source_resolution": {"0s"}, "nocache": {"1"},
	}
	var out []gpuseries.Sample
	err := c.ask(ctx, "/api/v1/query", q, func(body io.Reader) error {
		var err error
		out, err = readMatrix(body, r, from.UnixMilli(), to.UnixMilli())
		return err
	})
	return out, err
}

func formatTime(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}
