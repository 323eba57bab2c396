package prometheus

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The message of remote write 1.0, prometheus.WriteRequest, has four fields that matter here.
// No maintained module has it without all of Prometheus behind it, so it is read by hand;
// source: https://prometheus.io/docs/specs/prw/remote_write_spec/. The same form, holding
// nothing but GPU series, is what waits on the bus to be assembled.
const (
	fieldSeries = 1 // WriteRequest.timeseries

	fieldLabels     = 1 // TimeSeries
	fieldSamples    = 2
	fieldExemplars  = 3
	fieldHistograms = 4

	fieldFirst  = 1 // Label.name, Sample.value
	fieldSecond = 2 // Label.value, Sample.timestamp
)

// point is one sample on the wire.
type point struct {
	value float64
	at    int64 // milliseconds since 1970
}

// stale is the value with which Prometheus says that a series has ended; source:
// prometheus/model/value.StaleNaN. Other NaNs are readings.
const stale = 0x7ff0000000000002

func (p point) stale() bool { return math.Float64bits(p.value) == stale }

var errWire = errors.New("not a message of remote write")

// fields calls f with every field of a message; varints and fixed numbers come in n.
func fields(b []byte, f func(num protowire.Number, t protowire.Type, data []byte, n uint64) error) error {
	for len(b) > 0 {
		num, t, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errWire
		}
		b = b[size:]
		var data []byte
		var n uint64
		switch t {
		case protowire.BytesType:
			data, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			n, size = protowire.ConsumeFixed64(b)
		default:
			size = protowire.ConsumeFieldValue(num, t, b)
		}
		if size < 0 {
			return errWire
		}
		b = b[size:]
		if err := f(num, t, data, n); err != nil {
			return err
		}
	}
	return nil
}

// wireSeries is one TimeSeries: its labels as they came, one message after the other with
// their tags, which makes them a key, and its samples.
type wireSeries struct {
	labels                []byte
	points                []point
	exemplars, histograms int
}

// read decodes a TimeSeries into s, whose memory it uses again.
func (s *wireSeries) read(b []byte) error {
	s.labels, s.points = s.labels[:0], s.points[:0]
	s.exemplars, s.histograms = 0, 0
	return fields(b, func(num protowire.Number, t protowire.Type, data []byte, _ uint64) error {
		if t != protowire.BytesType {
			return nil
		}
		switch num {
		case fieldLabels:
			s.labels = protowire.AppendTag(s.labels, fieldLabels, protowire.BytesType)
			s.labels = protowire.AppendBytes(s.labels, data)
		case fieldSamples:
			p, err := readPoint(data)
			s.points = append(s.points, p)
			return err
		case fieldExemplars:
			s.exemplars++
		case fieldHistograms:
			s.histograms++
		}
		return nil
	})
}

func readPoint(b []byte) (point, error) {
	var p point
	err := fields(b, func(num protowire.Number, t protowire.Type, _ []byte, n uint64) error {
		switch {
		case num == fieldFirst && t == protowire.Fixed64Type:
			p.value = math.Float64frombits(n)
		case num == fieldSecond && t == protowire.VarintType:
			p.at = int64(n) //nolint:gosec // an int64 on the wire
		}
		return nil
	})
	return p, err
}

// label is one name and value, pointing into the message.
type label struct{ name, value []byte }

// readLabels decodes labels as wireSeries keeps them.
func readLabels(b []byte, into []label) ([]label, error) {
	into = into[:0]
	err := fields(b, func(_ protowire.Number, _ protowire.Type, data []byte, _ uint64) error {
		var l label
		err := fields(data, func(num protowire.Number, t protowire.Type, text []byte, _ uint64) error {
			switch {
			case num == fieldFirst && t == protowire.BytesType:
				l.name = text
			case num == fieldSecond && t == protowire.BytesType:
				l.value = text
			}
			return nil
		})
		into = append(into, l)
		return err
	})
	if err != nil {
		return into, fmt.Errorf("reading labels: %w", err)
	}
	return into, nil
}

func appendLabel(b []byte, name, value string) []byte {
	b = protowire.AppendTag(b, fieldLabels, protowire.BytesType)
	n := protowire.SizeTag(fieldFirst) + protowire.SizeBytes(len(name)) + protowire.SizeTag(fieldSecond) + protowire.SizeBytes(len(value))
	b = protowire.AppendVarint(b, uint64(n)) //nolint:gosec // a length
	b = protowire.AppendTag(b, fieldFirst, protowire.BytesType)
	b = protowire.AppendString(b, name)
	b = protowire.AppendTag(b, fieldSecond, protowire.BytesType)
	return protowire.AppendString(b, value)
}

// appendSeries writes a TimeSeries into a WriteRequest.
func appendSeries(b, labels []byte, points []point) []byte {
	size := len(labels)
	for _, p := range points {
		size += protowire.SizeTag(fieldSamples) + protowire.SizeBytes(pointSize(p))
	}
	b = protowire.AppendTag(b, fieldSeries, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size)) //nolint:gosec // a length
	b = append(b, labels...)
	for _, p := range points {
		b = protowire.AppendTag(b, fieldSamples, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(pointSize(p))) //nolint:gosec // a length
		b = protowire.AppendTag(b, fieldFirst, protowire.Fixed64Type)
		b = protowire.AppendFixed64(b, math.Float64bits(p.value))
		b = protowire.AppendTag(b, fieldSecond, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(p.at)) //nolint:gosec // an int64 on the wire
	}
	return b
}

func pointSize(p point) int {
	return protowire.SizeTag(fieldFirst) + protowire.SizeFixed64() + protowire.SizeTag(fieldSecond) + protowire.SizeVarint(uint64(p.at)) //nolint:gosec // an int64 on the wire
}
