// Package demo makes the sample month that `idlewatt demo` shows: two deliveries of one AWS
// bill and one of another (CUR 2.0 Parquet), invoices, job and inventory events, and the
// text that dcgm-exporter would have served on five nodes.
//
// Everything is invented, and the same on every machine and every day: no clock, no random
// numbers, only arithmetic on positions. What the month adds up to is computed here too, so
// that a reader can be held against it. How any of it is read, stored or shown is not decided
// here: this package imports schema and nothing else of ours.
package demo
