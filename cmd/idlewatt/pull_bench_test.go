package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors/awscur/buckettest"
	"github.com/idlewatt/idlewatt/deploy/demo"
	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// BenchmarkPullExport pulls a CUR 2.0 export of IDLEWATT_BENCH_ROWS rows (5,000,000 if not
// set) from a bucket on this machine, in 40 files and in 4, into an empty data directory, loads
// it and reports rows/s and the peak memory of the Go process, without the engine's, in MiB. It
// must be under 256 and must not grow with the size of the files. Linux only: it reads /proc.
func BenchmarkPullExport(b *testing.B) {
	rows := 5_000_000
	if s := os.Getenv("IDLEWATT_BENCH_ROWS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		rows = n
	}
	for _, files := range []int{40, 4} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) { benchPull(b, rows, files) })
	}
}

func benchPull(b *testing.B, rows, files int) {
	b.Helper()
	dir := b.TempDir()
	bucket, size := benchBucket(b, dir, rows, files)
	config := filepath.Join(dir, "idlewatt.yaml")
	writeFile(b, config, fmt.Sprintf("sources:\n  - {name: payer, type: awscur, bucket: %s, prefix: exports, export: cur2, credentials_file: %s, endpoint: '%s', path_style: true}\n",
		bucket.Name, buckettest.Credentials(b), bucket.URL))
	var took time.Duration
	peak, pulls := 0, 0
	for b.Loop() {
		pulls++
		data := filepath.Join(dir, fmt.Sprint("data", pulls))
		began := time.Now()
		peak = max(peak, peakOf(b, data, "pull", "-c", config))
		took += time.Since(began)
		if out := answer(b, data, "SELECT count() FROM charges"); out != fmt.Sprint(rows) {
			b.Fatalf("%s rows are live, want %d", out, rows)
		}
		if err := os.RemoveAll(data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows*pulls)/took.Seconds(), "rows/s")
	b.ReportMetric(float64(peak)/1024, "MiB-peak-RSS")
	b.ReportMetric(float64(size)/float64(files)/1e6, "MB/file")
	b.ReportMetric(0, "ns/op")
}

// benchBucket makes a month of so many rows in so many files.
func benchBucket(b *testing.B, dir string, rows, files int) (bucket *buckettest.Bucket, size int64) {
	b.Helper()
	bucket = buckettest.New(b, "bench-billing")
	at := time.Date(2026, 11, 1, 6, 15, 0, 0, time.UTC)
	var keys []string
	var columns []map[string]string
	for i := range files {
		path := filepath.Join(dir, fmt.Sprintf("cur2-%05d.snappy.parquet", i+1))
		if err := demo.GenerateCUR(path, rows/files, uint64(i+1)); err != nil {
			b.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		size += st.Size()
		keys = append(keys, "exports/cur2/data/BILLING_PERIOD=2026-10/"+filepath.Base(path))
		bucket.PutFile(keys[i], path, at)
		if columns == nil {
			h, err := normalize.ReadHeader(path, event.Object{Name: path, Encoding: "parquet", Compression: "none"})
			if err != nil {
				b.Fatal(err)
			}
			for _, c := range h.Names() {
				columns = append(columns, map[string]string{"name": c})
			}
		}
	}
	text, err := json.Marshal(map[string]any{"columns": columns, "dataFiles": keys})
	if err != nil {
		b.Fatal(err)
	}
	bucket.Put("exports/cur2/metadata/BILLING_PERIOD=2026-10/cur2-Manifest.json", text, at)
	return bucket, size
}

func command(b *testing.B, data string, args ...string) *exec.Cmd {
	b.Helper()
	library, err := local.FindLibrary()
	if err != nil {
		b.Fatal(err)
	}
	bin, err := exec.LookPath("idlewatt")
	if err != nil {
		b.Fatal(err)
	}
	c := exec.CommandContext(b.Context(), bin, args...)
	c.Env = append(os.Environ(), local.LibraryEnv+"="+library, "IDLEWATT_DATA="+data)
	return c
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakOf runs a command and returns the peak of its own resident memory in KiB.
func peakOf(b *testing.B, data string, args ...string) int {
	b.Helper()
	c := command(b, data, args...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	peak := 0
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case err := <-done:
			tick.Stop()
			if err != nil || peak == 0 {
				b.Fatalf("idlewatt %v: %v, peak %d\n%s", args, err, peak, out.String())
			}
			return peak
		case <-tick.C:
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
			if m := highWater.FindSubmatch(text); m != nil {
				n, _ := strconv.Atoi(string(m[1]))
				peak = max(peak, n)
			}
		}
	}
}

func answer(b *testing.B, data, sql string) string {
	b.Helper()
	out, err := command(b, data, "query", sql).CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return string(bytes.TrimSpace(out))
}

func writeFile(b *testing.B, path, text string) {
	b.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}
