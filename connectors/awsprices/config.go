package awsprices

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
	"github.com/idlewatt/idlewatt/schema/catalog"
)

// Config is the section of an `awsprices` source.
type Config struct {
	awsapi.Config `yaml:",inline"`
	Regions       []string `yaml:"regions"`
	// InstanceTypes are those to ask for; none are all with GPUs that the catalogue knows.
	InstanceTypes []string `yaml:"instance_types"`
	// OperatingSystems are written as the price list does.
	OperatingSystems []string `yaml:"operating_systems"`
	// Spot asks for spot prices too.
	Spot bool `yaml:"spot"`
	// History is how far the first pull looks back for spot prices; AWS keeps 90 days.
	History time.Duration `yaml:"history"`
	// Now is the clock; nil is the machine's.
	Now func() time.Time `yaml:"-"`
}

// longest is how far back EC2 tells spot prices.
const longest = 90 * 24 * time.Hour

var typeName = regexp.MustCompile(`^[a-z0-9-]+\.[a-z0-9-]+$`)

// spotProducts are EC2's words for the operating systems that have spot prices, by those of the
// price list.
func spotProducts() map[string]string {
	return map[string]string{"Linux": "Linux/UNIX", "RHEL": "Red Hat Enterprise Linux", "SUSE": "SUSE Linux", "Windows": "Windows"}
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if len(c.Regions) == 0 {
		errs = append(errs, errors.New("regions: is required, e.g. [us-east-1, eu-central-1]"))
	}
	partitions := map[bool]bool{}
	for i, r := range c.Regions {
		errs = append(errs, awsapi.CheckRegion(fmt.Sprintf("regions[%d]", i), r))
		if slices.Contains(c.Regions[:i], r) {
			errs = append(errs, fmt.Errorf("regions[%d]: %s stands there twice", i, r))
		}
		partitions[strings.HasPrefix(r, "cn-")] = true
	}
	if len(partitions) > 1 {
		errs = append(errs, errors.New("regions: China has credentials and a price list of its own: make it another source"))
	}
	for i, t := range c.InstanceTypes {
		if !typeName.MatchString(t) {
			errs = append(errs, fmt.Errorf("instance_types[%d]: %q is no type: want e.g. p5.48xlarge", i, t))
		}
	}
	known := slices.Sorted(maps.Keys(spotProducts()))
	if len(c.OperatingSystems) == 0 {
		errs = append(errs, errors.New("operating_systems: is required, e.g. [Linux]"))
	}
	for i, s := range c.OperatingSystems {
		if !slices.Contains(known, s) {
			errs = append(errs, fmt.Errorf("operating_systems[%d]: %q is none of %s", i, s, strings.Join(known, ", ")))
		}
	}
	if c.History < 0 || c.History > longest {
		errs = append(errs, fmt.Errorf("history: %v is not between 0 and 2160h, as far as AWS looks back", c.History))
	}
	return errors.Join(errs...)
}

// Factory describes the connector.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "awsprices", Summary: "AWS: list and spot prices of EC2 instance types", Every: time.Hour,
		NewConfig: func() connectors.Config {
			return &Config{OperatingSystems: []string{"Linux"}, Spot: true, History: 72 * time.Hour}
		},
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: config is a %T", source, cfg)
			}
			types, err := c.types()
			if err != nil {
				return nil, fmt.Errorf("building source %s: %w", source, err)
			}
			built := &connector{source: source, cfg: *c, types: types, now: c.Now}
			if built.now == nil {
				built.now = time.Now
			}
			return built, nil
		},
	}
}

// types are the configured types, or those of the catalogue, sorted.
func (c *Config) types() ([]string, error) {
	out := slices.Clone(c.InstanceTypes)
	if len(out) == 0 {
		all, err := catalog.Load()
		if err != nil {
			return nil, err
		}
		for _, g := range all {
			if g.Provider == "aws" {
				out = append(out, g.InstanceType)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

type connector struct {
	source string
	cfg    Config
	types  []string
	now    func() time.Time
	tune   func(*aws.Config) // for tests; may be nil
}
