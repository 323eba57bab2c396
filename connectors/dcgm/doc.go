// Package dcgm reads the text that NVIDIA's dcgm-exporter serves, directly or through
// Prometheus, and states what it says about each GPU in canonical units.
//
// Here live the tolerant reader of the text, the table of metric names with their units by
// exporter generation, what is not believed (blanks, strays, contradictions between
// replicas), who holds a device, and the scraper. Whether a GPU is idle is not decided here:
// one scrape never proves it; see processors/utilize.
package dcgm
