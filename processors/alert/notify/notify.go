// Package notify is what every way of telling people shares: the message, the interface of
// a notifier and the two kinds of failure.
//
// Here live words only. When to tell is package alert's matter, how a service wants its
// message is that service's folder (slack). No message text is made here.
package notify

import (
	"context"
	"fmt"
	"time"
)

// Message is one message to people, free of any service's markup. Every text is plain: a
// notifier escapes it.
type Message struct {
	// ID is the same on every attempt to send the same message.
	ID string
	// Heading is one line that can stand alone, on a phone's lock screen for example.
	Heading string
	// Sections follow in order.
	Sections []Section
	// Footer is small print: rule, time, how to change it.
	Footer string
}

// Section is a part of a message. Empty parts are left out.
type Section struct {
	Title  string
	Text   string
	Fields []Field
	// Code is a command to copy.
	Code string
}

// Field is a named value.
type Field struct{ Name, Value string }

// Notifier sends messages to one place.
type Notifier interface {
	// Send returns nil once the service has taken the message, a *RetryError when the same
	// message shall be sent again later, and a *PermanentError when it never will be taken.
	// Any other error counts as a RetryError. It is safe for concurrent use and keeps the
	// order of calls made one after the other.
	Send(ctx context.Context, m Message) error
}

// RetryError says that the same message may be taken later.
type RetryError struct {
	// After is how long the service wants us to wait; zero leaves it to the caller.
	After time.Duration
	Err   error
}

func (e *RetryError) Error() string { return fmt.Sprintf("not delivered yet: %v", e.Err) }
func (e *RetryError) Unwrap() error { return e.Err }

// PermanentError says that sending again is of no use until a person changes something.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return fmt.Sprintf("never to be delivered: %v", e.Err) }
func (e *PermanentError) Unwrap() error { return e.Err }
