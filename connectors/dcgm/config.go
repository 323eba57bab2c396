package dcgm

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors/rest"
)

// Config is the section of a `dcgm` source.
type Config struct {
	// Targets are exporters: host:port, or a URL; /metrics is added where there is no path.
	Targets []string `yaml:"targets"`
	// SRV is a DNS name whose SRV records name exporters, e.g. _dcgm._tcp.gpu.example.com.
	SRV string `yaml:"srv"`
	// HTTPSD is a URL and FileSD a file with targets in the form of Prometheus' HTTP service
	// discovery: [{"targets": ["host:port"], "labels": {"node": "name"}}].
	HTTPSD string `yaml:"http_sd"`
	FileSD string `yaml:"file_sd"`
	// Kubernetes finds exporters as pods by their labels.
	Kubernetes *PodsConfig `yaml:"kubernetes"`
	// Refresh is how often targets are looked for, at most.
	Refresh time.Duration `yaml:"refresh"`
	// Nodes names the host of a target as the bill or the inventory knows it.
	Nodes map[string]string `yaml:"nodes"`
	// Timeout ends one scrape.
	Timeout time.Duration `yaml:"timeout"`
	// Parallel bounds how many targets are scraped at once.
	Parallel int `yaml:"parallel"`
	// MaxBody is the largest body that is read, in bytes; what lies beyond makes the scrape
	// incomplete.
	MaxBody int64 `yaml:"max_body"`
	// Labels are the pod labels to keep; empty keeps the default list.
	Labels []string `yaml:"labels"`
	// BearerTokenFile is sent as Authorization; it is read at every pull.
	BearerTokenFile string   `yaml:"bearer_token_file"`
	TLS             rest.TLS `yaml:"tls"`
}

func defaults() *Config {
	return &Config{Timeout: 10 * time.Second, Parallel: 16, MaxBody: 64 << 20, Refresh: time.Minute}
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Targets) == 0 && !c.discovers() {
		errs = append(errs, errors.New("targets: at least one is required, or a way to find them: srv, http_sd, file_sd or kubernetes"))
	}
	seen := map[string]bool{}
	for i, t := range c.Targets {
		if _, err := targetURL(t); err != nil {
			errs = append(errs, fmt.Errorf("targets[%d]: %w", i, err))
		}
		if seen[t] {
			errs = append(errs, fmt.Errorf("targets[%d]: %q is listed twice", i, t))
		}
		seen[t] = true
	}
	for t := range c.Nodes {
		if !seen[t] && !c.discovers() {
			errs = append(errs, fmt.Errorf("nodes: %q is no target", t))
		}
	}
	errs = append(errs, c.checkDiscovery())
	if c.Timeout <= 0 {
		errs = append(errs, errors.New("timeout: must be positive"))
	}
	if c.Parallel <= 0 {
		errs = append(errs, errors.New("parallel: must be positive"))
	}
	if c.MaxBody <= 0 {
		errs = append(errs, errors.New("max_body: must be positive"))
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		errs = append(errs, errors.New("tls: cert_file and key_file belong together"))
	}
	return errors.Join(errs...)
}

// targetURL is where a target is scraped.
func targetURL(target string) (string, error) {
	raw := target
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", errors.New("is no host:port and no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("scheme %q is neither http nor https", u.Scheme)
	case u.Hostname() == "":
		return "", errors.New("names no host")
	case u.User != nil:
		return "", errors.New("must not hold credentials: use bearer_token_file")
	case u.Path == "":
		u.Path = "/metrics"
	}
	return u.String(), nil
}
