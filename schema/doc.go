// Package schema is the language that the rooms of idlewatt share: event types and
// payloads (event), streams and subjects (bus), exact money (money), ClickHouse tables and
// views (migrations), the SQL that turns a provider's bill into FOCUS rows (normalize) and
// the GPU catalogue (catalog).
//
// Here live forms of facts. Calculations live in processors, provider formats in
// connectors, questions in dashboards. This package imports nothing of ours outside schema.
package schema
