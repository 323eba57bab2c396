package awscur

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/idlewatt/idlewatt/schema/normalize"
)

// maxManifest bounds a manifest; one of a thousand files and columns has some 200 KB.
const maxManifest = 32 << 20

// manifest is what is read of both kinds of manifests; other fields may come and go.
//
// Legacy (seen in public code): columns of category and name, bucket, reportKeys relative to
// the bucket. Data Exports (AWS publishes no schema): columns of name and type, dataFiles as
// s3:// URIs or relative keys. The billing month is told by the manifest's own key.
type manifest struct {
	Columns []struct {
		Category string `json:"category"`
		Name     string `json:"name"`
	} `json:"columns"`
	Bucket     string   `json:"bucket"`
	DataFiles  []string `json:"dataFiles"`
	ReportKeys []string `json:"reportKeys"`
}

// listing is a manifest that was read: the files of one delivery and their format.
type listing struct {
	keys    []string // sorted, each once
	columns []string // under the names that files carry; none where the manifest does not say
	format  string
}

// readManifest reads a manifest that lies in bucket. format overrides what the columns say.
// An empty list of files is no error.
func readManifest(text []byte, bucket, format string) (listing, error) {
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return listing{}, fmt.Errorf("the manifest is no such JSON as AWS writes: %w", err)
	}
	if m.Bucket != "" && m.Bucket != bucket {
		return listing{}, foreign(m.Bucket, bucket)
	}
	if m.DataFiles == nil && m.ReportKeys == nil {
		return listing{}, errors.New("the manifest has neither dataFiles nor reportKeys: it is of no known kind of export")
	}
	var l listing
	for _, uri := range append(m.DataFiles, m.ReportKeys...) {
		key, err := keyOf(uri, bucket)
		if err != nil {
			return listing{}, err
		}
		l.keys = append(l.keys, key)
	}
	slices.Sort(l.keys)
	l.keys = slices.Compact(l.keys)
	var err error
	l.columns = m.header()
	l.format, err = formatOf(l.columns, format)
	return l, err
}

// keyOf returns the key of a file that a manifest names by URI or by key.
func keyOf(uri, bucket string) (string, error) {
	key := uri
	if scheme, rest, ok := strings.Cut(uri, "://"); ok {
		var other string
		other, key, _ = strings.Cut(rest, "/")
		switch {
		case scheme != "s3":
			return "", fmt.Errorf("the manifest lists %q: want s3:// or a key", uri)
		case other != bucket:
			return "", foreign(other, bucket)
		}
	}
	if key == "" || strings.HasSuffix(key, "/") {
		return "", fmt.Errorf("the manifest lists %q, which names no file", uri)
	}
	return key, nil
}

func foreign(other, bucket string) error {
	return fmt.Errorf("the manifest lists files of bucket %q, not of %q: files of another bucket are not read; "+
		"if that is where the export is delivered, write `bucket: %s`", other, bucket, other)
}

// header returns the columns under the names that files carry: group/name in legacy reports.
func (m manifest) header() []string {
	var out []string
	for _, c := range m.Columns {
		name := c.Name
		if c.Category != "" {
			name = c.Category + "/" + c.Name
		}
		out = append(out, name)
	}
	return out
}

func formatOf(header []string, said string) (string, error) {
	if said != "" {
		return said, nil
	}
	if len(header) == 0 {
		return "", fmt.Errorf("the manifest lists no columns, so the format cannot be told: write `format:` with one of %s", strings.Join(formats(), ", "))
	}
	f, ok := normalize.Guess(header)
	switch {
	case ok && f.Name == "focus": // a column list without the columns of AWS's own
		return "aws-focus", nil
	case ok && slices.Contains(formats(), f.Name):
		return f.Name, nil
	}
	return "", fmt.Errorf("the columns of the manifest (%d: %s, ...) are of no known AWS export; "+
		"the export needs at least the columns that idlewatt requires, see `idlewatt import --help`", len(header), strings.Join(header[:min(len(header), 4)], ", "))
}
