package awscur

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/awscur/buckettest"
)

// A month is delivered with its files, format, version and the month it is whole for.
func TestSampleMonth(t *testing.T) {
	t.Parallel()
	b := export(t)
	k, _ := pulled(t, source(t, b, nil), nil)
	d := one(t, k, 1)
	if d.Format != "aws-cur2" || d.Source != "payer" || d.Version != "2026-11-01T06:15:00Z" || !slices.Equal(d.Covers, []string{"2026-10"}) {
		t.Errorf("delivery %+v", d)
	}
	if d.Objects[0].Name != data2 || !k.at[0].Equal(delivered) {
		t.Errorf("file %s at %v", d.Objects[0].Name, k.at[0])
	}
	if want := []string{"2026-10: 1 files, 0.0 MB, aws-cur2 of 2026-11-01T06:15:00Z"}; !slices.Equal(k.lines, want) {
		t.Errorf("progress %q", k.lines)
	}
}

// Only what the manifest lists is read: no stale chunk, no old execution, no copy of a manifest.
func TestOnlyTheManifestCounts(t *testing.T) {
	t.Parallel()
	b := export(t)
	const data = "exports/gpuorg-cur2/data/BILLING_PERIOD=2026-10/"
	run := "2026-10-20T01:02:03.000Z-dddddddd-0000-4000-8000-000000000004/"
	b.Put(data+"gpuorg-cur2-00002.csv.gz", buckettest.Gzip([]byte("stale")), delivered.AddDate(0, 0, -2))
	b.Put(data+run+"gpuorg-cur2-00001.csv.gz", buckettest.Gzip([]byte("old run")), delivered.AddDate(0, 0, -2))
	b.Put("exports/gpuorg-cur2/metadata/BILLING_PERIOD=2026-10/"+run+"gpuorg-cur2-Manifest.json",
		list(data+run+"gpuorg-cur2-00001.csv.gz"), delivered.Add(time.Hour))
	k, _ := pulled(t, source(t, b, nil), nil)
	if d := one(t, k, 1); d.Objects[0].Name != data2 {
		t.Errorf("read %s", d.Objects[0].Name)
	}
	for _, a := range b.Asked() {
		if strings.Contains(a, "00002") || strings.Contains(a, "2026-10-20T01") || strings.HasPrefix(a, "LIST exports/gpuorg-cur2/data") {
			t.Errorf("asked for %s", a)
		}
	}
}

// Create-new exports write every run into a folder of its own; the manifest of the partition
// says which one counts.
func TestCreateNewExports(t *testing.T) {
	t.Parallel()
	b := buckettest.New(t, bucket)
	file := "exports/gpuorg-cur2/data/BILLING_PERIOD=2026-10/2026-11-01T06:00:00.000Z-d/gpuorg-cur2-00001.csv.gz"
	b.Put(file, buckettest.Gzip([]byte("a\n1\n")), delivered)
	b.Put(manifest2, list("s3://"+bucket+"/"+file), delivered)
	k, _ := pulled(t, source(t, b, nil), nil)
	if d := one(t, k, 1); d.Objects[0].Name != file {
		t.Errorf("read %s", d.Objects[0].Name)
	}
}

// Chunks are whole files; keys come as URIs and relative to the bucket, and twice is once.
func TestChunksAndKeyForms(t *testing.T) {
	t.Parallel()
	b := buckettest.New(t, bucket)
	b.Put("d/2.csv.gz", buckettest.Gzip([]byte("a\n2\n")), delivered)
	b.Put("d/1.csv.gz", buckettest.Gzip([]byte("a\n1\n")), delivered)
	b.Put(manifest2, list("s3://"+bucket+"/d/2.csv.gz", "d/1.csv.gz", "d/2.csv.gz"), delivered)
	k, _ := pulled(t, source(t, b, nil), nil)
	d := one(t, k, 2)
	if d.Objects[0].Name != "d/1.csv.gz" || d.Objects[1].Name != "d/2.csv.gz" {
		t.Errorf("files %+v", d.Objects)
	}
}

func TestForeignBucketIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string][]byte{
		"uri":    list("s3://another-bucket/d/1.csv.gz"),
		"legacy": []byte(`{"bucket":"another-bucket","columns":[{"category":"lineItem","name":"LineItemType"}],"reportKeys":["d/1.csv.gz"]}`),
	} {
		b := buckettest.New(t, bucket)
		b.Put("d/1.csv.gz", buckettest.Gzip([]byte("a\n1\n")), delivered)
		b.Put(manifest2, text, delivered)
		k := &taker{}
		_, err := source(t, b, nil).Pull(t.Context(), nil, k)
		if err == nil || !connectors.IsPermanent(err) || !strings.Contains(err.Error(), `"another-bucket"`) || !strings.Contains(err.Error(), "2026-10") {
			t.Errorf("%s: %v", name, err)
		}
		none(t, k)
	}
}

// An unchanged manifest costs one request; a rewritten one with the same files no download.
func TestUnchangedMonths(t *testing.T) {
	t.Parallel()
	b := export(t)
	s := source(t, b, nil)
	_, cur := pulled(t, s, nil)
	b.Asked()
	k, same := pulled(t, s, cur)
	none(t, k)
	if asked := without(b.Asked()); !slices.Equal(asked, []string{"GET " + manifest2}) || string(same) != string(cur) {
		t.Errorf("asked %q, cursor %s", asked, same)
	}
	b.Put(manifest2, append(sample(t, "aws_cur2_manifest.json"), ' '), delivered.Add(time.Hour))
	k, next := pulled(t, s, cur)
	none(t, k)
	if asked := without(b.Asked()); !slices.Equal(asked, []string{"GET " + manifest2, "HEAD " + data2}) || string(next) == string(cur) {
		t.Errorf("asked %q, cursor %s", asked, next)
	}
	k, _ = pulled(t, s, next)
	none(t, k)
	if asked := without(b.Asked()); len(asked) != 1 {
		t.Errorf("asked %q", asked)
	}
}

// A restated month is a delivery of its own, with a later version.
func TestRestatedMonth(t *testing.T) {
	t.Parallel()
	b := export(t)
	s := source(t, b, nil)
	k, cur := pulled(t, s, nil)
	first := one(t, k, 1)
	b.Put(data2, buckettest.Gzip([]byte("restated")), today.Add(-2*time.Hour))
	b.Put(manifest2, append(sample(t, "aws_cur2_manifest.json"), ' '), today.Add(-2*time.Hour))
	k, _ = pulled(t, s, cur)
	d := one(t, k, 1)
	if d.Version <= first.Version || d.Delivery == first.Delivery || !strings.HasSuffix(k.lines[0], ", restated") {
		t.Errorf("%s, then %s: %q", first.Version, d.Version, k.lines)
	}
}

// A file that is replaced between HEAD and GET: nothing of the old attempt counts, the month
// is begun anew at the manifest. If that never ends, the pull waits.
func TestReplacedWhileRead(t *testing.T) {
	t.Parallel()
	b := export(t)
	s := source(t, b, nil)
	fresh := buckettest.Gzip([]byte("restated"))
	once(b, http.MethodGet, data2, func() {
		b.Put(data2, fresh, today.Add(-time.Minute))
		b.Put(manifest2, append(sample(t, "aws_cur2_manifest.json"), ' '), today)
	})
	k, _ := pulled(t, s, nil)
	d := one(t, k, 1)
	if !bytes.Equal(k.bodies[d.Objects[0].SHA256], fresh) || d.Version != "2026-11-02T12:00:00Z" {
		t.Errorf("delivered %+v", d)
	}
	if asked := without(b.Asked()); len(asked) != 6 {
		t.Errorf("asked %q", asked)
	}
	n := 0
	b.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "csv.gz") {
			n++
			b.Put(data2, fmt.Append(nil, n), today)
		}
		return false
	})
	k = &taker{}
	cur, err := s.Pull(t.Context(), nil, k)
	if after, ok := connectors.RetryAfter(err); !ok || after <= 0 || n != tries || cur != nil || !strings.Contains(err.Error(), data2) {
		t.Errorf("after %d downloads: %v, cursor %s", n, err, cur)
	}
	none(t, k)
}

// A file that was rewritten after its manifest belongs to the next delivery: the month waits,
// unless the file lies still, as in a bucket that was copied.
func TestFilesNewerThanTheirManifest(t *testing.T) {
	t.Parallel()
	b := export(t)
	s := source(t, b, nil)
	b.Put(data2, buckettest.Gzip([]byte("half of the next delivery")), today.Add(-10*time.Minute))
	k := &taker{}
	if _, err := s.Pull(t.Context(), nil, k); err == nil || connectors.IsPermanent(err) || !strings.Contains(err.Error(), "newer than its manifest") {
		t.Errorf("got %v", err)
	}
	none(t, k)
	s.now = func() time.Time { return today.Add(2 * time.Hour) }
	k, _ = pulled(t, s, nil)
	one(t, k, 1)
}

// A listed file that is missing: no delivery, the error names it, other months go on and the
// state of before stays.
func TestMissingFileHoldsUpItsMonthOnly(t *testing.T) {
	t.Parallel()
	b := export(t)
	b.Put("f.csv", []byte("a\n1\n"), delivered)
	for _, m := range []string{"2026-09", "2026-11"} {
		b.Put(strings.Replace(manifest2, "2026-10", m, 1), list("f.csv"), delivered)
	}
	b.Delete(data2)
	s := source(t, b, nil)
	k := &taker{}
	cur, err := s.Pull(t.Context(), nil, k)
	if after, ok := connectors.RetryAfter(err); !ok || after <= 0 || !strings.Contains(err.Error(), data2) {
		t.Errorf("got %v", err)
	}
	if len(k.deliveries) != 2 || string(cur) != string(k.saved) || strings.Contains(string(cur), "2026-10") {
		t.Errorf("%d deliveries, cursor %s", len(k.deliveries), cur)
	}
	b.Put(data2, buckettest.Gzip([]byte("there")), delivered)
	k, _ = pulled(t, s, cur)
	if d := one(t, k, 1); d.Covers[0] != "2026-10" {
		t.Errorf("delivery %+v", d)
	}
}

// A pull that breaks off goes on at the month it stopped at; nothing is skipped or told twice.
func TestBackfillGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	b := buckettest.New(t, bucket)
	var want []string
	for m := range 9 {
		month := fmt.Sprintf("2026-%02d", m+1)
		b.Put(month+".csv", []byte(month), delivered)
		b.Put(strings.Replace(manifest2, "2026-10", month, 1), list(month+".csv"), delivered)
		if month >= "2026-03" {
			want = append(want, month)
		}
	}
	s := source(t, b, func(c *Config) { c.Since = "2026-03" })
	var got []string
	var cur connectors.Cursor
	for range 20 {
		k := &taker{refuse: 3}
		next, err := s.Pull(t.Context(), cur, k)
		for _, d := range k.deliveries {
			got = append(got, d.Covers[0])
		}
		if err == nil {
			break
		}
		if !errors.Is(err, errRefused) || connectors.IsPermanent(err) || string(next) != string(k.saved) {
			t.Fatalf("%v, cursor %s, saved %s", err, next, k.saved)
		}
		cur = k.saved
	}
	if !slices.Equal(got, want) {
		t.Errorf("delivered %v, want %v", got, want)
	}
}

// Older months are looked at once a week, and a late correction of one is delivered.
func TestOlderMonthsAreLookedAtWeekly(t *testing.T) {
	t.Parallel()
	b := buckettest.New(t, bucket)
	at := strings.Replace(manifest2, "2026-10", "2026-07", 1)
	b.Put("f.csv", []byte("a\n1\n"), delivered)
	b.Put(at, list("f.csv"), delivered)
	s := source(t, b, nil)
	_, cur := pulled(t, s, nil)
	b.Put("f.csv", []byte("a\n2\n"), delivered)
	b.Put(at, append(list("f.csv"), ' '), delivered.Add(time.Hour))
	k, cur2 := pulled(t, s, cur)
	none(t, k)
	if string(cur2) != string(cur) {
		t.Errorf("cursor %s", cur2)
	}
	s.now = func() time.Time { return today.Add(recheck) }
	k, cur = pulled(t, s, cur)
	one(t, k, 1)
	var c cursor
	must(t, json.Unmarshal(cur, &c))
	if !c.Months["2026-07"].Checked.Equal(today.Add(recheck)) {
		t.Errorf("cursor %s", cur)
	}
}

// Another bucket or export under the same source begins anew.
func TestCursorOfAnotherExport(t *testing.T) {
	t.Parallel()
	b := export(t)
	k, _ := pulled(t, source(t, b, nil), connectors.Cursor(`{"of":"elsewhere/","months":{"2026-10":{"manifest":"m","etag":"e","delivery":"d"}}}`))
	one(t, k, 1)
}

// What is believed of the bill is another reading of the same files.
func TestCapacityBlockIsAnotherReading(t *testing.T) {
	t.Parallel()
	b := export(t)
	_, cur := pulled(t, source(t, b, nil), nil)
	k, _ := pulled(t, source(t, b, func(c *Config) { c.CapacityBlock = "CapacityBlock" }), cur)
	if d := one(t, k, 1); d.Assume.CapacityBlock != "CapacityBlock" {
		t.Errorf("delivery %+v", d)
	}
}

// A manifest without files brings no delivery, and never takes away what was delivered.
func TestManifestWithoutFiles(t *testing.T) {
	t.Parallel()
	b := buckettest.New(t, bucket)
	b.Put(manifest2, list(), delivered)
	s := source(t, b, nil)
	k, cur := pulled(t, s, nil)
	none(t, k)
	b.Put("f.csv", []byte("a\n1\n"), delivered)
	b.Put(manifest2, list("f.csv"), delivered)
	k, cur = pulled(t, s, cur)
	one(t, k, 1)
	b.Put(manifest2, list(), delivered)
	k = &taker{}
	if _, err := s.Pull(t.Context(), cur, k); err == nil || !strings.Contains(err.Error(), "no files any more") {
		t.Errorf("got %v", err)
	}
	none(t, k)
}

// Where nothing was delivered yet, the error says what there is.
func TestNothingThereYet(t *testing.T) {
	t.Parallel()
	b := export(t)
	_, err := source(t, b, func(c *Config) { c.Export = "gpuorg-cru2" }).Pull(t.Context(), nil, &taker{})
	if _, ok := connectors.RetryAfter(err); !ok || !strings.Contains(err.Error(), "24 hours") || !strings.Contains(err.Error(), "gpuorg-cur2") {
		t.Errorf("got %v", err)
	}
}

func TestBothKindsOfOneName(t *testing.T) {
	t.Parallel()
	b := export(t)
	b.Put("exports/gpuorg-cur2/20261001-20261101/gpuorg-cur2-Manifest.json", list(data2), delivered)
	_, err := source(t, b, nil).Pull(t.Context(), nil, &taker{})
	if !connectors.IsPermanent(err) || !strings.Contains(err.Error(), "kind: legacy") {
		t.Errorf("got %v", err)
	}
	k, _ := pulled(t, source(t, b, func(c *Config) { c.Kind = kindExport }), nil)
	one(t, k, 1)
}

// A pull that is called off says so, and nothing else.
func TestCancelledPull(t *testing.T) {
	t.Parallel()
	b := export(t)
	ctx, cancel := context.WithCancel(t.Context())
	once(b, http.MethodGet, filepath.Base(data2), cancel)
	if _, err := source(t, b, nil).Pull(ctx, nil, &taker{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
