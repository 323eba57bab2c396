// Package dcgm scrapes NVIDIA's dcgm-exporter and imports its text.
//
// Here live the targets and how they are found, the scraper and the file format. What the text means is
// connectors/gpuseries; whether a GPU is idle is processors/utilize.
package dcgm
