// Package buckettest gives tests a bucket that speaks S3, in this process and without a network:
// gofakes3, and If-Match on reads, which it does not have.
//
// What AWS answers to wrong keys, wrong regions or too many requests is not here: gofakes3
// checks nothing of the kind, so tests hand out such answers themselves.
package buckettest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is one bucket in memory.
type Bucket struct {
	Name string
	URL  string // the endpoint; buckets are in the path

	srv     *httptest.Server
	backend *s3mem.Backend
	disk    disk
	clock   gofakes3.TimeSourceAdvancer // what listings say an object's time is

	mu     sync.Mutex
	asked  []string
	before func(w http.ResponseWriter, r *http.Request) bool
}

// New starts a server with one empty bucket; it ends with the test.
func New(tb testing.TB, name string) *Bucket {
	tb.Helper()
	b := Start(name)
	tb.Cleanup(b.Close)
	return b
}

// Start starts a server with one empty bucket.
func Start(name string) *Bucket {
	clock := gofakes3.FixedTimeSource(time.Unix(0, 0).UTC())
	b := &Bucket{Name: name, backend: s3mem.New(s3mem.WithTimeSource(clock)), clock: clock}
	if err := b.backend.CreateBucket(name); err != nil {
		panic(err)
	}
	b.disk = disk{b.backend, map[string]string{}}
	b.srv = httptest.NewServer(b.watch(b.handler()))
	b.URL = b.srv.URL
	return b
}

// Close ends the server.
func (b *Bucket) Close() { b.srv.Close() }

// watch notes every request and lets a test answer it first.
func (b *Bucket) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		what := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/"+b.Name+"/")
		if p := r.URL.Query().Get("prefix"); r.URL.Query().Has("list-type") {
			what = "LIST " + p
		}
		b.asked = append(b.asked, what)
		before := b.before
		b.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Before is called before every request; it may change the bucket, or answer and return true.
func (b *Bucket) Before(f func(w http.ResponseWriter, r *http.Request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before = f
}

// Asked returns the requests since it was called last: method and key, or LIST and prefix.
func (b *Bucket) Asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.asked
	b.asked = nil
	return out
}

// Put writes an object with its time of change, of which S3 keeps whole seconds.
func (b *Bucket) Put(key string, body []byte, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock.Advance(at.Sub(b.clock.Now()))
	meta := map[string]string{"Last-Modified": at.UTC().Format(http.TimeFormat)}
	if _, err := b.backend.PutObject(b.Name, key, meta, bytes.NewReader(body), int64(len(body)), nil); err != nil {
		panic(err)
	}
}

// Delete removes an object.
func (b *Bucket) Delete(key string) {
	if _, err := b.backend.DeleteObject(b.Name, key); err != nil {
		panic(err)
	}
}

// Keys is a file of invented keys in the form of ~/.aws/credentials.
const Keys = "[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n" // AWS's example

// Credentials writes a file with Keys.
func Credentials(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "credentials")
	if err := os.WriteFile(path, []byte(Keys), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// Gzip compresses.
func Gzip(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text)
	_ = w.Close()
	return b.Bytes()
}

// IfMatch answers 412 to a GET whose If-Match is not the object's present ETag.
func IfMatch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := r.Header.Get("If-Match")
		if r.Method != http.MethodGet || want == "" {
			next.ServeHTTP(w, r)
			return
		}
		head := r.Clone(r.Context())
		head.Method = http.MethodHead
		head.Header.Del("If-Match")
		head.Header.Del("Range")
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, head)
		if got := rec.Header().Get("ETag"); rec.Code == http.StatusOK && got != want {
			Fail(w, http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Fail answers with an error document of S3.
func Fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<Error><Code>%s</Code><Message>%s</Message><RequestId>4442587FB7D0A2F9</RequestId><HostId>EXAMPLEHOSTID</HostId></Error>", code, message)
}
