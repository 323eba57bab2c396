package awscur

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/awscur/buckettest"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
	"github.com/idlewatt/idlewatt/schema/event"
)

const bucket = "gpuorg-billing"

// The tests are run at noon of 2 November 2026, six hours after the sample was delivered.
var (
	today     = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	delivered = time.Date(2026, 11, 1, 6, 15, 0, 0, time.UTC)
)

const (
	data2     = "exports/gpuorg-cur2/data/BILLING_PERIOD=2026-10/gpuorg-cur2-00001.csv.gz"
	manifest2 = "exports/gpuorg-cur2/metadata/BILLING_PERIOD=2026-10/gpuorg-cur2-Manifest.json"
)

func sample(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	must(tb, err)
	return b
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// export is a bucket with the sample month as a CUR 2.0 export has it.
func export(t *testing.T) *buckettest.Bucket {
	t.Helper()
	b := buckettest.New(t, bucket)
	b.Put(data2, buckettest.Gzip(sample(t, "aws_cur2.csv")), delivered.Add(-time.Minute))
	b.Put(manifest2, sample(t, "aws_cur2_manifest.json"), delivered)
	return b
}

// columns2 are the columns of a manifest that make it a CUR 2.0 export.
var columns2 = []map[string]string{
	{"name": "bill_payer_account_name", "type": "string"}, {"name": "line_item_line_item_type", "type": "string"}, {"name": "line_item_unblended_cost", "type": "double"},
}

// list is a manifest of Data Exports for these files.
func list(files ...string) []byte {
	if files == nil {
		files = []string{}
	}
	b, err := json.Marshal(map[string]any{"columns": columns2, "dataFiles": files, "executionId": "x", "additionalOutputFiles": []string{}, "later": map[string]int{"a": 1}})
	if err != nil {
		panic(err)
	}
	return b
}

// source builds the connector on a bucket; it retries at once.
func source(t *testing.T, b *buckettest.Bucket, change func(*Config)) *connector {
	t.Helper()
	cfg := &Config{
		Bucket: bucket, Prefix: "exports", Export: "gpuorg-cur2", Kind: kindAuto, PathStyle: true,
		Config: awsapi.Config{Region: "eu-west-1", CredentialsFile: buckettest.Credentials(t), Endpoint: b.URL},
	}
	if change != nil {
		change(cfg)
	}
	must(t, cfg.Validate())
	made, err := Factory().New("payer", cfg)
	must(t, err)
	c := made.(*connector)
	c.now = func() time.Time { return today }
	c.tune = quick
	return c
}

// quick lets the SDK try three times without pauses.
func quick(cfg *aws.Config) {
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	}
}

// taker is an emitter that keeps everything, progress included.
type taker struct {
	deliveries []event.BillingDelivery
	at         []time.Time
	bodies     map[string][]byte // by SHA-256
	saved      connectors.Cursor
	lines      []string
	refuse     int // the event that is refused, from 1
}

var errRefused = errors.New("the bus does not take it")

func (k *taker) Event(_ context.Context, e event.Event) error {
	if k.refuse == len(k.deliveries)+1 {
		return errRefused
	}
	var d event.BillingDelivery
	if err := e.Decode(&d); err != nil {
		return err
	}
	k.deliveries, k.at = append(k.deliveries, d), append(k.at, e.Time)
	return nil
}

func (k *taker) Archive(_ context.Context, name string, r io.Reader) (event.Object, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return event.Object{}, fmt.Errorf("archiving %s: %w", name, err)
	}
	sum := sha256.Sum256(b)
	o := event.Object{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(b)), Name: name, Encoding: "csv", Compression: "none"}
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		o.Compression = "gzip"
	}
	if k.bodies == nil {
		k.bodies = map[string][]byte{}
	}
	k.bodies[o.SHA256] = b
	return o, nil
}

func (k *taker) Save(_ context.Context, cur connectors.Cursor) error {
	k.saved = bytes.Clone(cur)
	return nil
}

func (k *taker) Progress(_ context.Context, line string) { k.lines = append(k.lines, line) }

// pulled pulls once and wants no error.
func pulled(t *testing.T, c *connector, cur connectors.Cursor) (*taker, connectors.Cursor) {
	t.Helper()
	k := &taker{}
	next, err := c.Pull(t.Context(), cur, k)
	must(t, err)
	return k, next
}

// one wants exactly one delivery of so many files.
func one(t *testing.T, k *taker, files int) event.BillingDelivery {
	t.Helper()
	if len(k.deliveries) != 1 {
		t.Fatalf("%d deliveries, want 1", len(k.deliveries))
	}
	if n := len(k.deliveries[0].Objects); n != files {
		t.Fatalf("%d files, want %d: %+v", n, files, k.deliveries[0].Objects)
	}
	return k.deliveries[0]
}

func none(t *testing.T, k *taker) {
	t.Helper()
	if len(k.deliveries) > 0 {
		t.Errorf("delivered although nothing is new: %+v", k.deliveries)
	}
}

// without returns what was asked of the bucket, listings left out.
func without(asked []string) []string {
	var out []string
	for _, a := range asked {
		if !strings.HasPrefix(a, "LIST ") {
			out = append(out, a)
		}
	}
	return out
}

// once runs f before the first request that fits.
func once(b *buckettest.Bucket, method, key string, f func()) {
	done := false
	b.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if !done && r.Method == method && strings.HasSuffix(r.URL.Path, "/"+key) {
			done = true
			f()
		}
		return false
	})
}
