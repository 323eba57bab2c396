package ingest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
)

// A file that may hold secrets is read where it lies, and what of it is left out is told.
func TestPrivateFilesAreNotArchived(t *testing.T) {
	t.Parallel()
	p := publisher(t)
	path := filepath.Join(t.TempDir(), "a.json")
	must(t, os.WriteFile(path, []byte(`{"token":"s3cret"}`), 0o600))
	got := ""
	d, err := p.Decode(t.Context(), connectors.Format{
		Private: true,
		Decode: func(_ context.Context, f connectors.File, _ connectors.Emitter) error {
			b, err := io.ReadAll(f.Body)
			got = string(b)
			f.Leave("the token")
			return err
		},
	}, "src", time.Time{}, []string{path})
	must(t, err)
	if got != `{"token":"s3cret"}` || strings.Join(d.LeftOut, ",") != "the token" {
		t.Errorf("read %q, left out %v", got, d.LeftOut)
	}
	must(t, filepath.WalkDir(p.Archive.Root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is in the archive", path)
		}
		return err
	}))
}
