package crusoe

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
)

// Config is the section of a source of type crusoe.
type Config struct {
	rest.Key     `yaml:",inline"`
	KeyID        string `yaml:"key_id"` // the access key's id, which is no secret
	Organization string `yaml:"organization_id"`
	BaseURL      string `yaml:"base_url"`
	// Projects are names for project ids; costs of a named one carry the tag project.
	Projects map[string]string `yaml:"projects"`
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	errs := []error{c.Key.Validate()}
	if c.KeyID == "" {
		errs = append(errs, errors.New("key_id: is required, the id shown beside the secret key"))
	}
	if c.Organization == "" {
		errs = append(errs, errors.New("organization_id: is required"))
	}
	if u, err := url.Parse(c.BaseURL); err != nil || u.Host == "" {
		errs = append(errs, fmt.Errorf("base_url: %q is no URL", c.BaseURL))
	}
	return errors.Join(errs...)
}

// Factory describes the connector.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "crusoe", Summary: "Crusoe Cloud: costs by day, project and resource type", Every: 6 * time.Hour,
		NewConfig: func() connectors.Config { return &Config{BaseURL: "https://api.cloud.crusoe.ai/v1"} },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: config is a %T", source, cfg)
			}
			return newConnector(source, *c), nil
		},
		Formats: []connectors.Format{{Name: "crusoe", Sniff: sniff, Lines: fileLines}},
	}
}
