package lambda

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Config is the section of a source of type lambda.
type Config struct {
	rest.Key `yaml:",inline"`
	BaseURL  string `yaml:"base_url"`
	// Account is the billing account that resources belong to; the source's name if empty.
	Account string `yaml:"account"`
	// FilesystemPrice is USD per GiB and month: the API does not say it.
	FilesystemPrice string `yaml:"filesystem_price_per_gib_month"`
	// HoursPerMonth divides it.
	HoursPerMonth int `yaml:"hours_per_month"`
	// Clusters are 1-Click Clusters, whose nodes are a commitment and cost nothing by the hour.
	Clusters []string `yaml:"clusters"`
	// Now is the clock, for tests; the machine's if nil.
	Now func() time.Time `yaml:"-"`
}

// defaults are Lambda's own example: 0.20 USD per GiB in a month of 720 hours.
func defaults() *Config {
	return &Config{BaseURL: "https://cloud.lambda.ai/api/v1", FilesystemPrice: "0.20", HoursPerMonth: 720}
}

var plainID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	if err := c.Key.Validate(); err != nil {
		errs = append(errs, err)
	}
	if u, err := url.Parse(c.BaseURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.HasSuffix(c.BaseURL, "/") {
		errs = append(errs, fmt.Errorf("base_url: %q is no URL such as https://cloud.lambda.ai/api/v1, without a slash at the end", c.BaseURL))
	}
	if d, _, err := money.Parse(c.FilesystemPrice); err != nil || d.IsNegative() {
		errs = append(errs, fmt.Errorf("filesystem_price_per_gib_month: %q is no price in USD such as 0.20", c.FilesystemPrice))
	}
	if c.HoursPerMonth < 1 || c.HoursPerMonth > 744 {
		errs = append(errs, errors.New("hours_per_month: is not between 1 and 744"))
	}
	for i, id := range c.Clusters {
		if !plainID.MatchString(id) {
			errs = append(errs, fmt.Errorf("clusters[%d]: %q is no id of a cluster", i, id))
		}
	}
	return errors.Join(errs...)
}

// storage is what a GiB costs.
type storage struct {
	price money.Decimal
	hours int
}

func (c *Config) storage() (storage, error) {
	d, _, err := money.Parse(c.FilesystemPrice)
	return storage{price: d, hours: c.HoursPerMonth}, err
}
