// Package bus names the streams, subjects and consumers of the event log and says how long
// each stream keeps its facts.
//
// Here live names and limits. Who publishes is ingest, who consumes are the processors.
package bus

import "time"

// Stream is one JetStream stream as idlewatt wants it.
type Stream struct {
	Name     string
	Subjects []string
	// MaxAge is zero where facts are kept for good.
	MaxAge time.Duration
	// MaxBytes is zero where only the disk limits the stream. A full stream refuses new
	// messages; it never discards unread ones.
	MaxBytes int64
}

// Names of the streams, in the order of the data path.
const (
	RawBilling   = "RAW_BILLING"
	RawInventory = "RAW_INVENTORY"
	RawWrite     = "RAW_WRITE"
	RawGPU       = "RAW_GPU"
	RawJob       = "RAW_JOB"
	Ledger       = "LEDGER"
	Alert        = "ALERT"
	Dead         = "DEAD"
)

// DuplicateWindow is how long the server itself drops a repeated Nats-Msg-Id. It ends, so
// every consumer is idempotent on its own.
const DuplicateWindow = 2 * time.Minute

// MaxMessage is the largest message, headers counted, that idlewatt sends. NATS refuses
// more than 1,048,576 bytes by default; the rest is room for headers added on the way.
const MaxMessage = 1_000_000

// MaxInline is the largest payload that travels inside an event; larger ones are archived.
const MaxInline = 512 * 1024

// Streams returns every stream, in the order of the data path. Subjects hold only words of
// our own: ids from outside never become part of a subject.
func Streams() []Stream {
	const day = 24 * time.Hour
	return []Stream{
		{Name: RawBilling, Subjects: []string{"raw.billing.>"}},
		{Name: RawInventory, Subjects: []string{"raw.inventory.>"}},
		{Name: RawWrite, Subjects: []string{"raw.write.>"}, MaxAge: 14 * day}, // emptied as scrapes are put together
		{Name: RawGPU, Subjects: []string{"raw.gpu.>"}, MaxAge: 14 * day},
		{Name: RawJob, Subjects: []string{"raw.job.>"}},
		{Name: Ledger, Subjects: []string{"ledger.>"}},
		{Name: Alert, Subjects: []string{"alert.>"}},
		{Name: Dead, Subjects: []string{"dead.>"}},
	}
}

// subjects maps an event type to the subject it is published on.
var subjects = map[string]string{
	"billing.object":     "raw.billing.object",
	"billing.delivery":   "raw.billing.delivery",
	"billing.invoice":    "raw.billing.invoice",
	"inventory.instance": "raw.inventory.instance",
	"inventory.price":    "raw.inventory.price",
	"inventory.poll":     "raw.inventory.poll",
	"inventory.wallet":   "raw.inventory.wallet",
	"inventory.node":     "raw.inventory.node",
	"gpu.write":          "raw.write.gpu",
	"gpu.samples":        "raw.gpu.samples",
	"job.started":        "raw.job.started",
	"job.placed":         "raw.job.placed",
	"job.checkpointed":   "raw.job.checkpointed",
	"job.finished":       "raw.job.finished",
	"ledger.job_cost":    "ledger.job_cost",
	"ledger.idle_waste":  "ledger.idle_waste",
	"ledger.restated":    "ledger.restated",
	"alert.firing":       "alert.firing",
	"alert.resolved":     "alert.resolved",
	"dead.event":         "dead.event",
}

// Subject returns the subject for an event type; ok is false for an unknown type.
func Subject(eventType string) (subject string, ok bool) {
	subject, ok = subjects[eventType]
	return subject, ok
}

// Key-value buckets.
const (
	BucketLeases  = "idlewatt_leases"  // one key per billing account; the commit lease
	BucketCursors = "idlewatt_cursors" // one key per connector source
	BucketAlerts  = "idlewatt_alerts"  // state of every alert instance
)
