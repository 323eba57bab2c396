// Package awscur fetches AWS billing exports from S3: legacy Cost and Usage Reports, CUR 2.0
// and FOCUS of Data Exports.
//
// Here live where a delivery's manifest lies, what a manifest says, and how a billing month is
// read whole while AWS may be rewriting it. A manifest is the commit record of a month, written
// after its files; what lies in the bucket and is in no manifest is never read. What the
// columns mean is schema/normalize's matter, which delivery of a month wins the store's.
package awscur
