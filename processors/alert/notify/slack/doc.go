// Package slack sends messages to Slack: through an incoming webhook now; the answers of the
// web API (bot token) are already understood.
//
// Here live Slack's payload, its documented limits, its escaping, its answers and its rate
// limit. What is worth a message, and how often, is package alert's matter.
package slack
