package main

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/idlewatt/idlewatt/connectors/awscur/buckettest"
)

// buckets are those of the scripts that run, by their data directory.
var buckets sync.Map

// bucket runs a bucket that speaks S3: `bucket start NAME CONFIG...` puts its address and a
// file of keys where the files say ENDPOINT and KEYS; `bucket put KEY FILE TIME` writes an object,
// compressed if the key says .gz; `bucket delete KEY`.
func bucket(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: bucket start NAME CONFIG... | put KEY FILE TIME | delete KEY")
	}
	at := ts.MkAbs(".")
	if args[0] == "start" {
		b := buckettest.Start(args[1])
		buckets.Store(at, b)
		ts.Defer(func() {
			b.Close()
			buckets.Delete(at)
		})
		ts.Check(os.WriteFile(ts.MkAbs("keys"), []byte(buckettest.Keys), 0o600))
		for _, file := range args[2:] {
			text := strings.NewReplacer("ENDPOINT", b.URL, "KEYS", ts.MkAbs("keys")).Replace(ts.ReadFile(file))
			ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o600))
		}
		return
	}
	v, ok := buckets.Load(at)
	if !ok {
		ts.Fatalf("bucket: none was started")
	}
	b := v.(*buckettest.Bucket)
	if args[0] == "delete" {
		b.Delete(args[1])
		return
	}
	body, err := os.ReadFile(ts.MkAbs(args[2]))
	ts.Check(err)
	if strings.HasSuffix(args[1], ".gz") {
		body = buckettest.Gzip(body)
	}
	when, err := time.Parse(time.RFC3339, args[3])
	ts.Check(err)
	b.Put(args[1], bytes.Clone(body), when)
}
