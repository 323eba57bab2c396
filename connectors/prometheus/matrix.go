package prometheus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/idlewatt/idlewatt/connectors/gpuseries"
)

// matrixSeries is one element of data.result where resultType is "matrix"; source:
// https://prometheus.io/docs/prometheus/latest/querying/api/#range-vectors.
type matrixSeries struct {
	Metric map[string]string `json:"metric"`
	Values []matrixPoint     `json:"values"`
}

// matrixPoint is [1735689600.123, "0.5"]: seconds and a printed value.
type matrixPoint struct {
	at    int64 // milliseconds since 1970
	value float64
}

var errPoint = errors.New("a sample is not a time and a text")

func (p *matrixPoint) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return errPoint
	}
	var text string
	if err := json.Unmarshal(pair[1], &text); err != nil {
		return errPoint
	}
	seconds, err := strconv.ParseFloat(string(pair[0]), 64)
	if err != nil {
		return errPoint
	}
	if p.value, err = strconv.ParseFloat(text, 64); err != nil && !math.IsInf(p.value, 0) {
		return errPoint
	}
	p.at = int64(math.Round(seconds * 1000))
	return nil
}

// readMatrix reads an answer series by series and keeps what lies in (from, to]. An answer
// with warnings is not whole, and refused: what it lacks would look like a gap, or worse.
func readMatrix(body io.Reader, r *gpuseries.Reader, from, to int64) ([]gpuseries.Sample, error) {
	d := json.NewDecoder(body)
	var out []gpuseries.Sample
	var status, failed, kind string
	var warnings []string
	err := object(d, func(key string) error {
		switch key {
		case "status":
			return d.Decode(&status)
		case "error":
			return d.Decode(&failed)
		case "warnings":
			return d.Decode(&warnings)
		case "data":
			return object(d, func(key string) error {
				switch key {
				case "resultType":
					return d.Decode(&kind)
				case "result":
					return array(d, func() error {
						var s matrixSeries
						if err := d.Decode(&s); err != nil {
							return err
						}
						out = append(out, s.samples(r, from, to)...)
						return nil
					})
				}
				return skip(d)
			})
		}
		return skip(d)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer: %w", err)
	case status != "success":
		return nil, fmt.Errorf("the answer has status %q: %.300s", status, failed)
	case len(warnings) > 0:
		return nil, fmt.Errorf("the answer is not whole: %.300q", warnings)
	case kind != "matrix":
		return nil, fmt.Errorf("the answer is a %q, want a matrix", kind)
	}
	return out, nil
}

func (s matrixSeries) samples(r *gpuseries.Reader, from, to int64) []gpuseries.Sample {
	set := make([]gpuseries.Label, 0, len(s.Metric))
	for _, name := range slices.Sorted(maps.Keys(s.Metric)) {
		set = append(set, gpuseries.Label{Name: name, Value: s.Metric[name]})
	}
	series := r.Series(set)
	out := make([]gpuseries.Sample, 0, len(s.Values))
	for _, v := range s.Values {
		p := point{value: v.value, at: v.at}
		if p.at > from && p.at <= to && p.at >= minTime && p.at < maxTime && !p.stale() {
			out = append(out, gpuseries.Sample{Series: series, At: p.at, Value: p.value})
		}
	}
	return out
}

// object calls f with every key of an object; f reads the value.
func object(d *json.Decoder, f func(key string) error) error {
	if err := expect(d, '{'); err != nil {
		return err
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("%v is no key", t)
		}
		if err := f(key); err != nil {
			return err
		}
	}
	return expect(d, '}')
}

func array(d *json.Decoder, f func() error) error {
	if err := expect(d, '['); err != nil {
		return err
	}
	for d.More() {
		if err := f(); err != nil {
			return err
		}
	}
	return expect(d, ']')
}

func expect(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("found %v, want %v", t, want)
	}
	return nil
}

func skip(d *json.Decoder) error {
	var v json.RawMessage
	return d.Decode(&v)
}
