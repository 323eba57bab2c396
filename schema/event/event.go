// Package event holds the CloudEvents envelope and the payloads that travel on the bus.
//
// Here live the forms of facts. How they are fetched is a connector's matter, how they are
// stored a processor's. Names of streams and subjects are in schema/bus.
package event

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
)

// SpecVersion is the CloudEvents version that idlewatt reads and writes.
const SpecVersion = "1.0"

// Types of events, in the order of the data path. A processor publishes only types of a
// later stream than the one it reads.
const (
	TypeBillingObject   = "billing.object"
	TypeBillingDelivery = "billing.delivery"
	TypeBillingInvoice  = "billing.invoice"

	TypeInventoryInstance = "inventory.instance"
	TypeInventoryPrice    = "inventory.price"
	TypeInventoryPoll     = "inventory.poll"
	TypeInventoryWallet   = "inventory.wallet"
	TypeInventoryNode     = "inventory.node"

	TypeGPUWrite   = "gpu.write"
	TypeGPUSamples = "gpu.samples"

	TypeJobStarted      = "job.started"
	TypeJobPlaced       = "job.placed"
	TypeJobCheckpointed = "job.checkpointed"
	TypeJobFinished     = "job.finished"

	TypeLedgerJobCost   = "ledger.job_cost"
	TypeLedgerIdleWaste = "ledger.idle_waste"
	TypeLedgerRestated  = "ledger.restated"

	TypeAlertFiring   = "alert.firing"
	TypeAlertResolved = "alert.resolved"

	TypeDead = "dead.event"
)

// Event is a CloudEvents 1.0 event. ID is the same on every retry of the same fact: it is
// also the Nats-Msg-Id.
type Event struct {
	ID         string
	Type       string
	Source     string
	Subject    string
	Time       time.Time
	DataSchema string
	Data       json.RawMessage
}

// ID returns the id of a fact: a hash of its source, its natural key and its version. The
// same three texts give the same id on every machine.
func ID(source, naturalKey, version string) string {
	sum := sha256.Sum256([]byte(source + "\x00" + naturalKey + "\x00" + version))
	return hex.EncodeToString(sum[:16])
}

// New builds an event whose id follows from (source, naturalKey, version).
func New(typ, source, naturalKey, version string, at time.Time, payload any) (Event, error) {
	data, err := json.Marshal(payload)
	if err != nil {
		return Event{}, fmt.Errorf("encoding %s: %w", typ, err)
	}
	return Event{
		ID: ID(source, naturalKey, version), Type: typ, Source: source, Subject: naturalKey,
		Time: at.UTC(), DataSchema: DataSchema(typ), Data: data,
	}, nil
}

// DataSchema returns the URI that names the payload's form and its version.
func DataSchema(typ string) string { return "https://idlewatt.dev/schema/" + typ + "/v1" }

// Decode reads the payload into v. Unknown fields are ignored: a newer producer may send more.
func (e Event) Decode(v any) error {
	if err := json.Unmarshal(e.Data, v); err != nil {
		return fmt.Errorf("decoding %s %s: %w", e.Type, e.ID, err)
	}
	return nil
}

// Validate reports everything that keeps the event from being a CloudEvents 1.0 event.
func (e Event) Validate() error {
	var errs []error
	for name, v := range map[string]string{"id": e.ID, "type": e.Type, "source": e.Source} {
		if strings.TrimSpace(v) == "" {
			errs = append(errs, fmt.Errorf("attribute %q is required", name))
		}
	}
	if !json.Valid(e.Data) {
		errs = append(errs, errors.New("data is not valid JSON"))
	}
	return errors.Join(errs...)
}

// ParseJSON reads one event in the CloudEvents JSON format (structured mode).
func ParseJSON(line []byte) (Event, error) {
	var c ce.Event
	if err := json.Unmarshal(line, &c); err != nil {
		return Event{}, fmt.Errorf("reading CloudEvents JSON: %w", err)
	}
	if err := c.Validate(); err != nil {
		return Event{}, fmt.Errorf("checking CloudEvents attributes: %w", err)
	}
	return Event{
		ID: c.ID(), Type: c.Type(), Source: c.Source(), Subject: c.Subject(), Time: c.Time().UTC(),
		DataSchema: c.DataSchema(), Data: json.RawMessage(c.Data()),
	}, nil
}

// JSON writes the event in the CloudEvents JSON format (structured mode), one line.
func (e Event) JSON() ([]byte, error) {
	c := ce.New(SpecVersion)
	c.SetID(e.ID)
	c.SetType(e.Type)
	c.SetSource(e.Source)
	if e.Subject != "" {
		c.SetSubject(e.Subject)
	}
	if !e.Time.IsZero() {
		c.SetTime(e.Time)
	}
	if e.DataSchema != "" {
		c.SetDataSchema(e.DataSchema)
	}
	if err := c.SetData(ce.ApplicationJSON, e.Data); err != nil {
		return nil, fmt.Errorf("writing CloudEvents JSON: %w", err)
	}
	return json.Marshal(c)
}
