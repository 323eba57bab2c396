package main

import (
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/idlewatt/idlewatt/schema/archive"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// progressBar shows rows read, rows per second and, where the files say how many rows they
// have, the time left. It writes to a terminal on standard error only.
type progressBar struct {
	bar  *progressbar.ProgressBar
	rows atomic.Uint64
}

func (a *app) progress(objects []event.Object) *progressBar {
	f, ok := a.errOut.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progressBar{}
	}
	total := int64(0)
	for _, o := range objects {
		h, err := normalize.ReadHeader(archive.Path(a.layout.Archive(), o.SHA256), o)
		if err != nil || h.Rows < 0 {
			total = -1
			break
		}
		total += h.Rows
	}
	return &progressBar{bar: progressbar.NewOptions64(total, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription("loading"),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())}
}

func (p *progressBar) set(rows uint64) {
	p.rows.Store(rows)
	if p.bar != nil {
		_ = p.bar.Set64(int64(rows))
	}
}

func (p *progressBar) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
