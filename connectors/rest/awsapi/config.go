package awsapi

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
)

// Config says who asks AWS. It is inlined into the section of a source.
type Config struct {
	// Region is asked where a question is not about one; empty: as the AWS environment says,
	// or us-east-1.
	Region string `yaml:"region"`
	// Profile is one of the AWS configuration files. Without it credentials come from where
	// AWS tools look: environment, files, the machine's role.
	Profile         string `yaml:"profile"`
	CredentialsFile string `yaml:"credentials_file"` // in the form of ~/.aws/credentials
	Role            Role   `yaml:"role"`
	// Endpoint answers for all of AWS; for tests.
	Endpoint string `yaml:"endpoint"`
}

// Role is a role to take on before anything is read.
type Role struct {
	ARN        string `yaml:"arn"`
	ExternalID string `yaml:"external_id"`
}

var (
	roleARN    = regexp.MustCompile(`^arn:aws[a-z-]*:iam::(\d{12}):role/.+$`)
	regionName = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d+$`)
)

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	errs := []error{c.Role.Validate("role")}
	if c.Region != "" {
		errs = append(errs, CheckRegion("region", c.Region))
	}
	if c.Endpoint != "" {
		if u, err := url.Parse(c.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, errors.New("endpoint: want a URL such as http://127.0.0.1:5000"))
		} else if u.User != nil {
			errs = append(errs, errors.New("endpoint: must not hold credentials: use credentials_file"))
		}
	}
	return errors.Join(errs...)
}

// Validate reports what is wrong; field is where the role stands. No role at all is right.
func (r Role) Validate(field string) error {
	switch {
	case r.ARN != "" && !roleARN.MatchString(r.ARN):
		return fmt.Errorf("%s.arn: %q: want arn:aws:iam::ACCOUNT:role/NAME", field, r.ARN)
	case r.ARN == "" && r.ExternalID != "":
		return fmt.Errorf("%s.external_id: needs %s.arn", field, field)
	}
	return nil
}

// Account is the account that the role is of.
func (r Role) Account() string {
	if m := roleARN.FindStringSubmatch(r.ARN); m != nil {
		return m[1]
	}
	return ""
}

// CheckRegion refuses what is no name of a region.
func CheckRegion(field, name string) error {
	if !regionName.MatchString(name) {
		return fmt.Errorf("%s: %q is no region: want e.g. us-east-1", field, name)
	}
	return nil
}

// where names where credentials come from, for messages.
func (c Config) where() string {
	switch {
	case c.CredentialsFile != "":
		return "the file " + c.CredentialsFile
	case c.Profile != "":
		return fmt.Sprintf("profile %q", c.Profile)
	default:
		return "the environment (AWS_* variables, shared files or the machine's role)"
	}
}
