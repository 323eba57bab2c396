package dcgm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// client fetches expositions over HTTP.
type client struct {
	config *Config
	http   *http.Client
}

func newClient(c *Config) (*client, error) {
	transport, err := c.TLS.Transport()
	if err != nil {
		return nil, err
	}
	transport.MaxIdleConnsPerHost = 1
	return &client{config: c, http: &http.Client{Transport: transport}}, nil
}

// token reads the bearer token, so that a rotated one is used at the next pull.
func (c *client) token() (string, error) {
	if c.config.BearerTokenFile == "" {
		return "", nil
	}
	b, err := os.ReadFile(c.config.BearerTokenFile)
	if err != nil {
		return "", fmt.Errorf("reading bearer_token_file: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// errTooLong says that a body was larger than allowed.
var errTooLong = errors.New("body is longer than max_body")

// get fetches one exposition. With an error the text is what came before it: it may show
// work, it proves no absence.
func (c *client) get(ctx context.Context, target, token string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	url, err := targetURL(target)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", target, err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4;q=1,*/*;q=0.1")
	req.Header.Set("User-Agent", "idlewatt")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", target, err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking %s: HTTP status %d", target, resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, c.config.MaxBody+1))
	if err != nil {
		return text, fmt.Errorf("reading from %s: %w", target, err)
	}
	if int64(len(text)) > c.config.MaxBody {
		return text[:c.config.MaxBody], fmt.Errorf("reading from %s: %w", target, errTooLong)
	}
	return text, nil
}
