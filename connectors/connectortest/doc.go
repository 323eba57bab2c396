// Package connectortest holds every connector against the contract of package connectors. It
// finds them in connectors/all, so that a new one is tested from its first line on.
//
// What a provider's feed means is tested in the connector's own folder.
package connectortest
