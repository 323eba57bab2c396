package awscur

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// late is the age at which a newest delivery is strange: AWS refreshes the running month at
// least once a day.
const late = 48 * time.Hour

// Doctor asks who idlewatt is to AWS, then for the bucket, the newest manifest and one of its
// files, each as a pull would.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	s, err := c.open(ctx)
	if err != nil {
		return []connectors.Finding{wrong(connectors.Fail, "AWS configuration", err)}
	}
	defer s.close()
	out := []connectors.Finding{s.identity(ctx)}
	what := "s3:ListBucket on " + s.arn("s3:ListBucket", s.cfg.below())
	months, err := s.find(ctx)
	if err != nil {
		return append(out, wrong(connectors.Fail, what, err))
	}
	newest := months[len(months)-1]
	out = append(out, right(what, fmt.Sprintf("%d billing months, %s to %s", len(months), months[0].month, newest.month)))
	return append(out, s.examine(ctx, newest)...)
}

func (s *session) identity(ctx context.Context) connectors.Finding {
	const what = "sts:GetCallerIdentity"
	id, err := sts.NewFromConfig(s.aws.In(s.aws.Home())).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		f := wrong(connectors.Warn, what, s.aws.Failure(ctx, err, what, ""))
		f.Said += " (it is asked only to name the identity)"
		return f
	}
	return right(what, "AWS knows idlewatt as "+aws.ToString(id.Arn))
}

// examine looks at one month as its manifest tells it.
func (s *session) examine(ctx context.Context, f found) []connectors.Finding {
	d, err := s.manifest(ctx, f, month{})
	what := "s3:GetObject on " + s.arn("s3:GetObject", f.folders[0]+"*-Manifest.json")
	switch {
	case err != nil:
		return []connectors.Finding{wrong(connectors.Fail, what, err)}
	case d == nil:
		return []connectors.Finding{{Level: connectors.Warn, What: what, Said: "the month has no manifest yet", Fix: "wait: AWS writes it after the files of the first delivery"}}
	}
	what = "s3:GetObject on " + s.arn("s3:GetObject", d.key)
	out := []connectors.Finding{right(what, fmt.Sprintf("%s: %d files, format %s", f.month, len(d.keys), d.format))}
	if len(d.keys) > 0 {
		out = append(out, s.sip(ctx, d.keys[0]))
	}
	return append(append(out, s.columns(d)...), s.age(d))
}

// sip reads one byte of a data file.
func (s *session) sip(ctx context.Context, key string) connectors.Finding {
	what := "s3:GetObject on " + s.arn("s3:GetObject", key)
	res, err := s.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.cfg.Bucket, Key: &key, Range: aws.String("bytes=0-0")})
	if err != nil && noKey(err) {
		return connectors.Finding{Level: connectors.Warn, What: what, Said: "the file is listed by the manifest but is not there (yet)", Fix: "wait: AWS may be rewriting the month; if it stays so, look for a lifecycle rule that deletes files"}
	}
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	if err != nil {
		return wrong(connectors.Fail, what, s.failure(ctx, err, "s3:GetObject", key))
	}
	return right(what, "can be read")
}

// wanted are columns that idlewatt can do without, but not as a person would expect.
var wanted = map[string][]struct{ column, without, fix string }{
	"cur": {
		{"line_item_resource_id", "no charge can be told to be a machine's", "let the export include resource ids (INCLUDE_RESOURCES)"},
		{"line_item_usage_amount", "there are no GPU hours", "add the column to the export"},
		{"line_item_usage_type", "spot and capacity reservations cannot be told apart", "add the column to the export"},
		{"line_item_usage_start_date", "charges have no hour", "add the column to the export"},
		{"product_instance_type", "the GPU model is read from the usage type, where that names it", "add the column to the export"},
	},
	"focus": {
		{"ResourceId", "no charge can be told to be a machine's", "let the export include resource ids (INCLUDE_RESOURCES)"},
		{"ConsumedQuantity", "there are no GPU hours", "add the column to the export"},
		{"Tags", "no charge has a project", "add the column to the export"},
	},
}

// columns holds the manifest's columns against what the format needs.
func (s *session) columns(d *dated) []connectors.Finding {
	f, ok := normalize.Find(d.format)
	if !ok || len(d.columns) == 0 {
		return []connectors.Finding{{Level: connectors.Warn, What: "columns", Said: "the manifest does not list them: " + d.format + " is believed", Fix: "nothing, if the files are of that format"}}
	}
	have := f.Match(d.columns)
	var lack []string
	for _, c := range f.Columns {
		if _, there := have[c.Name]; c.Required && !there {
			lack = append(lack, c.Name)
		}
	}
	if len(lack) > 0 {
		return []connectors.Finding{{Level: connectors.Fail, What: "columns", Said: d.format + " needs " + strings.Join(lack, ", ") + ", which the export leaves out", Fix: "add them to the export's column list"}}
	}
	var out []connectors.Finding
	for _, w := range wanted[f.Dataset] {
		if _, there := have[w.column]; !there {
			out = append(out, connectors.Finding{Level: connectors.Warn, What: "columns", Said: w.column + " is left out: " + w.without, Fix: w.fix})
		}
	}
	if f.Dataset == "cur" && have["resource_tags"] == "" && !slices.ContainsFunc(d.columns, func(h string) bool { _, tag := f.TagKey(h); return tag }) {
		out = append(out, connectors.Finding{Level: connectors.Warn, What: "columns", Said: "there are no tags: no charge has a project", Fix: "activate cost allocation tags in the billing console, and add resource_tags to the export"})
	}
	if len(out) == 0 {
		return []connectors.Finding{right("columns", fmt.Sprintf("%d, all that %s needs", len(d.columns), d.format))}
	}
	return out
}

func (s *session) age(d *dated) connectors.Finding {
	old := s.now().Sub(d.at)
	said := fmt.Sprintf("written %s, %.0f hours ago", d.at.UTC().Format(time.RFC3339), old.Hours())
	if old > late {
		return connectors.Finding{Level: connectors.Warn, What: "newest delivery", Said: said + ": AWS refreshes the running month at least once a day", Fix: "look at the export's status in the AWS console"}
	}
	return right("newest delivery", said)
}

func right(what, said string) connectors.Finding {
	return connectors.Finding{Level: connectors.OK, What: what, Said: said}
}

// wrong splits an error at its last semicolon: what is said, and what to do.
func wrong(level, what string, err error) connectors.Finding {
	said, fix := err.Error(), "see the message; `idlewatt pull` says the same"
	if i := strings.LastIndex(said, "; "); i > 0 {
		said, fix = said[:i], said[i+2:]
	}
	return connectors.Finding{Level: level, What: what, Said: said, Fix: fix}
}
