package awscur

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors/awscur/buckettest"
)

// The legacy report lies in the period's folder, or, if it keeps old versions, in a folder per
// version whose copies are only read where the period's folder has none.
func TestLegacyReports(t *testing.T) {
	t.Parallel()
	text := sample(t, "aws_cur_legacy_manifest.json")
	const file = "cur/gpuorg-cur/20261001-20261101/20261101T061500Z/gpuorg-cur-00001.csv.gz"
	other := bytes.Replace(text, []byte("20261101T061500Z/gpuorg-cur-00001"), []byte("20261020T000000Z/gpuorg-cur-00001"), 1)
	for name, c := range map[string]struct {
		manifests map[string][]byte
	}{
		"at the top":                  {map[string][]byte{"gpuorg-cur-Manifest.json": text}},
		"copies beside the top":       {map[string][]byte{"gpuorg-cur-Manifest.json": text, "20261020T000000Z/gpuorg-cur-Manifest.json": other}},
		"copies only, the newest one": {map[string][]byte{"20261020T000000Z/gpuorg-cur-Manifest.json": other, "20261101T061500Z/gpuorg-cur-Manifest.json": text}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := buckettest.New(t, bucket)
			b.Put(file, buckettest.Gzip(sample(t, "aws_cur_legacy.csv")), delivered)
			for at, text := range c.manifests {
				when := delivered
				if bytes.Equal(text, other) {
					when = delivered.AddDate(0, 0, -12)
				}
				b.Put("cur/gpuorg-cur/20261001-20261101/"+at, text, when)
			}
			s := source(t, b, func(c *Config) { c.Prefix, c.Export = "/cur/", "gpuorg-cur" })
			k, cur := pulled(t, s, nil)
			if d := one(t, k, 1); d.Format != "aws-cur-legacy" || d.Covers[0] != "2026-10" || d.Objects[0].Name != file {
				t.Errorf("delivery %+v", d)
			}
			k, _ = pulled(t, s, cur)
			none(t, k)
		})
	}
}

// Legacy Parquet lies outside the period's folder; the manifest says where.
func TestLegacyParquetLayout(t *testing.T) {
	t.Parallel()
	b := buckettest.New(t, bucket)
	const file = "cur/gpuorg-cur/gpuorg-cur/year=2026/month=10/gpuorg-cur-00001.snappy.parquet"
	b.Put(file, []byte("PAR1 and more PAR1"), delivered)
	b.Put("cur/gpuorg-cur/20261001-20261101/gpuorg-cur-Manifest.json", fmt.Appendf(nil,
		`{"columns":[{"category":"lineItem","name":"LineItemType"},{"category":"lineItem","name":"UnblendedCost"}],"bucket":%q,"reportKeys":[%q]}`, bucket, file), delivered)
	k, _ := pulled(t, source(t, b, func(c *Config) { c.Prefix, c.Export = "cur", "gpuorg-cur" }), nil)
	if d := one(t, k, 1); d.Objects[0].Name != file || d.Format != "aws-cur-legacy" {
		t.Errorf("delivery %+v", d)
	}
}

// The partition key is written in both cases; both of one month are one month, newest first.
func TestPartitionKeyInBothCases(t *testing.T) {
	t.Parallel()
	b := buckettest.New(t, bucket)
	small := "exports/gpuorg-cur2/metadata/billing_period=2026-10/gpuorg-cur2-Manifest.json"
	b.Put("f1.csv", []byte("a\n1\n"), delivered)
	b.Put("f2.csv", []byte("a\n2\n"), delivered)
	b.Put(small, list("f2.csv"), delivered)
	s := source(t, b, nil)
	k, cur := pulled(t, s, nil)
	if d := one(t, k, 1); d.Covers[0] != "2026-10" || d.Objects[0].Name != "f2.csv" {
		t.Errorf("delivery %+v", d)
	}
	b.Put(manifest2, list("f1.csv"), delivered.Add(time.Hour))
	k, _ = pulled(t, s, cur)
	if d := one(t, k, 1); d.Objects[0].Name != "f1.csv" {
		t.Errorf("delivery %+v", d)
	}
}
