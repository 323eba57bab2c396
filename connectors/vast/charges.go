package vast

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/lines"
)

// reach is which days of charges have been read. Days are YYYY-MM-DD, UTC.
type reach struct {
	Asked   time.Time `json:"asked,omitzero"`
	Through string    `json:"through,omitempty"` // the newest day read
	Back    string    `json:"back,omitempty"`    // the oldest
	// Days are the lines of each day of the window, as a hash: a day is delivered when they change.
	Days map[string]string `json:"days,omitempty"`
}

// chunk is how many days are read and delivered together.
const chunk = 31

// charges reads the last complete days again, then older ones back to `since`, and delivers
// those that changed. It keeps how far it has come.
func (c *connector) charges(ctx context.Context, s *state, now time.Time, emit connectors.Emitter) error {
	today := now.Truncate(24 * time.Hour)
	yesterday := today.AddDate(0, 0, -1).Format(time.DateOnly)
	for first := true; first || s.Charges.Through < yesterday; first = false {
		days := c.window(s.Charges, today)
		if len(days) == 0 {
			break // `since` is today or later
		}
		if err := c.read(ctx, s, days, now, emit); err != nil {
			return err
		}
		s.Charges.Through = max(s.Charges.Through, days[len(days)-1].Format(time.DateOnly))
		if d := days[0].Format(time.DateOnly); s.Charges.Back == "" || d < s.Charges.Back {
			s.Charges.Back = d
		}
	}
	for days := c.older(s.Charges); len(days) > 0; days = c.older(s.Charges) {
		if err := c.read(ctx, s, days, now, emit); err != nil {
			return err
		}
		s.Charges.Back = days[0].Format(time.DateOnly)
		kept, err := s.cursor()
		if err != nil {
			return err
		}
		if err := connectors.Keep(ctx, emit, kept, "charges back to "+s.Charges.Back+" are read"); err != nil {
			return err
		}
	}
	s.Charges.Asked = now
	oldest := today.AddDate(0, 0, -c.cfg.WindowDays).Format(time.DateOnly)
	maps.DeleteFunc(s.Charges.Days, func(d, _ string) bool { return d < oldest })
	return nil
}

// window are the last complete days, and those before that no pull has read because none ran.
func (c *connector) window(r reach, today time.Time) []time.Time {
	from := today.AddDate(0, 0, -c.cfg.WindowDays)
	if since, err := time.Parse(time.DateOnly, c.cfg.Since); err == nil && since.After(from) {
		from = since
	}
	if t, err := time.Parse(time.DateOnly, r.Through); err == nil && t.AddDate(0, 0, 1).Before(from) {
		from = t.AddDate(0, 0, 1)
	}
	return days(from, today)
}

// older are the next days on the way back to `since`.
func (c *connector) older(r reach) []time.Time {
	since, err := time.Parse(time.DateOnly, c.cfg.Since)
	if err != nil {
		return nil
	}
	back, err := time.Parse(time.DateOnly, r.Back)
	if err != nil {
		return nil
	}
	if d := back.AddDate(0, 0, -chunk); d.After(since) {
		since = d
	}
	return days(since, back)
}

func days(from, to time.Time) []time.Time {
	var out []time.Time
	for d := from; d.Before(to) && len(out) < chunk; d = d.AddDate(0, 0, 1) {
		out = append(out, d)
	}
	return out
}

// read asks for days and delivers those that differ from what was delivered of them.
func (c *connector) read(ctx context.Context, s *state, days []time.Time, now time.Time, emit connectors.Emitter) error {
	b := booker{account: c.account, labels: c.labels, contract: s.Known.find}
	if s.Charges.Days == nil {
		s.Charges.Days = map[string]string{}
	}
	var covers []string
	var changed []found
	hashes := map[string]string{}
	for _, d := range days {
		day := d.Format(time.DateOnly)
		rows, pages, err := c.day(ctx, d)
		if err != nil {
			return err
		}
		hash, err := b.hash(rows)
		if err != nil {
			return refusal{fmt.Errorf("asking %s: charges of %s: %w", vendor, day, err)}
		}
		if s.Charges.Days[day] == hash {
			continue
		}
		for n, raw := range pages {
			name := fmt.Sprintf("charges-%s-%d.json", day, n+1)
			if err := connectors.Evidence(ctx, emit, c.source, "vast", name, raw, now); err != nil {
				return err
			}
		}
		hashes[day] = hash
		covers, changed = append(covers, day), append(changed, rows...)
	}
	if len(covers) == 0 {
		return nil
	}
	// What is live of these days is not sure from here on until the cursor is saved.
	maps.DeleteFunc(s.Charges.Days, func(d, _ string) bool { return hashes[d] != "" })
	kept, err := s.cursor()
	if err != nil {
		return err
	}
	if err := connectors.Keep(ctx, emit, kept, ""); err != nil {
		return err
	}
	err = connectors.DeliverLines(ctx, emit, c.source, "vast-charges.csv", now, covers, func(w *lines.Writer) error {
		return b.write(changed, w)
	})
	if err != nil {
		return err
	}
	maps.Copy(s.Charges.Days, hashes)
	return nil
}

// hash names the lines of a day, whatever the order of its pages.
func (b booker) hash(rows []found) (string, error) {
	var buf bytes.Buffer
	w, err := lines.NewWriter(&buf)
	if err != nil {
		return "", err
	}
	if err := b.write(slices.Clone(rows), w); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return event.ID(buf.String(), "", "")[:16], nil
}

// day asks for one UTC day: GET /api/v0/charges/ sums rows over the window that is asked for,
// and both bounds are inclusive (show_charges.yaml).
func (c *connector) day(ctx context.Context, d time.Time) (rows []found, pages [][]byte, err error) {
	filter, err := json.Marshal(map[string]any{"day": map[string]int64{"gte": d.Unix(), "lte": d.AddDate(0, 0, 1).Unix() - 1}})
	if err != nil {
		return nil, nil, err
	}
	total := -1
	call := rest.Call{
		Path: "/api/v0/charges/", Lane: "charges", Interval: time.Second,
		Query: url.Values{"select_filters": {string(filter)}, "format": {"table"}, "limit": {"100"}, "latest_first": {"false"}},
	}
	name := "charges of " + d.Format(time.DateOnly)
	err = c.each(ctx, call, func(p page, raw []byte) error {
		if p.Total != nil {
			total = *p.Total
		}
		got, paid, err := gather(p, fmt.Sprintf("%s, page %d", name, len(pages)+1), len(pages))
		if err == nil && len(paid) > 0 {
			err = fmt.Errorf("%s holds payments, which are no charges", name)
		}
		if err != nil {
			return refusal{fmt.Errorf("asking %s: %w", vendor, err)}
		}
		rows, pages = append(rows, got...), append(pages, raw)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if total >= 0 && total != len(rows) {
		return nil, nil, refusal{fmt.Errorf("asking %s: %s: the pages hold %d rows and say that there are %d: they changed while they were read", vendor, name, len(rows), total)}
	}
	for _, r := range rows {
		if !r.from.Equal(d) || !r.to.Equal(d.AddDate(0, 0, 1)) {
			return nil, nil, refusal{fmt.Errorf("asking %s: %s: %s is for %s to %s: a sum over other days is not counted", vendor, name, r.where, r.from.Format(time.DateOnly), r.to.AddDate(0, 0, -1).Format(time.DateOnly))}
		}
	}
	return rows, pages, nil
}
