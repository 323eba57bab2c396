package slack

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"
)

// Config says where the webhook's URL is kept. The URL is a secret, so it is never in the
// configuration itself.
type Config struct {
	WebhookURLEnv  string `yaml:"webhook_url_env"`
	WebhookURLFile string `yaml:"webhook_url_file"`
	// Timeout ends one request; default 10s.
	Timeout string `yaml:"timeout"`
}

// Validate reports every field that is wrong.
func (c Config) Validate() error {
	var errs []error
	switch {
	case c.WebhookURLEnv == "" && c.WebhookURLFile == "":
		errs = append(errs, errors.New("webhook_url_env or webhook_url_file is required"))
	case c.WebhookURLEnv != "" && c.WebhookURLFile != "":
		errs = append(errs, errors.New("webhook_url_env and webhook_url_file exclude each other"))
	case strings.Contains(c.WebhookURLEnv, "://"):
		errs = append(errs, errors.New("webhook_url_env: want the name of a variable, not the secret itself"))
	}
	if _, err := c.timeout(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c Config) timeout() (time.Duration, error) {
	if c.Timeout == "" {
		return defaultTimeout, nil
	}
	d, err := time.ParseDuration(c.Timeout)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("timeout: %q is no duration such as 10s", c.Timeout)
	}
	return d, nil
}

// Secret is a text that never shows in logs, errors or JSON.
type Secret struct{ text string }

// NewSecret wraps a text.
func NewSecret(s string) Secret { return Secret{text: s} }

// String hides the text.
func (Secret) String() string { return "(secret)" }

// GoString hides the text.
func (Secret) GoString() string { return "(secret)" }

// MarshalText hides the text.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// WebhookURL reads the secret from the variable or the file that the configuration names.
func (c Config) WebhookURL(getenv func(string) string) (Secret, error) {
	text, from := "", ""
	if c.WebhookURLEnv != "" {
		text, from = getenv(c.WebhookURLEnv), "variable "+c.WebhookURLEnv
	} else {
		data, err := os.ReadFile(c.WebhookURLFile)
		if err != nil {
			return Secret{}, fmt.Errorf("webhook_url_file: %w", err)
		}
		text, from = string(data), "file "+c.WebhookURLFile
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return Secret{}, fmt.Errorf("reading the webhook URL: %s is empty", from)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && !loopback(u) {
		return Secret{}, fmt.Errorf("reading the webhook URL: %s holds no https URL", from)
	}
	return NewSecret(text), nil
}

// loopback lets tests and local relays do without TLS.
func loopback(u *url.URL) bool {
	return u.Scheme == "http" && (u.Hostname() == "127.0.0.1" || u.Hostname() == "::1" || u.Hostname() == "localhost")
}
