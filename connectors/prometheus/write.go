package prometheus

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/klauspost/compress/snappy"
	writev2 "github.com/prometheus/client_golang/exp/api/remote/genproto/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/idlewatt/idlewatt/connectors/gpuseries"
)

// Limits of one request. Prometheus sends at most 2,000 samples at a time by default, senders
// like vmagent some megabytes.
const (
	MaxBody    = 16 << 20 // as sent
	maxDecoded = 64 << 20 // after decompression
	maxSeries  = 200_000
	maxPart    = 400_000  // a part is cut beyond that; compressed and as base64 it fits a message
	maxPoints  = 5_000    // samples of one series that stay together
	maxLabels  = 64 << 10 // bytes of one label set
)

// Times that no sample has: before 2000 and after 2199.
const (
	minTime = 946684800000
	maxTime = 7258118400000
)

// Written is what a remote write request holds.
type Written struct {
	// Parts are the GPU series, in pieces that fit a message, for Assembler.Add.
	Parts [][]byte
	// Kept and Samples count samples of GPU series, and all; Other those of series that say
	// nothing of a GPU, Unknown those of an exporter's names that the name table lacks, Refused
	// those without a believable time or with endless labels. Exemplars and Histograms are
	// ignored.
	Kept, Samples, Other, Unknown, Refused int
	Exemplars, Histograms                  int
}

// splitter gathers GPU series into parts.
type splitter struct {
	Written
	part   []byte
	series int
	labels []label
}

// DecodeV1 reads a compressed prometheus.WriteRequest. An error means that no sender's retry
// would mend it.
func DecodeV1(body []byte) (Written, error) {
	raw, err := decompress(body)
	if err != nil {
		return Written{}, err
	}
	var s splitter
	var ts wireSeries
	err = fields(raw, func(num protowire.Number, t protowire.Type, data []byte, _ uint64) error {
		if num != fieldSeries || t != protowire.BytesType {
			return nil
		}
		if err := ts.read(data); err != nil {
			return fmt.Errorf("reading series %d: %w", s.series+1, err)
		}
		return s.add(&ts)
	})
	return s.finish(err)
}

// DecodeV2 reads a compressed io.prometheus.write.v2.Request, likewise.
func DecodeV2(body []byte) (Written, error) {
	raw, err := decompress(body)
	if err != nil {
		return Written{}, err
	}
	var req writev2.Request
	if err := req.UnmarshalVT(raw); err != nil {
		return Written{}, fmt.Errorf("reading io.prometheus.write.v2.Request: %w", err)
	}
	var s splitter
	var ts wireSeries
	for _, x := range req.Timeseries {
		if len(x.LabelsRefs)%2 != 0 {
			return Written{}, fmt.Errorf("reading series %d: %d label references: not pairs", s.series+1, len(x.LabelsRefs))
		}
		ts.labels, ts.points = ts.labels[:0], ts.points[:0]
		for i := 0; i < len(x.LabelsRefs); i += 2 {
			name, value := int(x.LabelsRefs[i]), int(x.LabelsRefs[i+1])
			if name >= len(req.Symbols) || value >= len(req.Symbols) {
				return Written{}, fmt.Errorf("reading series %d: a label points beyond the %d symbols", s.series+1, len(req.Symbols))
			}
			ts.labels = appendLabel(ts.labels, req.Symbols[name], req.Symbols[value])
		}
		for _, p := range x.Samples {
			ts.points = append(ts.points, point{p.Value, p.Timestamp})
		}
		ts.exemplars, ts.histograms = len(x.Exemplars), len(x.Histograms)
		if err := s.add(&ts); err != nil {
			return Written{}, err
		}
	}
	return s.finish(nil)
}

func decompress(body []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(body)
	if err != nil {
		return nil, fmt.Errorf("decompressing (snappy): %w", err)
	}
	if n > maxDecoded {
		return nil, fmt.Errorf("decompressing: %d bytes, at most %d are taken: lower max_samples_per_send", n, maxDecoded)
	}
	raw, err := snappy.Decode(nil, body)
	if err != nil {
		return nil, fmt.Errorf("decompressing (snappy): %w", err)
	}
	return raw, nil
}

var errNoName = errors.New("a series has no name")

func (s *splitter) add(ts *wireSeries) error {
	if s.series++; s.series > maxSeries {
		return fmt.Errorf("more than %d series in a request: lower max_samples_per_send", maxSeries)
	}
	s.Samples += len(ts.points)
	s.Exemplars += ts.exemplars
	s.Histograms += ts.histograms
	var err error
	if s.labels, err = readLabels(ts.labels, s.labels); err != nil {
		return fmt.Errorf("series %d: %w", s.series, err)
	}
	name := ""
	for _, l := range s.labels {
		if string(l.name) == "__name__" {
			name = string(l.value)
		}
	}
	if name == "" {
		return fmt.Errorf("series %d: %w", s.series, errNoName)
	}
	wanted, unknown := gpuseries.Wanted(name)
	switch {
	case unknown:
		s.Unknown += len(ts.points)
		return nil
	case !wanted:
		s.Other += len(ts.points)
		return nil
	case len(ts.labels) > maxLabels:
		s.Refused += len(ts.points)
		return nil
	}
	good := ts.points[:0]
	for _, p := range ts.points {
		if p.at < minTime || p.at >= maxTime {
			s.Refused++
			continue
		}
		good = append(good, p)
	}
	s.Kept += len(good)
	for len(good) > 0 { // long histories of one series are cut too
		n := min(len(good), maxPoints)
		s.part = appendSeries(s.part, ts.labels, good[:n])
		good = good[n:]
		if len(s.part) >= maxPart {
			s.cut()
		}
	}
	return nil
}

func (s *splitter) cut() {
	s.Parts = append(s.Parts, snappy.Encode(nil, s.part))
	s.part = s.part[:0]
}

func (s *splitter) finish(err error) (Written, error) {
	if err != nil {
		return Written{}, err
	}
	if len(s.part) > 0 {
		s.cut()
	}
	return s.Written, nil
}

// readPart calls f with every series of a part. The series is valid until f returns.
func readPart(part []byte, f func(ts *wireSeries) error) error {
	raw, err := snappy.Decode(nil, part)
	if err != nil {
		return fmt.Errorf("decompressing a part: %w", err)
	}
	var ts wireSeries
	return fields(raw, func(_ protowire.Number, _ protowire.Type, data []byte, _ uint64) error {
		if err := ts.read(data); err != nil {
			return err
		}
		return f(&ts)
	})
}

// seriesOf makes a series of labels on the wire.
func seriesOf(r *gpuseries.Reader, wire []byte) (*gpuseries.Series, error) {
	list, err := readLabels(bytes.Clone(wire), nil)
	if err != nil {
		return nil, err
	}
	set := make([]gpuseries.Label, len(list))
	for i, l := range list {
		set[i] = gpuseries.Label{Name: string(l.name), Value: string(l.value)}
	}
	return r.Series(set), nil
}
