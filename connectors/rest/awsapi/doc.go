// Package awsapi is the way of connectors to Amazon Web Services: who asks, what an answer
// that is an error means, and a cursor that fits.
//
// What the answers of a service mean is its connector's matter.
package awsapi
