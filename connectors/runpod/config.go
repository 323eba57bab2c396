package runpod

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Config is the section of a source of type runpod.
type Config struct {
	rest.Key `yaml:",inline"`
	// Account names the billing account; RunPod's answers name none. Default: the source's name.
	Account string `yaml:"account"`
	BaseURL string `yaml:"base_url"`
	// GraphURL is the old API, asked for the balance and, where v2 shows no GPU readings, for
	// those. RunPod says it retires early in 2027.
	GraphURL string `yaml:"graphql_url"`
	Balance  bool   `yaml:"balance"`
	// Utilisation makes GPU samples of what RunPod shows of running pods. Leave it off for
	// pods with dcgm-exporter: their GPUs would be seen twice.
	Utilisation bool `yaml:"utilisation"`
	// WindowDays are whole days before today that are read again and replaced.
	WindowDays   int           `yaml:"window_days"`
	BillingEvery time.Duration `yaml:"billing_every"`
	// Since is the first day to fetch (YYYY-MM-DD); empty starts with the window.
	Since string `yaml:"since"`
	// ProjectFromName is a regular expression over names of pods, endpoints, volumes and
	// clusters; its group `project` becomes the tag project.
	ProjectFromName string `yaml:"project_from_name"`
	// EnvTags are the environment variables of pods and endpoints that become tags. All others
	// are dropped as they are read.
	EnvTags       []string      `yaml:"env_tags"`
	StoragePrices StoragePrices `yaml:"storage_prices"`
	// Now is the clock of a test; nil is the machine's.
	Now func() time.Time `yaml:"-"`
}

// StoragePrices are USD per GB and month, which no route of v2 tells: the defaults are those of
// docs.runpod.io (accounts-billing/billing, pods/pricing, storage/network-volumes). They rate
// what is not billed yet; a bill is never changed by them.
type StoragePrices struct {
	ContainerRunning string `yaml:"container_running"`
	VolumeRunning    string `yaml:"volume_running"`
	VolumeStopped    string `yaml:"volume_stopped"`
	NetworkFirstTB   string `yaml:"network_first_tb"` // a TB is taken as 1000 GB
	NetworkBeyond    string `yaml:"network_beyond"`
	// HighPerformance differs by data center and stands in the console only; empty: not known.
	HighPerformance string `yaml:"high_performance"`
	// HoursPerMonth divides them; RunPod does not state it. 720 fits its examples.
	HoursPerMonth string `yaml:"hours_per_month"`
}

func defaults() *Config {
	return &Config{
		BaseURL: "https://api.runpod.io/v2", GraphURL: "https://api.runpod.io/graphql", WindowDays: 3, BillingEvery: 15 * time.Minute,
		StoragePrices: StoragePrices{
			ContainerRunning: "0.10", VolumeRunning: "0.10", VolumeStopped: "0.20", NetworkFirstTB: "0.07", NetworkBeyond: "0.05", HoursPerMonth: "720",
		},
	}
}

// maxWindow bounds one answer: RunPod sends a row per resource and hour, zeros too.
const maxWindow = 31

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	errs := []error{c.Key.Validate()}
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(!isURL(c.BaseURL), "base_url: %q is no http or https URL", c.BaseURL)
	bad(strings.HasSuffix(strings.TrimRight(c.BaseURL, "/"), "/v1"), "base_url: %q is REST v1, which RunPod has switched off: use %s", c.BaseURL, defaults().BaseURL)
	bad((c.Balance || c.Utilisation) && !isURL(c.GraphURL), "graphql_url: %q is no http or https URL", c.GraphURL)
	bad(c.WindowDays < 1 || c.WindowDays > maxWindow, "window_days: %d is not between 1 and %d", c.WindowDays, maxWindow)
	bad(c.BillingEvery <= 0, "billing_every: must be positive")
	if c.Since != "" {
		_, err := time.Parse(time.DateOnly, c.Since)
		bad(err != nil, "since: %q is no day such as 2026-09-01", c.Since)
	}
	if c.ProjectFromName != "" {
		re, err := regexp.Compile(c.ProjectFromName)
		bad(err != nil, "project_from_name: %q is no regular expression: %v", c.ProjectFromName, err)
		bad(err == nil && !slices.Contains(re.SubexpNames(), "project"), "project_from_name: %q has no group (?P<project>...)", c.ProjectFromName)
	}
	for i, name := range c.EnvTags {
		bad(strings.TrimSpace(name) == "", "env_tags[%d]: is empty", i)
	}
	return errors.Join(append(errs, c.StoragePrices.validate())...)
}

func (s StoragePrices) validate() error {
	var errs []error
	for _, f := range []struct {
		name, text string
		optional   bool
	}{
		{"container_running", s.ContainerRunning, false}, {"volume_running", s.VolumeRunning, false}, {"volume_stopped", s.VolumeStopped, false},
		{"network_first_tb", s.NetworkFirstTB, false}, {"network_beyond", s.NetworkBeyond, false}, {"high_performance", s.HighPerformance, true},
		{"hours_per_month", s.HoursPerMonth, false},
	} {
		d, _, err := money.Parse(f.text)
		switch {
		case f.text == "" && f.optional:
		case err != nil:
			errs = append(errs, fmt.Errorf("storage_prices.%s: %w", f.name, err))
		case d.IsNegative() || f.name == "hours_per_month" && !d.IsPositive():
			errs = append(errs, fmt.Errorf("storage_prices.%s: %s is not positive", f.name, f.text))
		}
	}
	return errors.Join(errs...)
}

func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// Factory describes the connector.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "runpod", Summary: "RunPod: bill by the hour, pods, endpoints, volumes and clusters, prices", Every: 5 * time.Minute,
		NewConfig: func() connectors.Config { return defaults() },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: config is a %T", source, cfg)
			}
			return newConnector(source, *c)
		},
		// Lists of pods and endpoints hold their `env`.
		Formats: []connectors.Format{{Name: "runpod", Private: true, Sniff: sniff, Lines: fileLines}},
	}
}
