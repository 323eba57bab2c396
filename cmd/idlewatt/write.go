package main

import (
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/idlewatt/idlewatt/connectors/prometheus"
	"github.com/idlewatt/idlewatt/ingest"
)

// writeConfig is how series that come by remote write are read.
type writeConfig struct {
	// Labels are the pod labels to keep; empty keeps the default list.
	Labels []string `yaml:"labels"`
	// NodeLabels are labels that name the host, the first that is there counts. Without one
	// the exporter's own label does.
	NodeLabels []string `yaml:"node_labels"`
	// Watch is how long a GPU whose series are new or changed is watched before its scrapes
	// can prove idleness. Zero is a minute.
	Watch time.Duration `yaml:"watch"`
}

// writeMetrics count what comes by remote write.
type writeMetrics struct {
	samples, scrapes *client.CounterVec
}

func newWriteMetrics(reg *client.Registry) writeMetrics {
	w := writeMetrics{
		samples: client.NewCounterVec(client.CounterOpts{Name: "idlewatt_write_samples_total",
			Help: "Samples that came by remote write: of a GPU, of something else, under a name that the name table lacks, or refused."}, []string{"what"}),
		scrapes: client.NewCounterVec(client.CounterOpts{Name: "idlewatt_write_scrapes_total",
			Help: "Scrapes put together of remote write: whole, incomplete (they prove no idleness), or parts that came too late."}, []string{"result"}),
	}
	reg.MustRegister(w.samples, w.scrapes)
	return w
}

func (w writeMetrics) taken(x prometheus.Written) {
	w.samples.WithLabelValues("gpu").Add(float64(x.Kept))
	w.samples.WithLabelValues("other").Add(float64(x.Other))
	w.samples.WithLabelValues("unknown_name").Add(float64(x.Unknown))
	w.samples.WithLabelValues("refused").Add(float64(x.Refused))
}

func (w writeMetrics) assembled(x prometheus.Assembled) {
	w.scrapes.WithLabelValues("whole").Add(float64(x.Scrapes - x.Incomplete))
	w.scrapes.WithLabelValues("incomplete").Add(float64(x.Incomplete))
	w.scrapes.WithLabelValues("late").Add(float64(len(x.Late)))
}

// writes puts scrapes together of what comes by remote write.
func (a *app) writes(c writeConfig) ingest.Writes {
	how := prometheus.DefaultAssembly()
	how.NodeLabels = c.NodeLabels
	if len(c.Labels) > 0 {
		how.Labels = c.Labels
	}
	if c.Watch > 0 {
		how.Watch = c.Watch
	}
	return ingest.Writes{Publisher: a.publisher(), Assembly: how, Log: a.log, Observe: a.metrics.write.assembled}
}
