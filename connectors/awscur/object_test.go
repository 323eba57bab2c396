package awscur

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/awscur/buckettest"
)

// noise does not compress.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

// tear ends the first n downloads of a key after so many bytes of their body.
func tear(b *buckettest.Bucket, key string, n, after int, body []byte, etag string, stall bool) *[]string {
	var ranges []string
	b.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, key) {
			return false
		}
		ranges = append(ranges, r.Header.Get("Range"))
		if len(ranges) > n {
			return false
		}
		from := 0
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		w.Header().Set("ETag", etag)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)-from))
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(body)-1, len(body)))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(body[from:min(from+after, len(body))])
		_ = http.NewResponseController(w).Flush()
		if stall {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	})
	return &ranges
}

// A download that breaks off or stalls goes on where it stopped, with the same ETag.
func TestBrokenDownloadsGoOn(t *testing.T) {
	t.Parallel()
	for name, stall := range map[string]bool{"broken": false, "stalled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := buckettest.New(t, bucket)
			body := noise(300_000)
			b.Put("big.parquet", body, delivered)
			b.Put(manifest2, list("big.parquet"), delivered)
			s := source(t, b, nil)
			s.stall = 200 * time.Millisecond
			ranges := tear(b, "big.parquet", 2, 100_000, body, etagOf(t, b, "big.parquet"), stall)
			k, _ := pulled(t, s, nil)
			d := one(t, k, 1)
			if !bytes.Equal(k.bodies[d.Objects[0].SHA256], body) {
				t.Errorf("%d bytes arrived", d.Objects[0].Size)
			}
			if len(*ranges) != 3 || (*ranges)[0] != "" || (*ranges)[1] != "bytes=100000-" {
				t.Errorf("asked for %q", *ranges)
			}
		})
	}
}

// One that never gets on is tried again later, and leaves no delivery.
func TestDownloadThatNeverGetsOn(t *testing.T) {
	t.Parallel()
	b := buckettest.New(t, bucket)
	body := noise(1000)
	b.Put("big.parquet", body, delivered)
	b.Put(manifest2, list("big.parquet"), delivered)
	s := source(t, b, nil)
	tear(b, "big.parquet", 100, 0, body, etagOf(t, b, "big.parquet"), false)
	k := &taker{}
	_, err := s.Pull(t.Context(), nil, k)
	if err == nil || connectors.IsPermanent(err) || !strings.Contains(err.Error(), "broke off at byte 0 of 1000") {
		t.Errorf("got %v", err)
	}
	none(t, k)
}

func etagOf(t *testing.T, b *buckettest.Bucket, key string) string {
	t.Helper()
	res, err := http.Head(b.URL + "/" + bucket + "/" + key)
	must(t, err)
	must(t, res.Body.Close())
	return res.Header.Get("ETag")
}

func zipped(tb testing.TB, method uint16, members map[string][]byte, order ...string) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range order {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		must(tb, err)
		_, err = f.Write(members[name])
		must(tb, err)
	}
	must(tb, w.Close())
	return b.Bytes()
}

// A zip with one CSV is archived as gzip, or plain where it was only stored.
func TestZips(t *testing.T) {
	t.Parallel()
	csv := bytes.Repeat([]byte("identity/LineItemId,lineItem/UnblendedCost\nabc,1.5\n"), 20_000)
	for name, c := range map[string]struct {
		body []byte
		as   string
		want string // of an error
	}{
		"deflate":                        {body: zipped(t, zip.Deflate, map[string][]byte{"r-1.csv": csv}, "r-1.csv"), as: "d/r-1.csv.gz"},
		"folder":                         {body: zipped(t, zip.Deflate, map[string][]byte{"r-1.csv": csv}, "x/", "r-1.csv"), as: "d/r-1.csv.gz"},
		"stored":                         {body: zipped(t, zip.Store, map[string][]byte{"r-1.csv": csv}, "r-1.csv"), as: "d/r-1.csv"},
		"several":                        {body: zipped(t, zip.Deflate, map[string][]byte{"a.csv": csv, "b.csv": csv}, "a.csv", "b.csv"), want: "several files (a.csv, b.csv"},
		"none":                           {body: zipped(t, zip.Deflate, nil), want: "without a file"},
		"cut":                            {body: zipped(t, zip.Deflate, map[string][]byte{"r-1.csv": csv}, "r-1.csv")[:500], want: "no whole zip"},
		"a stored one with a wrong byte": {body: bytes.Replace(zipped(t, zip.Store, map[string][]byte{"r-1.csv": csv}, "r-1.csv"), []byte("abc"), []byte("abd"), 1), want: "checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := buckettest.New(t, bucket)
			b.Put("d/r-1.csv.zip", c.body, delivered)
			b.Put(manifest2, list("d/r-1.csv.zip"), delivered)
			k := &taker{}
			_, err := source(t, b, nil).Pull(t.Context(), nil, k)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "2026-10") {
					t.Errorf("got %v, want %q", err, c.want)
				}
				none(t, k)
				return
			}
			must(t, err)
			o := one(t, k, 1).Objects[0]
			got := k.bodies[o.SHA256]
			if strings.HasSuffix(o.Name, ".gz") {
				r, err := gzip.NewReader(bytes.NewReader(got))
				must(t, err)
				got, err = io.ReadAll(r)
				must(t, err)
			}
			if o.Name != c.as || !bytes.Equal(got, csv) {
				t.Errorf("%s with %d bytes, want %s with %d", o.Name, len(got), c.as, len(csv))
			}
		})
	}
}

// Any order of reads through ReadAt gives the file's bytes.
func TestReadAt(t *testing.T) {
	t.Parallel()
	b := buckettest.New(t, bucket)
	body := noise(200_000)
	b.Put("f", body, delivered)
	s, err := source(t, b, nil).open(t.Context())
	must(t, err)
	t.Cleanup(s.close)
	f := file{key: "f", etag: etagOf(t, b, "f"), size: int64(len(body))}
	rapid.Check(t, func(t *rapid.T) {
		r := s.body(t.Context(), f)
		defer r.Close() //nolint:errcheck // it returns none
		want := bytes.NewReader(body)
		for range rapid.IntRange(1, 5).Draw(t, "reads") {
			off := rapid.Int64Range(0, f.size+10).Draw(t, "offset")
			n := rapid.IntRange(0, 70_000).Draw(t, "length")
			p, q := make([]byte, n), make([]byte, n)
			gn, gerr := r.ReadAt(p, off)
			wn, werr := want.ReadAt(q, off)
			if gn != wn || !bytes.Equal(p, q) || n > 0 && (gerr == nil) != (werr == nil) {
				t.Fatalf("ReadAt(%d, %d) = %d, %v; want %d, %v", n, off, gn, gerr, wn, werr)
			}
		}
	})
}
