package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// Doctor looks whether the folder has files, whether they can be read and whether the newest
// is what the configuration says.
func (c *connector) Doctor(context.Context) []connectors.Finding {
	fail := func(what, said, fix string) []connectors.Finding {
		return []connectors.Finding{{Level: connectors.Fail, What: what, Said: said, Fix: fix}}
	}
	paths, err := filepath.Glob(c.cfg.Path)
	if err != nil || len(paths) == 0 {
		return fail("files "+c.cfg.Path, "none matches", "put bills there, or correct `path:`; a glob does not descend into folders")
	}
	_, newest, err := c.look(paths)
	if err != nil {
		return fail("files "+c.cfg.Path, err.Error(), "let the user that runs idlewatt read them")
	}
	last := paths[len(paths)-1]
	f, err := os.Open(last)
	if err != nil {
		return fail(last, err.Error(), "let the user that runs idlewatt read it")
	}
	if err := f.Close(); err != nil {
		return fail(last, err.Error(), "let the user that runs idlewatt read it")
	}
	said := fmt.Sprintf("%d files, the newest of %s", len(paths), newest.UTC().Format(time.RFC3339))
	h, err := normalize.ReadHeader(last, object(last))
	if err != nil {
		return fail(last, err.Error(), "see whether the file is complete and a bill")
	}
	if g, ok := normalize.Guess(h.Names()); !ok || g.Name != c.cfg.Format {
		return []connectors.Finding{{
			Level: connectors.Warn, What: last, Said: fmt.Sprintf("its header does not look like %s", c.cfg.Format),
			Fix: "see whether `format:` is right",
		}}
	}
	return []connectors.Finding{{Level: connectors.OK, What: "files " + c.cfg.Path, Said: said}}
}

// object tells how a file is packed by its name: enough to look at a header.
func object(path string) event.Object {
	o := event.Object{Name: path, Encoding: "csv", Compression: "none"}
	switch filepath.Ext(path) {
	case ".parquet":
		o.Encoding = "parquet"
	case ".gz":
		o.Compression = "gzip"
	case ".zst":
		o.Compression = "zstd"
	}
	return o
}
