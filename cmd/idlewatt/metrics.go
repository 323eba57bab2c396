package main

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/idlewatt/idlewatt/schema/bus"
)

// metrics are the process's own figures for Prometheus.
type metrics struct {
	reg      *prometheus.Registry
	pulls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	lastGood *prometheus.GaugeVec
	messages *prometheus.GaugeVec
	scrapes  *prometheus.CounterVec
	rejected *prometheus.CounterVec
	write    writeMetrics
	now      func() time.Time
}

func newMetrics(now func() time.Time) *metrics {
	m := &metrics{
		reg: prometheus.NewRegistry(), now: now,
		pulls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "idlewatt_source_pulls_total",
			Help: "Pulls of a source by result."}, []string{"source", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "idlewatt_source_pull_duration_seconds",
			Help: "How long pulls took.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 8)}, []string{"source"}),
		lastGood: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idlewatt_source_last_success_timestamp_seconds",
			Help: "When a source was last pulled without error."}, []string{"source"}),
		messages: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idlewatt_stream_messages",
			Help: "Events on a stream; those on DEAD were refused."}, []string{"stream"}),
		scrapes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "idlewatt_scrapes_total",
			Help: "Scrapes of GPUs that were stored, by outcome: ok, incomplete or failed."}, []string{"outcome"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "idlewatt_gpu_rejected_total",
			Help: "GPU readings that were refused, by reason."}, []string{"reason"}),
	}
	m.reg.MustRegister(m.pulls, m.duration, m.lastGood, m.messages, m.scrapes, m.rejected)
	m.write = newWriteMetrics(m.reg)
	return m
}

func (m *metrics) pulled(source string, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	} else {
		m.lastGood.WithLabelValues(source).Set(float64(m.now().Unix()))
	}
	m.pulls.WithLabelValues(source, result).Inc()
	m.duration.WithLabelValues(source).Observe(took.Seconds())
}

// scraped counts a stored scrape; without an outcome it is a further part of one.
func (m *metrics) scraped(outcome string, rejected map[string]int) {
	if outcome != "" {
		m.scrapes.WithLabelValues(outcome).Inc()
	}
	for reason, n := range rejected {
		m.rejected.WithLabelValues(reason).Add(float64(max(n, 0)))
	}
}

// handler serves the metrics; stream sizes are asked for at every scrape.
func (m *metrics) handler(a *app) http.Handler {
	next := promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, s := range bus.Streams() {
			if st, err := a.js.Stream(r.Context(), s.Name); err == nil {
				m.messages.WithLabelValues(s.Name).Set(float64(st.CachedInfo().State.Msgs))
			}
		}
		next.ServeHTTP(w, r)
	})
}
