package awscur

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// file is one listed file as it was when the delivery was looked at.
type file struct {
	key, etag string
	size      int64
	modified  time.Time
}

// maxBroken is how often in a row a download that breaks off is taken up again.
const maxBroken = 3

// body reads one version of a file, and no other: every request carries its ETag. A download
// that breaks or stalls goes on where it stopped. It holds no more than what is being read.
type body struct {
	ctx    context.Context // io.Reader has no room for it; a body lives inside one call
	s      *session
	f      file
	at     int64 // of the next byte
	rc     io.ReadCloser
	cancel context.CancelFunc
	guard  *time.Timer
	broken int
	err    error // the first error that is not mended; never io.EOF
}

func (s *session) body(ctx context.Context, f file) *body { return &body{ctx: ctx, s: s, f: f} }

func (b *body) Read(p []byte) (int, error) {
	for b.err == nil {
		if b.rc == nil {
			if b.at >= b.f.size {
				return 0, io.EOF
			}
			if b.err = b.open(); b.err != nil {
				break
			}
		}
		b.guard.Reset(b.s.stall)
		n, err := b.rc.Read(p)
		b.guard.Stop()
		b.at += int64(n)
		if n > 0 {
			b.broken = 0
		}
		switch {
		case err == nil, n > 0: // an error comes again with the next read
			return n, nil
		case errors.Is(err, io.EOF) && b.at >= b.f.size:
			return 0, io.EOF
		case b.ctx.Err() != nil:
			b.err = b.ctx.Err()
		case b.at >= b.f.size: // whole, and yet its checksum is wrong
			b.err = fmt.Errorf("reading s3://%s/%s: %w", b.s.cfg.Bucket, b.f.key, err)
		default:
			if b.broken++; b.broken > maxBroken {
				b.err = fmt.Errorf("reading s3://%s/%s: the download broke off at byte %d of %d: %w", b.s.cfg.Bucket, b.f.key, b.at, b.f.size, err)
			}
			b.shut()
		}
	}
	return 0, b.err
}

// open asks for the bytes from b.at on.
func (b *body) open() error {
	ctx, cancel := context.WithCancel(b.ctx)
	in := &s3.GetObjectInput{Bucket: &b.s.cfg.Bucket, Key: &b.f.key, IfMatch: &b.f.etag}
	if b.at > 0 {
		r := fmt.Sprintf("bytes=%d-", b.at)
		in.Range = &r
	}
	out, err := b.s.s3.GetObject(ctx, in)
	if err != nil {
		cancel()
		if status, _ := answer(err); status == http.StatusPreconditionFailed || status == http.StatusNotFound {
			return fmt.Errorf("s3://%s/%s: %w", b.s.cfg.Bucket, b.f.key, errReplaced)
		}
		said := b.s.failure(b.ctx, err, "s3:GetObject", b.f.key)
		if frozen(err) {
			return said
		}
		return refusal{said}
	}
	b.rc, b.cancel, b.guard = out.Body, cancel, time.AfterFunc(b.s.stall, cancel)
	return nil
}

// refusal is an answer that all files would get: no access, or too many requests.
type refusal struct{ error }

func (e refusal) Unwrap() error { return e.error }

func (b *body) shut() {
	if b.rc != nil {
		b.guard.Stop()
		b.cancel()
		_ = b.rc.Close() // what is left of it is not wanted
		b.rc = nil
	}
}

// Close ends the download.
func (b *body) Close() error {
	b.shut()
	return nil
}

// skippable is how many bytes are rather read than left out by a new request.
const skippable = 64 << 10

// ReadAt lets a zip's directory be read without the file on disk. Reads that follow each
// other use one download; it is not safe for several at once.
func (b *body) ReadAt(p []byte, off int64) (int, error) {
	if gap := off - b.at; b.rc == nil || gap < 0 || gap > skippable {
		b.shut()
		b.at = off
	} else if _, err := io.CopyN(io.Discard, b, gap); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(b, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}
