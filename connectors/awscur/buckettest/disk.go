package buckettest

import (
	"crypto/md5"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// disk is a backend some of whose objects are files: large ones need no memory.
type disk struct {
	*s3mem.Backend
	files map[string]string // path by key
}

// PutFile lets an object have a file's bytes. It is for the time before the first request.
func (b *Bucket) PutFile(key, path string, at time.Time) {
	b.Put(key, []byte(path), at) // the placeholder is what listings see
	b.disk.files[key] = path
}

// HeadObject answers for a file by its path and size.
func (d disk) HeadObject(bucket, key string) (*gofakes3.Object, error) {
	o, err := d.Backend.HeadObject(bucket, key)
	path, ok := d.files[key]
	if err != nil || !ok {
		return o, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	sum := md5.Sum([]byte(path))
	o.Size, o.Hash = st.Size(), sum[:]
	return o, nil
}

// GetObject opens the file.
func (d disk) GetObject(bucket, key string, wanted *gofakes3.ObjectRangeRequest) (*gofakes3.Object, error) {
	path, ok := d.files[key]
	if !ok {
		return d.Backend.GetObject(bucket, key, wanted)
	}
	o, err := d.HeadObject(bucket, key)
	if err != nil {
		return nil, err
	}
	if o.Range, err = wanted.Range(o.Size); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	o.Contents = f
	if o.Range != nil {
		if _, err := f.Seek(o.Range.Start, io.SeekStart); err != nil {
			return nil, err
		}
		o.Contents = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(f, o.Range.Length), f}
	}
	return o, nil
}

func (b *Bucket) handler() http.Handler { return IfMatch(gofakes3.New(b.disk).Server()) }
