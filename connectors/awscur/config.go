package awscur

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
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
	// CapacityBlock is a regular expression that tells Capacity Blocks, see `idlewatt import`.
	CapacityBlock string `yaml:"capacity_block"`
	// Since is the first billing month to fetch, YYYY-MM; empty fetches all there are.
	Since string `yaml:"since"`
	// Config says who asks AWS. Its region is the bucket's; its endpoint may be that of another
	// store that speaks S3, often together with PathStyle.
	awsapi.Config `yaml:",inline"`
	PathStyle     bool `yaml:"path_style"`
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

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
	if _, err := regexp.Compile(c.CapacityBlock); err != nil {
		bad("capacity_block", "%w", err)
	}
	return errors.Join(append(errs, c.Config.Validate())...)
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

// place is what a cursor is good for: another bucket, export or reading begins anew.
func (c *Config) place() string {
	p := c.Bucket + "/" + c.below()
	if c.Format != "" || c.CapacityBlock != "" {
		p += " as " + c.Format + " " + c.CapacityBlock
	}
	return p
}

// below is where everything of the export lies, with a slash at the end.
func (c *Config) below() string {
	if p := strings.Trim(c.Prefix, "/"); p != "" {
		return p + "/" + c.Export + "/"
	}
	return c.Export + "/"
}
