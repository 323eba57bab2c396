package runpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/lines"
)

const (
	day = 24 * time.Hour
	// stretch is how many days one question of a back-fill spans, fills how many stretches one
	// pull reads before it is the window's turn.
	stretch = 7
	fills   = 8
)

// window is a stretch of whole days; the last one may end within its day.
type window struct{ from, to time.Time }

// days are the UTC days of a window, as a delivery covers them.
func (w window) days() []string {
	var out []string
	for d := w.from.Truncate(day); d.Before(w.to); d = d.Add(day) {
		out = append(out, d.Format(time.DateOnly))
	}
	return out
}

// trailing is the window that is read again and again: whole days, and of today the hours that
// are complete. The hour in progress is left out: RunPod bills every few minutes.
func (c *connector) trailing(now time.Time) window {
	w := window{from: now.Truncate(day).AddDate(0, 0, -c.cfg.WindowDays), to: now.Truncate(time.Hour)}
	if since, err := time.Parse(time.DateOnly, c.cfg.Since); err == nil && since.After(w.from) {
		w.from = since
	}
	return w
}

// behind is the first day before the window that has not been read to its end: after a pause
// of the service, or since the configured first day.
func (c *connector) behind(m *memory, w window) (time.Time, bool) {
	t, err := time.Parse(time.DateOnly, m.Through)
	return t, err == nil && t.Before(w.from)
}

// bill reads what is due: the window every BillingEvery, and before it stretches of days that
// were never read to their end.
func (c *connector) bill(ctx context.Context, m *memory, now time.Time, emit connectors.Emitter) error {
	if first := c.cfg.Since; first != m.Since {
		if first != "" && (m.Since == "" || first < m.Since) {
			m.Through = first // an earlier day than before: all since then is read once more
		}
		m.Since = first
	}
	w := c.trailing(now)
	from, more := c.behind(m, w)
	for n := 0; more && n < fills; n++ {
		f := window{from: from, to: from.AddDate(0, 0, stretch)}
		if f.to.After(w.from) {
			f.to = w.from
		}
		if _, err := c.deliver(ctx, m, f, now, "", emit); err != nil {
			return err
		}
		m.Through = f.to.Format(time.DateOnly)
		if err := c.save(ctx, m, now, emit, fmt.Sprintf("billed %s to %s", f.days()[0], m.Through)); err != nil {
			return err
		}
		from, more = c.behind(m, w)
	}
	if now.Sub(m.Billed) < c.cfg.BillingEvery || !w.from.Before(w.to) {
		return nil
	}
	sent, err := c.deliver(ctx, m, w, now, m.Sent, emit)
	if err != nil {
		return err
	}
	m.Billed, m.Sent = now, sent
	if !more {
		m.Through = w.from.Format(time.DateOnly) // its days may change until the window has passed them
	}
	return nil
}

// deliver reads one window, holds its routes against /v2/billing, and delivers it as charge
// lines beside the pages as evidence. What is equal to last, the hash it returned before, is
// not sent again.
func (c *connector) deliver(ctx context.Context, m *memory, w window, now time.Time, last string, emit connectors.Emitter) (string, error) {
	statements, evidence, err := c.read(ctx, w)
	if errors.Is(err, errControl) {
		statements, evidence, err = c.read(ctx, w) // RunPod may have billed between two answers
	}
	if err != nil {
		return "", err
	}
	k := ledger{account: c.cfg.Account, things: m.Things, gpus: m.GPUs}
	var out []lines.Line
	for _, s := range statements {
		out = append(out, k.lines(s)...)
	}
	text, err := json.Marshal(struct {
		Days  []string
		Lines []lines.Line
	}{w.days(), out})
	if err != nil {
		return "", err
	}
	sent := event.ID(string(text), "", "")
	if sent == last {
		return sent, nil
	}
	for _, p := range evidence {
		if err := connectors.Evidence(ctx, emit, c.source, "runpod", p.name, p.raw, now); err != nil {
			return "", err
		}
	}
	name := fmt.Sprintf("runpod %s to %s.csv", w.from.Format(time.DateOnly), w.to.Format(time.RFC3339))
	return sent, connectors.DeliverLines(ctx, emit, c.source, name, now, w.days(), func(lw *lines.Writer) error {
		for _, l := range out {
			if err := lw.Write(l); err != nil {
				return err
			}
		}
		return nil
	})
}

// read asks every route for one window and checks all of them.
func (c *connector) read(ctx context.Context, w window) ([]*statement, []page, error) {
	var statements []*statement
	var evidence []page
	for _, r := range append([]*route{overall}, routes...) {
		s, pages, err := c.api.statement(ctx, r, w.from, w.to)
		if err == nil {
			err = s.check()
		}
		if err != nil {
			return nil, nil, err
		}
		statements = append(statements, s)
		evidence = append(evidence, pages...)
	}
	if err := reconcile(statements[0], statements[1:]); err != nil {
		return nil, nil, fmt.Errorf("reading RunPod's bill of %s: %w", bucketText(w.from, w.to), err)
	}
	return statements[1:], evidence, nil
}
