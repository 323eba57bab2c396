package prometheus

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors/rest"
)

// Config is the section of a `prometheus` source.
type Config struct {
	// URL is the server, with the path before /api/v1 if it has one (Thanos and VictoriaMetrics
	// clusters do).
	URL string `yaml:"url"`
	// BearerTokenFile is sent as Authorization; it is read at every pull. So is the password.
	BearerTokenFile string    `yaml:"bearer_token_file"`
	BasicAuth       BasicAuth `yaml:"basic_auth"`
	TLS             rest.TLS  `yaml:"tls"`
	// Selector are label matchers that the series must also have, as in PromQL without braces.
	Selector string `yaml:"selector"`
	// Since is where the history begins that is fetched at first: a day or a time. Empty is an
	// hour before the first pull.
	Since string `yaml:"since"`
	// Chunk is how much time one query covers; it is halved where a server refuses so much.
	Chunk time.Duration `yaml:"chunk"`
	// Lag is how long after a time its samples are sure to be there. Remote-written stores lag.
	Lag time.Duration `yaml:"lag"`
	// Timeout ends one query; MaxBody is its longest answer in bytes.
	Timeout time.Duration `yaml:"timeout"`
	MaxBody int64         `yaml:"max_body"`
	// Labels are the pod labels to keep; empty keeps the default list.
	Labels []string `yaml:"labels"`
	// NodeLabels are labels that name the host, the first that is there counts. Without one
	// the exporter's own label does.
	NodeLabels []string `yaml:"node_labels"`
}

// BasicAuth is a user with a password in a file.
type BasicAuth struct {
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`
}

func defaults() *Config {
	return &Config{Chunk: time.Hour, Lag: 2 * time.Minute, Timeout: 2 * time.Minute, MaxBody: 512 << 20}
}

// minChunk is the least time that one query covers.
const minChunk = time.Minute

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	bad := func(is bool, field, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf("%s: "+format, append([]any{field}, args...)...))
		}
	}
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		bad(true, "url", "is required, e.g. http://prometheus:9090")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		bad(true, "url", "want http or https and a host")
	default:
		bad(u.User != nil, "url", "must not hold credentials: use basic_auth or bearer_token_file")
		bad(u.RawQuery != "" || u.Fragment != "", "url", "must end with a path")
	}
	bad(c.BearerTokenFile != "" && c.BasicAuth != BasicAuth{}, "basic_auth", "only one of it and bearer_token_file")
	bad((c.BasicAuth.Username == "") != (c.BasicAuth.PasswordFile == ""), "basic_auth", "username and password_file belong together")
	bad((c.TLS.CertFile == "") != (c.TLS.KeyFile == ""), "tls", "cert_file and key_file belong together")
	bad(strings.ContainsAny(c.Selector, "{}") || strings.Contains(c.Selector, "__name__"), "selector", `want matchers without braces and without __name__, e.g. job="dcgm"`)
	if _, err := since(c.Since); err != nil {
		bad(true, "since", "%v", err)
	}
	bad(c.Chunk < minChunk || c.Chunk > 24*time.Hour, "chunk", "%v is not between %v and 24h", c.Chunk, minChunk)
	bad(c.Lag < 0, "lag", "must not be negative")
	bad(c.Timeout <= 0, "timeout", "must be positive")
	bad(c.MaxBody <= 0, "max_body", "must be positive")
	return errors.Join(errs...)
}

// since reads a day or a time; empty is none.
func since(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no day (2026-09-01) and no time (2026-09-01T00:00:00Z)", text)
}
