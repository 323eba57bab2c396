// Package gpuseries reads the series that NVIDIA's dcgm-exporter states, from its text or from
// a Prometheus that scraped it, and says what they mean for each GPU in canonical units.
//
// Here live the tolerant reader of the text, the table of metric names with their units by
// exporter generation, what is not believed (blanks, strays, contradictions between
// replicas), and who holds a device. It is shared by the connectors that get such series;
// none of them lives here. Whether a GPU is idle is not decided here: one scrape never proves
// it; see processors/utilize.
package gpuseries
