package utilize

import (
	"testing"
	"time"
)

// BenchmarkDerive derives 5 nodes x 8 GPUs x 10 days at a sample a minute: 576,000 samples.
func BenchmarkDerive(b *testing.B) {
	r := newRig(b)
	r.exec(`INSERT INTO idlewatt_store.gpu_samples (Uuid, At, ReceivedAt, Target, Node, Model, Complete, Utilization, Engine, Sm, Tensor, Dram,
			PowerW, EnergyJ, FbUsedMiB, FbTotalMiB, OwnerKind, Owners, OwnerLabels, OwnerConfidence, Event)
		SELECT concat('GPU-', toString(n), '-', toString(g)) AS Uuid, toDateTime64('2026-09-01 00:00:00', 3, 'UTC') + INTERVAL m MINUTE AS At, At,
			concat('n', toString(n), ':9400'), concat('n', toString(n)), 'NVIDIA H100 80GB HBM3', true,
			if(busy, 0.97, 0), if(busy, 0.95, 0), if(busy, 0.8, 0), if(busy, 0.4, 0), if(busy, 0.3, 0),
			if(busy, 650 + rand() % 50, 68 + (rand() % 100) / 50), m * 60 * 68. + rand() % 60, if(busy, 70000, 4), 81559,
			if(busy, 'slurm', ''), if(busy, [toString(1000 + intDiv(m, 300))], []), map(), 'high', concat(toString(n), '-', toString(m))
		FROM (SELECT number % 5 AS n, intDiv(number, 5) % 8 AS g, intDiv(number, 40) AS m, intDiv(m, 300) % 3 != 0 AS busy FROM numbers(5 * 8 * 14400))`)
	r.exec(`INSERT INTO idlewatt_store.scrapes (Target, At, ReceivedAt, Node, Ok, Complete, Gpus, Event)
		SELECT DISTINCT Target, At, At, Node, true, true, 8, Event FROM idlewatt_store.gpu_samples`)
	for i := range 50 {
		start := t0().Add(time.Duration(i) * 5 * time.Hour)
		r.job(string(rune('a'+i%26))+start.String(), []string{"n1"}, start, start.Add(4*time.Hour), 0)
	}
	for b.Loop() {
		r.exec("TRUNCATE TABLE idlewatt_store.interval_commits")
		r.exec("TRUNCATE TABLE idlewatt_store.gpu_intervals")
		s := r.derive()
		b.ReportMetric(576000/s.Took.Seconds(), "samples/s")
		b.ReportMetric(float64(s.Rows), "rows")
		if s.Derived != 5*8*11 {
			b.Fatalf("derived %+v", s)
		}
		again := r.derive()
		b.ReportMetric(again.Took.Seconds()*1000, "ms/unchanged")
		if again.Derived != 0 {
			b.Fatalf("derived again: %+v", again)
		}
	}
}
