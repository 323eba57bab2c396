// Package nvidiasmi reads what nvidia-smi --query-gpu=... --format=csv wrote, by hand: a small
// fallback for hosts without an exporter.
//
// Running nvidia-smi is left to the user, and what the readings mean is
// processors/utilize's work. nvidia-smi knows no engine activity of MIG instances.
package nvidiasmi

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Factory describes the format; it has no live connector.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "nvidiasmi", Summary: "nvidia-smi CSV of one host (by hand)",
		Formats: []connectors.Format{{Name: "nvidia-smi", Sniff: sniff, Decode: decode}},
	}
}

// columns are the fields that are read, by the name in --query-gpu; others are ignored.
// utilization.memory is the memory controller's busy time, no DRAM activity.
const (
	colTime  = "timestamp"
	colUUID  = "uuid"
	colName  = "name"
	colUtil  = "utilization.gpu"
	colUsed  = "memory.used"
	colTotal = "memory.total"
	colPower = "power.draw"
)

// Bounds of what is believed, as for an exporter's text.
const (
	maxWatts = 5000
	maxMiB   = 1 << 20
)

func sniff(head []byte) bool {
	line, _, _ := strings.Cut(string(head), "\n")
	at := index(strings.Split(line, ","))
	return has(at, colTime) && has(at, colUUID) && has(at, colUtil)
}

func has(at map[string]int, column string) bool {
	_, ok := at[column]
	return ok
}

// index finds the columns of a header such as "timestamp, uuid, power.draw [W]".
func index(header []string) map[string]int {
	at := map[string]int{}
	for i, h := range header {
		name, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")), " [")
		name = strings.TrimSuffix(strings.ToLower(name), ".instant") // power.draw.instant of newer drivers
		if name == "gpu_name" || name == "gpu_uuid" {
			name = strings.TrimPrefix(name, "gpu_")
		}
		if !has(at, name) {
			at[name] = i
		}
	}
	return at
}

// file is one file while it is read.
type file struct {
	connectors.File
	emit  connectors.Emitter
	zone  *time.Location
	at    map[string]int
	width int              // columns of the header
	now   event.GPUSamples // the rows of one query so far
	taken int
}

// decode emits one gpu.samples for every query that the file holds: rows until a GPU comes
// again. The times are local ones without a zone, so that --at has to give the offset.
func decode(ctx context.Context, f connectors.File, emit connectors.Emitter) error {
	if f.At.IsZero() {
		return fmt.Errorf("%s: nvidia-smi writes local times without a zone: say --at TIME with the host's offset, such as --at 2026-10-31T00:00:00+01:00 (the time itself does not count)", f.Name)
	}
	_, offset := f.At.Zone()
	d := file{File: f, emit: emit, zone: time.FixedZone("", offset)}
	r := csv.NewReader(f.Body)
	r.FieldsPerRecord, r.TrimLeadingSpace, r.LazyQuotes = -1, true, true
	header, err := r.Read()
	if err != nil {
		return fmt.Errorf("reading header of %s: %w", f.Name, err)
	}
	d.at, d.width = index(header), len(header)
	for _, c := range []string{colTime, colUUID, colUtil} {
		if !has(d.at, c) {
			return fmt.Errorf("%s: column %s is missing: want a header and at least --query-gpu=timestamp,uuid,name,utilization.gpu,memory.used,memory.total,power.draw", f.Name, c)
		}
	}
	for row := 2; ; row++ {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading %s, row %d: %w", f.Name, row, err)
		}
		if len(rec) > 0 && strings.TrimSpace(rec[0]) == strings.TrimSpace(header[0]) {
			continue // the file of a program that was started again
		}
		if err := d.row(ctx, rec, row); err != nil {
			return err
		}
	}
	if err := d.flush(ctx); err != nil {
		return err
	}
	if d.taken == 0 {
		return fmt.Errorf("%s: has a header but no readings", f.Name)
	}
	return nil
}

func (d *file) get(rec []string, column string) string {
	if i, ok := d.at[column]; ok && i < len(rec) {
		return strings.TrimSpace(rec[i])
	}
	return ""
}

// row takes one line. One that is bad costs itself alone.
func (d *file) row(ctx context.Context, rec []string, row int) error {
	at, err := time.ParseInLocation("2006/01/02 15:04:05.999", d.get(rec, colTime), d.zone)
	uuid := d.get(rec, colUUID)
	switch {
	case len(rec) < d.width:
		return d.refuse(ctx, rec, fmt.Errorf("%s, row %d: %d of %d columns: the line was cut", d.Name, row, len(rec), d.width))
	case err != nil:
		return d.refuse(ctx, rec, fmt.Errorf("%s, row %d, column %s: %q is no time such as 2026/10/31 22:00:00.000", d.Name, row, colTime, d.get(rec, colTime)))
	case !strings.HasPrefix(uuid, "GPU-"):
		return d.refuse(ctx, rec, fmt.Errorf("%s, row %d, column %s: %q is no GPU's UUID", d.Name, row, colUUID, uuid))
	case len(d.now.GPUs) > 0 && at.Before(d.now.At.Add(-time.Second)):
		return fmt.Errorf("%s, row %d: the time goes back from %s to %s; if the host's clock changed, cut the file there and import the parts with their own offsets",
			d.Name, row, d.now.At.In(d.zone).Format(time.DateTime), at.Format(time.DateTime))
	}
	for _, g := range d.now.GPUs {
		if g.UUID == uuid {
			if err := d.flush(ctx); err != nil {
				return err
			}
			break
		}
	}
	if len(d.now.GPUs) == 0 {
		d.now = event.GPUSamples{Target: d.Source, Node: d.Source, At: at.UTC(), ReceivedAt: at.UTC(), OK: true, Complete: true, Generation: "nvidia-smi", Rejected: d.now.Rejected}
	}
	g := event.GPUSample{
		UUID: uuid, Model: d.get(rec, colName), PowerW: d.number(rec, colPower, maxWatts), FBUsedMiB: d.number(rec, colUsed, maxMiB), FBTotalMiB: d.number(rec, colTotal, maxMiB),
	}
	if u := d.number(rec, colUtil, 100); u != nil {
		*u /= 100
		g.Utilization = u
	}
	d.now.GPUs = append(d.now.GPUs, g)
	d.now.Lines++
	return nil
}

// number reads a value with or without its unit; nil if the driver does not know it. What is
// no number or out of bounds is counted and not believed.
func (d *file) number(rec []string, column string, most float64) *float64 {
	s := d.get(rec, column)
	if s == "" || strings.HasPrefix(s, "[") || strings.EqualFold(s, "n/a") {
		return nil // [N/A], [Not Supported], [Unknown Error]
	}
	s, _, _ = strings.Cut(s, " ")
	v, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		d.reject("bad_value")
	case math.IsNaN(v) || v < 0 || v > most:
		d.reject("out_of_bounds")
	default:
		return &v
	}
	return nil
}

func (d *file) reject(reason string) {
	if d.now.Rejected == nil {
		d.now.Rejected = map[string]int{}
	}
	d.now.Rejected[reason]++
}

func (d *file) refuse(ctx context.Context, rec []string, why error) error {
	d.reject("bad_line")
	if d.Bad == nil {
		return why
	}
	return d.Bad(ctx, []byte(strings.Join(rec, ", ")), why)
}

// flush emits the rows of one query. The same rows read again are the same event.
func (d *file) flush(ctx context.Context) error {
	if len(d.now.GPUs) == 0 {
		return nil
	}
	key := d.now.Target + "/" + d.now.At.Format(time.RFC3339Nano) + "/" + d.now.GPUs[0].UUID
	e, err := event.New(event.TypeGPUSamples, "idlewatt/"+d.Source, key, "", d.now.At, d.now)
	if err != nil {
		return err
	}
	d.taken++
	d.now = event.GPUSamples{At: d.now.At}
	return d.emit.Event(ctx, e)
}
