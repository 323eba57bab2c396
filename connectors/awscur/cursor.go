package awscur

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
)

// cursor is what is remembered between two pulls.
type cursor struct {
	// Of is the place it was made for, see Config.place.
	Of     string           `json:"of"`
	Months map[string]month `json:"months"` // by YYYY-MM
}

// month is what is known of one billing month.
type month struct {
	Manifest string `json:"manifest"` // key of the manifest
	ETag     string `json:"etag"`     // of the manifest, as the store writes it
	// Delivery is the hash of sorted keys and ETags of the files last delivered; empty if the
	// manifest listed none.
	Delivery string `json:"delivery,omitempty"`
	// Checked is when an older month was looked at last. Young ones are looked at each time.
	Checked time.Time `json:"checked,omitzero"`
}

func readCursor(raw connectors.Cursor, of string) (cursor, error) {
	var c cursor
	if raw != nil {
		if err := json.Unmarshal(raw, &c); err != nil {
			return c, connectors.Permanent(fmt.Errorf("reading cursor: %w", err))
		}
	}
	if c.Of != of || c.Months == nil {
		c = cursor{Of: of, Months: map[string]month{}}
	}
	return c, nil
}

func (c cursor) raw() (connectors.Cursor, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing cursor: %w", err)
	}
	return b, nil
}

// recheck is how often a month is looked at that is neither the present nor the last one.
const recheck = 7 * 24 * time.Hour

// young reports whether a month is the present or the last one: AWS rewrites these daily.
func young(name string, now time.Time) bool {
	now = now.UTC()
	return name >= time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC).Format("2006-01")
}

// due reports whether to look at a month now.
func (c cursor) due(name string, now time.Time) bool {
	m, known := c.Months[name]
	return !known || young(name, now) || now.Sub(m.Checked) >= recheck
}
