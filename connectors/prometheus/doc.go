// Package prometheus reads the GPU series that a Prometheus, Thanos or VictoriaMetrics has, by
// asking for them or by remote write.
//
// Here live the queries, the form of remote write, and how scrapes that came in pieces are put
// together. What a series means is connectors/gpuseries; the HTTP door and the keeping of what
// came is ingest. Samples are asked for as they were stored, with their own times, never as
// query_range evaluates them: that repeats a value for up to five minutes after the last one,
// and a value that is repeated is no evidence.
package prometheus
