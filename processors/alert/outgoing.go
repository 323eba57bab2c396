package alert

import (
	"time"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Notice is the payload of alert.firing and alert.resolved: what one alert has to say.
type Notice struct {
	Incident string    `json:"incident"`
	Rule     string    `json:"rule"`
	Kind     string    `json:"kind"`
	Subject  string    `json:"subject"`
	State    State     `json:"state"`
	At       time.Time `json:"at"`
	Since    time.Time `json:"since,omitzero"`
	Heading  string    `json:"heading"`
	// Amount is the cost so far or the month's spend; nil is unknown, not zero.
	Amount   *money.Decimal   `json:"amount,omitempty"`
	Currency string           `json:"currency,omitempty"`
	Sections []notify.Section `json:"sections,omitempty"`
	// Brief is what stands for this notice in a message about several.
	Brief string `json:"brief,omitempty"`
	// GroupTitle says what the alerts of a group have in common.
	GroupTitle string `json:"group_title,omitempty"`
}

// Outgoing is a notice on its way: stored, then published, then sent.
type Outgoing struct {
	Notice    Notice    `json:"notice"`
	Published bool      `json:"published,omitempty"`
	SentAt    time.Time `json:"sent_at,omitzero"`
	Attempts  int       `json:"attempts,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"`
	// LastError is what the channel said last; with Failed it is final.
	LastError string `json:"last_error,omitempty"`
	Failed    bool   `json:"failed,omitempty"`
	// Silent notices are published and not sent.
	Silent bool `json:"silent,omitempty"`
}

func (o *Outgoing) delivered() bool { return o.Silent || o.Failed || !o.SentAt.IsZero() }

func (o *Outgoing) done() bool { return o.Published && o.delivered() }

// compareAmount orders notices by amount; an unknown one is below all others. Currencies are
// not compared: the order only says who speaks first.
func (n Notice) compareAmount(m Notice) int {
	switch {
	case n.Amount == nil && m.Amount == nil:
		return 0
	case n.Amount == nil:
		return -1
	case m.Amount == nil:
		return 1
	}
	return n.Amount.Cmp(*m.Amount)
}
