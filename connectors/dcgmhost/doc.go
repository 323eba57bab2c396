// Package dcgmhost reads GPU telemetry from a DCGM host engine, without an exporter.
//
// Here live the connection (with build tag dcgm, which needs cgo) and what the engine's fields
// are called among the series that connectors/gpuseries knows; what they mean and what is not
// believed is said there. Without the tag the source is refused. A host engine knows no pods
// and no jobs: who held a GPU is told by schedulers.
package dcgmhost
