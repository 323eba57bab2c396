package together

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
)

// Config is the section of a source of type together.
type Config struct {
	rest.Key     `yaml:",inline"`
	Organization string `yaml:"organization_id"` // sent if given; required by Together once the beta ends
	BaseURL      string `yaml:"base_url"`
	Since        string `yaml:"since"` // YYYY-MM: the first pull goes back so far
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	errs := []error{c.Key.Validate()}
	if u, err := url.Parse(c.BaseURL); err != nil || u.Host == "" {
		errs = append(errs, fmt.Errorf("base_url: %q is no URL", c.BaseURL))
	}
	if c.Since != "" {
		if _, err := time.Parse(month, c.Since); err != nil {
			errs = append(errs, fmt.Errorf("since: %q: want YYYY-MM", c.Since))
		}
	}
	return errors.Join(errs...)
}

// Factory describes the connector.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "together", Summary: "Together AI: costs by day, product and model (beta API)", Every: time.Hour,
		NewConfig: func() connectors.Config { return &Config{BaseURL: "https://api.together.ai/v1"} },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: config is a %T", source, cfg)
			}
			return newConnector(source, *c), nil
		},
		Formats: []connectors.Format{{Name: "together", Sniff: sniff, Lines: fileLines}},
	}
}
