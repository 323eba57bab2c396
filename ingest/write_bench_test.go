package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"

	"github.com/idlewatt/idlewatt/connectors/prometheus"
	"github.com/idlewatt/idlewatt/schema/bus"
)

// fleet is what a Prometheus sends of one moment: 8 GPUs a target, 13 series each with the
// labels of a Kubernetes exporter, 2,000 samples a request, spread over requests.
func fleet(targets int, at time.Time) [][]byte {
	var all []one
	names := []string{
		"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
		"DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_FB_USED",
		"DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_DEV_FB_TOTAL",
	}
	for _, name := range names {
		for t := range targets {
			for g := range 8 {
				all = append(all, one{name, fmt.Sprintf("10.0.%d.%d:9400", t/250, t%250), fmt.Sprintf("GPU-%08x-aaaa-bbbb-cccc-%012d", t, g), at, 0})
			}
		}
	}
	var out [][]byte
	for len(all) > 0 {
		n := min(2000, len(all))
		out = append(out, snappy.Encode(nil, v1(all[:n]...)))
		all = all[n:]
	}
	return out
}

// processor is how much processor time this process has had: on a busy machine it tells more
// than the clock.
func processor(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	must(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRemoteWrite sends the scrapes of 1,000 targets with 8 GPUs each over eight
// connections and waits until every one is stated on the bus. Everything, sender and bus
// included, runs on two cores.
func BenchmarkRemoteWrite(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	const targets, perTarget = 1000, 8 * 13
	js := openBus(b)
	srv := writeDoor(b, js)
	var whole atomic.Int64
	more := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	how := prometheus.DefaultAssembly()
	how.Watch = time.Second
	w := Writes{
		Publisher: Publisher{JS: js, Now: time.Now}, Assembly: how, Log: slog.New(slog.DiscardHandler),
		Observe: func(x prometheus.Assembled) {
			whole.Add(int64(x.Scrapes - x.Incomplete))
			select {
			case more <- struct{}{}:
			default:
			}
		},
	}
	go func() { done <- w.Run(ctx) }()
	at := time.Now().Add(-100 * time.Hour)
	round := func(requests [][]byte) {
		queue := make(chan []byte)
		var senders sync.WaitGroup
		for range 8 {
			senders.Go(func() {
				for body := range queue {
					if status, _ := post(b, srv.URL, body, nil); status != http.StatusNoContent {
						b.Errorf("status %d", status)
					}
				}
			})
		}
		for _, r := range requests {
			queue <- r
		}
		close(queue)
		senders.Wait()
	}
	for range 4 { // it learns what there is
		round(fleet(targets, at))
		at = at.Add(15 * time.Second)
	}
	for whole.Load() < 3*targets { // all but the first
		<-more
	}
	var took, busy time.Duration
	n := 0
	for b.Loop() {
		b.StopTimer()
		requests := fleet(targets, at)
		at = at.Add(15 * time.Second)
		n++
		b.StartTimer()
		began, used := time.Now(), processor(b)
		round(requests)
		for whole.Load() < int64(3+n)*targets {
			<-more
		}
		took += time.Since(began)
		busy += processor(b) - used
	}
	b.ReportMetric(float64(busy.Microseconds())/float64(n*targets*perTarget), "cpu-us/sample")
	b.ReportMetric(float64(n*targets*perTarget)/took.Seconds(), "samples/s")
	cancel()
	must(b, <-done)
	b.Logf("%d messages on %s", held(b, js, bus.RawGPU), bus.RawGPU)
}
