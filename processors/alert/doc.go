// Package alert decides when people are told and what: rules from YAML, one pass over the
// views every interval, a state machine per alert whose state is in JetStream, and an outbox
// that is emptied into the notifiers.
//
// Here live the rules' meaning and the texts. The figures come from the views of
// schema/migrations; nothing about cost or idleness is calculated here. How a service wants
// its message is in notify/SERVICE.
package alert
