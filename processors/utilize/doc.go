// Package utilize turns GPU telemetry into intervals with one state each: what a device did,
// who held it, and how sure that is.
//
// Here live the storing of gpu.samples, the verdict (what counts as work, as idleness and as
// no evidence), and the derivation of idlewatt_store.gpu_intervals from samples and jobs.
// How an exporter's text is read is a connector's matter; what an hour costs is attribute's.
//
// A false idle is the worst mistake this package can make: absent is not zero, zero is not
// idle, a gap is unknown and breaks a streak, and every signal that contradicts idleness
// wins over the signal that claims it.
package utilize
