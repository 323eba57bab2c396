package awscur

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/normalize"
)

// Kinds of exports. They differ in where a manifest lies and how it names its files.
const (
	kindAuto   = "auto"
	kindExport = "data-export" // CUR 2.0 and FOCUS of Data Exports
	kindLegacy = "legacy"      // Cost and Usage Reports
)

// Config is the section of an `awscur` source.
type Config struct {
	Bucket string `yaml:"bucket"`
	// Prefix is the S3 path prefix of the export, as the AWS console shows it; may be empty.
	Prefix string `yaml:"prefix"`
	// Export is the name of the export or report.
	Export string `yaml:"export"`
	Kind   string `yaml:"kind"` // auto, data-export or legacy
	// Format is only needed where the manifest does not list the columns.
	Format string `yaml:"format"`
	// Since is the first billing month to fetch, YYYY-MM; empty fetches all there are.
	Since  string `yaml:"since"`
	Region string `yaml:"region"` // of the bucket; empty: as the AWS environment says, or us-east-1
	// Profile is one of the AWS configuration files. Without it credentials come from where
	// AWS tools look: environment, files, the machine's role.
	Profile         string     `yaml:"profile"`
	CredentialsFile string     `yaml:"credentials_file"` // in the form of ~/.aws/credentials
	Role            RoleConfig `yaml:"role"`
	// Endpoint and PathStyle are for other stores that speak S3.
	Endpoint  string `yaml:"endpoint"`
	PathStyle bool   `yaml:"path_style"`
}

// RoleConfig is a role to take on before anything is read.
type RoleConfig struct {
	ARN        string `yaml:"arn"`
	ExternalID string `yaml:"external_id"`
}

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	roleARN    = regexp.MustCompile(`^arn:aws[a-z-]*:iam::\d{12}:role/.+$`)
)

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) { errs = append(errs, fmt.Errorf(field+": "+format, args...)) }
	switch {
	case c.Bucket == "":
		bad("bucket", "is required, e.g. my-billing")
	case !bucketName.MatchString(c.Bucket):
		bad("bucket", "%q is no bucket name: want the name alone, without s3:// and path", c.Bucket)
	}
	if c.Export == "" {
		bad("export", "is required: the name of the export or report, as the AWS console shows it")
	} else if strings.Contains(c.Export, "/") {
		bad("export", "%q holds a slash: the path belongs in prefix", c.Export)
	}
	if strings.Contains(c.Prefix, "://") {
		bad("prefix", "%q is a URL: want the path alone, e.g. exports/cur2", c.Prefix)
	}
	if !slices.Contains([]string{kindAuto, kindExport, kindLegacy}, c.Kind) {
		bad("kind", "%q is none of auto, data-export, legacy", c.Kind)
	}
	if c.Format != "" && !slices.Contains(formats(), c.Format) {
		bad("format", "%q is none of %s; leave it out to have it told by the manifest", c.Format, strings.Join(formats(), ", "))
	}
	if _, err := time.Parse("2006-01", c.Since); c.Since != "" && err != nil {
		bad("since", "%q: want YYYY-MM", c.Since)
	}
	if c.Role.ARN != "" && !roleARN.MatchString(c.Role.ARN) {
		bad("role.arn", "%q: want arn:aws:iam::ACCOUNT:role/NAME", c.Role.ARN)
	}
	if c.Role.ARN == "" && c.Role.ExternalID != "" {
		bad("role.external_id", "needs role.arn")
	}
	if c.Endpoint != "" {
		if u, err := url.Parse(c.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			bad("endpoint", "want a URL such as https://s3.example.org")
		} else if u.User != nil {
			bad("endpoint", "must not hold credentials: use credentials_file")
		}
	}
	return errors.Join(errs...)
}

// formats are the bill formats that AWS exports.
func formats() []string {
	var out []string
	for _, name := range normalize.Names() {
		if strings.HasPrefix(name, "aws-") {
			out = append(out, name)
		}
	}
	return out
}

// below is where everything of the export lies, with a slash at the end.
func (c *Config) below() string {
	if p := strings.Trim(c.Prefix, "/"); p != "" {
		return p + "/" + c.Export + "/"
	}
	return c.Export + "/"
}
