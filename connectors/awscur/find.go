package awscur

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/idlewatt/idlewatt/connectors"
)

// found is a billing month that the bucket holds and where its manifest should be.
type found struct {
	month   string   // YYYY-MM
	kind    string   // kindExport or kindLegacy
	folders []string // with a slash at the end; two if the partition key comes in both cases
}

var (
	// The key of the partition comes in capitals (CUR 2.0) and in small letters (FOCUS).
	partition = regexp.MustCompile(`^(?i:billing_period)=(\d{4}-(?:0[1-9]|1[0-2]))$`)
	period    = regexp.MustCompile(`^(\d{4})(0[1-9]|1[0-2])01-\d{8}$`)
)

// find lists the billing months of the export, oldest first. Only folders are listed, never
// data files. Nothing found is an error that says what to look at.
func (s *session) find(ctx context.Context) ([]found, error) {
	var all []found
	kinds := map[string]bool{}
	for _, kind := range []string{kindExport, kindLegacy} {
		if s.cfg.Kind != kindAuto && s.cfg.Kind != kind {
			continue
		}
		below := s.cfg.below()
		if kind == kindExport {
			below += "metadata/"
		}
		folders, err := s.folders(ctx, below)
		if err != nil {
			return nil, err
		}
		for _, name := range folders {
			if m := monthOf(kind, name); m != "" {
				kinds[kind] = true
				all = add(all, found{month: m, kind: kind, folders: []string{below + name + "/"}})
			}
		}
	}
	if len(kinds) > 1 {
		return nil, connectors.Permanent(fmt.Errorf("s3://%s/%s holds a data export and a legacy report of that name: write `kind: data-export` or `kind: legacy`",
			s.cfg.Bucket, s.cfg.below()))
	}
	if len(all) == 0 {
		return nil, connectors.RetryAfterError{Err: s.nothing(ctx), After: 15 * time.Minute}
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(a.month, b.month) })
	return all, nil
}

func add(all []found, f found) []found {
	for i := range all {
		if all[i].month == f.month && all[i].kind == f.kind {
			all[i].folders = append(all[i].folders, f.folders...)
			return all
		}
	}
	return append(all, f)
}

// monthOf tells the billing month of a folder by its name, or "" if it is none.
func monthOf(kind, name string) string {
	if kind == kindExport {
		if m := partition.FindStringSubmatch(name); m != nil {
			return m[1]
		}
		return ""
	}
	if m := period.FindStringSubmatch(name); m != nil {
		return m[1] + "-" + m[2]
	}
	return ""
}

// nothing says that no month was found and what there is instead.
func (s *session) nothing(ctx context.Context) error {
	said := fmt.Sprintf("there is no delivery of export %q under s3://%s/%s yet: AWS delivers the first files within 24 hours of creating an export",
		s.cfg.Export, s.cfg.Bucket, s.cfg.below())
	if seen := s.exports(ctx); len(seen) > 0 {
		said += "; under this prefix there are: " + strings.Join(seen, ", ")
	}
	return fmt.Errorf("%s; if it is older, correct bucket, prefix or export", said)
}

// exports names the folders beside the export: the exports that a person may have meant.
func (s *session) exports(ctx context.Context) []string {
	base := strings.TrimSuffix(s.cfg.below(), s.cfg.Export+"/")
	seen, err := s.folders(ctx, base)
	if err != nil {
		return nil
	}
	seen = slices.DeleteFunc(seen, func(name string) bool { return name == s.cfg.Export || name == "" })
	return seen[:min(len(seen), 20)]
}

// folders returns the names of the folders right below a prefix.
func (s *session) folders(ctx context.Context, below string) ([]string, error) {
	var out []string
	pages := s3.NewListObjectsV2Paginator(s.s3, &s3.ListObjectsV2Input{Bucket: &s.cfg.Bucket, Prefix: &below, Delimiter: aws.String("/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.failure(ctx, err, "s3:ListBucket", below)
		}
		for _, p := range page.CommonPrefixes {
			out = append(out, strings.Trim(strings.TrimPrefix(aws.ToString(p.Prefix), below), "/"))
		}
	}
	return out, nil
}

// copies returns the manifests inside a period's assembly folders with their times: what a
// legacy report has where none lies at the top.
func (s *session) copies(ctx context.Context, folder string) (keys []string, at []time.Time, err error) {
	pages := s3.NewListObjectsV2Paginator(s.s3, &s3.ListObjectsV2Input{Bucket: &s.cfg.Bucket, Prefix: &folder})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, nil, s.failure(ctx, err, "s3:ListBucket", folder)
		}
		for _, o := range page.Contents {
			if key := aws.ToString(o.Key); strings.HasSuffix(key, "/"+s.cfg.Export+"-Manifest.json") {
				keys, at = append(keys, key), append(at, aws.ToTime(o.LastModified))
			}
		}
	}
	return keys, at, nil
}
