package prometheus

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	writev2 "github.com/prometheus/client_golang/exp/api/remote/genproto/v2"
)

func gpu(name, uuid string, at int64, v float64) written {
	return written{fmt.Sprintf(`%s{UUID="%s",instance="n1:9400",job="gpu"}`, name, uuid), at, v}
}

func TestRequestsAreSortedOut(t *testing.T) {
	t.Parallel()
	at := start().UnixMilli()
	body := part(
		gpu("DCGM_FI_DEV_GPU_UTIL", "G", at, 1), gpu("DCGM_FI_DEV_GPU_UTIL", "G", 5, 1), gpu("DCGM_FI_DEV_GPU_TEMP", "G", at, 40),
		gpu("DCGM_FI_DEV_GPU_UTIL_NEXT", "G", at, 1), written{`up{job="x"}`, at, 1}, gpu("dcgm_power_usage", "G", at, math.NaN()),
		written{`DCGM_FI_DEV_GPU_UTIL{UUID="G",x="` + strings.Repeat("x", maxLabels) + `"}`, at, 1},
	)
	w, err := DecodeV1(body)
	if err != nil || w.Samples != 7 || w.Kept != 2 || w.Other != 2 || w.Unknown != 1 || w.Refused != 2 || len(w.Parts) != 1 {
		t.Errorf("%+v, %v", w, err)
	}
	n := 0
	if err := readPart(w.Parts[0], func(*wireSeries) error { n++; return nil }); err != nil || n != 2 {
		t.Errorf("%d series in the part, %v", n, err)
	}
}

func TestPartsFitAMessage(t *testing.T) {
	t.Parallel()
	var b []byte
	points := make([]point, 20_000)
	for i := range points {
		points[i] = point{float64(i) * math.Pi, start().UnixMilli() + int64(i)*15_000}
	}
	b = appendSeries(b, gpu("DCGM_FI_DEV_GPU_UTIL", "G", 0, 0).labels(), points)
	for i := range 20_000 {
		b = appendSeries(b, gpu("DCGM_FI_DEV_POWER_USAGE", fmt.Sprint("GPU-", i), 0, 0).labels(), points[:1])
	}
	w, err := DecodeV1(snappy.Encode(nil, b))
	if err != nil || w.Kept != 40_000 {
		t.Fatalf("%d kept, %v", w.Kept, err)
	}
	found := 0
	for _, p := range w.Parts {
		if len(p) > 700_000 {
			t.Errorf("a part has %d bytes", len(p))
		}
		if err := readPart(p, func(ts *wireSeries) error { found += len(ts.points); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if found != 40_000 || len(w.Parts) < 3 {
		t.Errorf("%d samples in %d parts", found, len(w.Parts))
	}
}

func TestVersionsSayTheSame(t *testing.T) {
	t.Parallel()
	at := start().UnixMilli()
	one := part(gpu("DCGM_FI_DEV_GPU_UTIL", "G", at, 0.5), gpu("DCGM_FI_DEV_GPU_UTIL", "G", at+1, math.Float64frombits(stale)))
	table := writev2.NewSymbolTable()
	labels := []string{"__name__", "DCGM_FI_DEV_GPU_UTIL", "UUID", "G", "instance", "n1:9400", "job", "gpu"}
	req := writev2.Request{}
	for i, v := range []float64{0.5, math.Float64frombits(stale)} {
		req.Timeseries = append(req.Timeseries, &writev2.TimeSeries{
			LabelsRefs: table.SymbolizeLabels(labels, nil), Samples: []*writev2.Sample{{Value: v, Timestamp: at + int64(i)}},
			Histograms: []*writev2.Histogram{{}}, Exemplars: []*writev2.Exemplar{{}},
		})
	}
	req.Symbols = table.Symbols()
	raw, err := req.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	w1, err := DecodeV1(one)
	if err != nil {
		t.Fatal(err)
	}
	w2, err := DecodeV2(snappy.Encode(nil, raw))
	if err != nil || w2.Histograms != 2 || w2.Exemplars != 2 || string(w1.Parts[0]) != string(w2.Parts[0]) {
		t.Errorf("%+v and %+v, %v", w1, w2, err)
	}
}

// decoded is what must hold of any bytes: no crash, and what is taken can be read again.
func decoded(t *testing.T, w Written, err error) {
	t.Helper()
	if err != nil {
		return
	}
	a, err := NewAssembler(DefaultAssembly(), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, p := range w.Parts {
		if err := a.Add(uint64(i+1), p, start()); err != nil {
			t.Fatalf("a part that was taken cannot be read: %v", err)
		}
		if err := readPart(p, func(ts *wireSeries) error { n += len(ts.points); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n != w.Kept {
		t.Fatalf("%d samples in the parts, %d kept", n, w.Kept)
	}
	for _, wait := range []time.Duration{time.Minute, time.Hour} {
		if _, err := a.Due(start().Add(wait)); err != nil {
			t.Fatal(err)
		}
	}
	saved, err := a.Checkpoint(start())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewAssembler(DefaultAssembly(), saved); err != nil {
		t.Fatal(err)
	}
}

func FuzzDecodeV1(f *testing.F) {
	at := start().UnixMilli()
	raw, err := snappy.Decode(nil, part(gpu("DCGM_FI_DEV_GPU_UTIL", "G", at, 0), gpu("DCGM_FI_DEV_POWER_USAGE", "G", at, 70), gpu("DCGM_FI_DEV_GPU_UTIL", "G", at+30_000, math.Float64frombits(stale))))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, err := DecodeV1(snappy.Encode(nil, raw))
		decoded(t, w, err)
	})
}

func FuzzDecodeV2(f *testing.F) {
	req := writev2.Request{
		Symbols:    []string{"", "__name__", "DCGM_FI_DEV_GPU_UTIL", "UUID", "G"},
		Timeseries: []*writev2.TimeSeries{{LabelsRefs: []uint32{1, 2, 3, 4}, Samples: []*writev2.Sample{{Value: 1, Timestamp: start().UnixMilli()}}}},
	}
	raw, err := req.MarshalVT()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, err := DecodeV2(snappy.Encode(nil, raw))
		decoded(t, w, err)
	})
}

// BenchmarkAssemble is the way from the parts of 1,000 targets with 8 GPUs each to their
// events, without a bus.
func BenchmarkAssemble(b *testing.B) {
	how := DefaultAssembly()
	how.Watch = time.Second
	a, err := NewAssembler(how, nil)
	if err != nil {
		b.Fatal(err)
	}
	names := []string{
		"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
		"DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_FB_USED",
		"DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_DEV_FB_TOTAL",
	}
	const targets, gpus = 1000, 8
	at, now, number, samples := start().UnixMilli(), start(), uint64(0), 0
	round := func() [][]byte {
		var parts [][]byte
		var p []byte
		for _, name := range names {
			for target := range targets {
				for g := range gpus {
					labels := appendLabel(nil, "__name__", name)
					for _, l := range [][2]string{
						{"Hostname", fmt.Sprint("node-", target)}, {"UUID", fmt.Sprintf("GPU-%d-%d", target, g)}, {"device", fmt.Sprint("nvidia", g)},
						{"exported_namespace", "ml"}, {"exported_pod", fmt.Sprintf("train-%d-0", target)}, {"gpu", fmt.Sprint(g)},
						{"instance", fmt.Sprintf("10.0.%d.%d:9400", target/250, target%250)}, {"job", "gpu"}, {"modelName", "NVIDIA H100 80GB HBM3"},
					} {
						labels = appendLabel(labels, l[0], l[1])
					}
					p = appendSeries(p, labels, []point{{0.5, at}})
				}
			}
			parts, p = append(parts, snappy.Encode(nil, p)), nil
		}
		at += 15_000
		return parts
	}
	take := func(parts [][]byte) {
		for _, p := range parts {
			number++
			if err := a.Add(number, p, now); err != nil {
				b.Fatal(err)
			}
		}
		now = now.Add(15 * time.Second)
		if _, err := a.Due(now); err != nil {
			b.Fatal(err)
		}
	}
	for range 4 {
		take(round())
	}
	for b.Loop() {
		b.StopTimer()
		parts := round()
		b.StartTimer()
		take(parts)
		samples += targets * gpus * len(names)
	}
	b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
}
