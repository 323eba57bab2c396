package awsinventory

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
)

// Config is the section of an `awsinventory` source.
type Config struct {
	awsapi.Config `yaml:",inline"`
	// Regions are those to ask; none are all that an account has enabled.
	Regions []string `yaml:"regions"`
	// Accounts are asked besides the one that the credentials are of.
	Accounts []Account `yaml:"accounts"`
	// OwnAccount is false where the credentials may do nothing but take on roles.
	OwnAccount bool `yaml:"own_account"`
	// AllInstances tells of machines without a GPU too.
	AllInstances bool `yaml:"all_instances"`
	// Now is the clock; nil is the machine's.
	Now func() time.Time `yaml:"-"`
}

// Account is one more account, by the role to take on in it.
type Account struct {
	RoleARN    string `yaml:"role_arn"`
	ExternalID string `yaml:"external_id"`
}

func (a Account) role() awsapi.Role { return awsapi.Role{ARN: a.RoleARN, ExternalID: a.ExternalID} }

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	errs := []error{c.Config.Validate()}
	for i, r := range c.Regions {
		errs = append(errs, awsapi.CheckRegion(fmt.Sprintf("regions[%d]", i), r))
		if slices.Contains(c.Regions[:i], r) {
			errs = append(errs, fmt.Errorf("regions[%d]: %s stands there twice", i, r))
		}
	}
	seen := map[string]bool{}
	for i, a := range c.Accounts {
		id := a.role().Account()
		switch {
		case id == "":
			errs = append(errs, fmt.Errorf("accounts[%d].role_arn: %q: want arn:aws:iam::ACCOUNT:role/NAME", i, a.RoleARN))
		case seen[id]:
			errs = append(errs, fmt.Errorf("accounts[%d].role_arn: account %s stands there twice", i, id))
		}
		seen[id] = true
	}
	if !c.OwnAccount && len(c.Accounts) == 0 {
		errs = append(errs, errors.New("own_account: is false, and accounts names no other: there is nothing to ask"))
	}
	return errors.Join(errs...)
}

// Factory describes the connector.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "awsinventory", Summary: "AWS: running EC2 instances of all regions and accounts", Every: time.Minute,
		NewConfig: func() connectors.Config { return &Config{OwnAccount: true} },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: config is a %T", source, cfg)
			}
			known, err := readCatalog()
			if err != nil {
				return nil, fmt.Errorf("building source %s: %w", source, err)
			}
			built := &connector{source: source, cfg: *c, known: known, now: c.Now}
			if built.now == nil {
				built.now = time.Now
			}
			return built, nil
		},
	}
}

type connector struct {
	source string
	cfg    Config
	known  catalogue
	now    func() time.Time
	tune   func(*aws.Config) // for tests; may be nil
}
