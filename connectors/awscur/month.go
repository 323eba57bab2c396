package awscur

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// tries is how often a month is begun anew because its files were replaced underneath.
const tries = 3

// rewriting is how long to wait for AWS to be done with a month.
const rewriting = 5 * time.Minute

// take delivers a month if it changed since old, and returns what is now known of it and a
// line for people; an empty line means that nothing was delivered. Failures of this month
// alone are monthErrors.
func (s *session) take(ctx context.Context, f found, old month, emit connectors.Emitter) (month, string, error) {
	var err error
	for range tries {
		var next month
		var note string
		next, note, err = s.attempt(ctx, f, old, emit)
		if err == nil {
			if next.Manifest != "" && !young(f.month, s.now()) {
				next.Checked = s.now().UTC().Truncate(time.Second)
			}
			return next, note, nil
		}
		if !errors.Is(err, errReplaced) {
			return old, "", err
		}
	}
	return old, "", monthError{f.month, connectors.RetryAfterError{
		Err: fmt.Errorf("after %d tries: %w; AWS is rewriting the month, it is fetched when that is done", tries, err), After: rewriting,
	}}
}

// attempt reads manifest, files and bytes of one version of a month, or errReplaced.
func (s *session) attempt(ctx context.Context, f found, old month, emit connectors.Emitter) (month, string, error) {
	d, err := s.manifest(ctx, f, old)
	if err != nil || d == nil {
		return old, "", err
	}
	files, err := s.look(ctx, f, d)
	if err != nil {
		return old, "", err
	}
	next := month{Manifest: d.key, ETag: d.etag, Delivery: identity(files), Checked: old.Checked}
	if len(files) == 0 && old.Delivery != "" {
		return old, "", monthError{f.month, fmt.Errorf("the manifest s3://%s/%s lists no files any more: what was delivered before stays", s.cfg.Bucket, d.key)}
	}
	if next.Delivery == old.Delivery {
		return next, "", nil // the same files under a rewritten manifest
	}
	objects, err := s.fetch(ctx, f, files, emit)
	if err != nil {
		return old, "", err
	}
	err = connectors.Deliver(ctx, emit, event.BillingDelivery{
		Source: s.source, Format: d.format, Objects: objects, Version: d.at.UTC().Format(time.RFC3339Nano), Covers: []string{f.month},
		Assume: event.Assumptions{CapacityBlock: s.cfg.CapacityBlock},
	}, d.at)
	if err != nil {
		return old, "", err
	}
	return next, line(f, d, files, old), nil
}

// line says in one line what was delivered.
func line(f found, d *dated, files []file, old month) string {
	var size int64
	for _, x := range files {
		size += x.size
	}
	again := ""
	if old.Delivery != "" {
		again = ", restated"
	}
	return fmt.Sprintf("%s: %d files, %.1f MB, %s of %s%s", f.month, len(files), float64(size)/1e6, d.format, d.at.UTC().Format(time.RFC3339), again)
}

// dated is a manifest with its place and version.
type dated struct {
	listing
	key, etag string
	at        time.Time
}

// manifest reads the month's manifest. It returns nil if it is the one already known, or if
// there is none yet.
func (s *session) manifest(ctx context.Context, f found, old month) (*dated, error) {
	keys := make([]string, 0, len(f.folders))
	for _, folder := range f.folders {
		keys = append(keys, folder+s.cfg.Export+"-Manifest.json")
	}
	if len(keys) > 1 {
		newest, err := s.newest(ctx, keys)
		if err != nil || newest == "" {
			return nil, err
		}
		keys = []string{newest}
	}
	d, err := s.get(ctx, f, keys[0], old)
	if !errors.Is(err, errNone) {
		return d, err
	}
	if f.kind != kindLegacy {
		return nil, nil // no manifest yet is no error: the month is not delivered
	}
	copies, at, err := s.copies(ctx, f.folders[0])
	if err != nil || len(copies) == 0 {
		return nil, err
	}
	last := 0
	for i := range at {
		if at[i].After(at[last]) {
			last = i
		}
	}
	return s.get(ctx, f, copies[last], old)
}

// errNone says that there is no such object.
var errNone = errors.New("no such object")

// get fetches a manifest unless it is the one already known.
func (s *session) get(ctx context.Context, f found, key string, old month) (*dated, error) {
	in := &s3.GetObjectInput{Bucket: &s.cfg.Bucket, Key: &key}
	if old.Manifest == key && old.ETag != "" {
		in.IfNoneMatch = &old.ETag
	}
	out, err := s.s3.GetObject(ctx, in)
	if err != nil {
		switch status, _ := answer(err); {
		case status == http.StatusNotModified:
			return nil, nil // known
		case noKey(err):
			return nil, errNone
		}
		return nil, s.failure(ctx, err, "s3:GetObject", key)
	}
	defer out.Body.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(out.Body, maxManifest+1))
	if err != nil {
		return nil, s.failure(ctx, err, "s3:GetObject", key)
	}
	if len(text) > maxManifest {
		return nil, monthError{f.month, fmt.Errorf("s3://%s/%s is over %d MiB: that is no manifest", s.cfg.Bucket, key, maxManifest>>20)}
	}
	l, err := readManifest(text, s.cfg.Bucket, s.cfg.Format)
	if err != nil {
		return nil, monthError{f.month, connectors.Permanent(fmt.Errorf("s3://%s/%s: %w", s.cfg.Bucket, key, err))}
	}
	return &dated{listing: l, key: key, etag: aws.ToString(out.ETag), at: aws.ToTime(out.LastModified)}, nil
}

// newest returns the key of the object that was written last, or "" if there is none.
func (s *session) newest(ctx context.Context, keys []string) (string, error) {
	best, at := "", time.Time{}
	for _, key := range keys {
		out, err := s.s3.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
		if err != nil && noKey(err) {
			continue
		}
		if err != nil {
			return "", s.failure(ctx, err, "s3:GetObject", key)
		}
		if t := aws.ToTime(out.LastModified); best == "" || t.After(at) {
			best, at = key, t
		}
	}
	return best, nil
}

// noKey reports whether the object is missing; a missing bucket is another matter.
func noKey(err error) bool {
	status, _ := answer(err)
	return status == http.StatusNotFound && !strings.Contains(err.Error(), "NoSuchBucket")
}

// look asks for the state of every listed file. A file that is missing yet, or that was
// rewritten after the manifest, means that AWS is at work: the month waits.
func (s *session) look(ctx context.Context, f found, d *dated) ([]file, error) {
	var out []file
	for _, key := range d.keys {
		h, err := s.s3.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
		if err != nil && noKey(err) {
			return nil, s.waiting(f, "s3://%s/%s is listed by the manifest but is not there (yet)", s.cfg.Bucket, key)
		}
		if err != nil {
			return nil, s.failure(ctx, err, "s3:GetObject", key)
		}
		x := file{key: key, etag: aws.ToString(h.ETag), size: aws.ToInt64(h.ContentLength), modified: aws.ToTime(h.LastModified)}
		if x.modified.After(d.at.Add(skew)) && s.now().Sub(x.modified) < settled {
			return nil, s.waiting(f, "s3://%s/%s is newer than its manifest: AWS has begun to rewrite the month", s.cfg.Bucket, key)
		}
		out = append(out, x)
	}
	return out, nil
}

// A file is written before its manifest. One that is newer belongs to the next delivery, and
// together with the others it would be half of each, unless it lies still for so long that
// the bucket was copied in another order.
const (
	skew    = time.Minute
	settled = time.Hour
)

func (s *session) waiting(f found, format string, args ...any) error {
	return monthError{f.month, connectors.RetryAfterError{Err: fmt.Errorf(format+"; the month waits for it, what was delivered before stays", args...), After: rewriting}}
}

// identity is what a delivery is known by: its keys, sorted, with their ETags. No files: "".
func identity(files []file) string {
	if len(files) == 0 {
		return ""
	}
	h := sha256.New()
	for _, f := range files { // sorted, as the manifest's keys are
		fmt.Fprintf(h, "%s\x00%s\n", f.key, f.etag)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// fetch archives the files, one after the other. Two of the same bytes are both delivered: the
// store takes them if they have no rows, and refuses to count rows twice.
func (s *session) fetch(ctx context.Context, f found, files []file, emit connectors.Emitter) ([]event.Object, error) {
	var out []event.Object
	for _, x := range files {
		o, err := s.download(ctx, x, emit)
		if err != nil {
			return nil, s.ofMonth(ctx, f, err)
		}
		out = append(out, o)
	}
	return out, nil
}

// ofMonth keeps what concerns every month (no access, too many requests) apart from what is
// wrong with the files of one.
func (s *session) ofMonth(ctx context.Context, f found, err error) error {
	var all refusal
	if ctx.Err() != nil || errors.Is(err, errReplaced) || errors.As(err, &all) {
		return err
	}
	return monthError{f.month, err}
}

func (s *session) download(ctx context.Context, x file, emit connectors.Emitter) (event.Object, error) {
	b := s.body(ctx, x)
	defer b.Close() //nolint:errcheck // it returns none
	var r io.Reader = b
	name := x.key
	if strings.HasSuffix(strings.ToLower(x.key), ".zip") {
		var err error
		if name, r, err = unpack(b); err != nil {
			return event.Object{}, err
		}
	}
	o, err := emit.Archive(ctx, name, r)
	if b.err != nil {
		return o, b.err // as AWS said it, not as the archive saw it
	}
	return o, err
}
