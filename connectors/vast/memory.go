package vast

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// known is what the list of contracts said of one contract, kept a while after it is gone:
// charges say neither GPU nor pricing model.
type known struct {
	GPU     string `json:"gpu,omitempty"`
	RAM     string `json:"ram,omitempty"`
	GPUs    string `json:"n,omitempty"`
	Pricing string `json:"p,omitempty"`
	Label   string `json:"l,omitempty"`
	Place   string `json:"at,omitempty"`
	Last    string `json:"d"` // day on which it was last seen
}

// memory holds contracts by the name that charges give them: instance-<id>.
type memory map[string]known

func (m memory) find(source string) (known, bool) {
	k, ok := m[source]
	return k, ok
}

// note remembers a contract.
func (m memory) note(c contract, now time.Time) {
	m[c.source()] = known{
		GPU: c.GPUName, RAM: c.GPURAM.String(), GPUs: c.NumGPUs.String(), Pricing: c.pricing(), Label: c.Label, Place: c.Geolocation,
		Last: now.UTC().Format(time.DateOnly),
	}
}

// learn remembers a page of contracts.
func (m memory) learn(contracts []json.RawMessage, name string, now time.Time) error {
	for n, raw := range contracts {
		c, err := decodeContract(raw)
		if err != nil {
			return fmt.Errorf("reading %s, instances[%d]: %w", name, n, err)
		}
		m.note(c, now)
	}
	return nil
}

// forget drops contracts that were last seen before a day.
func (m memory) forget(before time.Time) {
	day := before.UTC().Format(time.DateOnly)
	for source, k := range m {
		if k.Last < day {
			delete(m, source)
		}
	}
}

func decodeContract(raw []byte) (contract, error) {
	var c contract
	if err := decode(raw, &c); err != nil {
		return c, err
	}
	if id := c.ID.String(); id == "" || strings.Trim(id, "0123456789") != "" {
		return c, fmt.Errorf("field id: %q is no number", short(id))
	}
	return c, nil
}

func (c contract) source() string { return "instance-" + c.ID.String() }

// pricing tells the models apart: a deposit makes a contract reserved, a bid interruptible.
func (c contract) pricing() string {
	deposit, err := amount("credit_balance", c.CreditBalance)
	switch {
	case c.IsBid:
		return spot
	case err == nil && deposit != nil && deposit.IsPositive():
		return reserved
	}
	return onDemand
}
