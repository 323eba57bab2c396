package event

import (
	"time"

	"github.com/idlewatt/idlewatt/schema/money"
)

// Object is one archived file: content-addressed by SHA256, never changed.
type Object struct {
	SHA256      string `json:"sha256"`
	Size        int64  `json:"size"`
	Name        string `json:"name"`        // as the user or the provider calls it, for messages
	Encoding    string `json:"encoding"`    // csv, parquet, or json for an answer of an API
	Compression string `json:"compression"` // none, gzip or zstd
}

// BillingObject says that bytes of a bill are in the archive.
type BillingObject struct {
	Source string `json:"source"`
	Format string `json:"format"`
	Object
}

// BillingDelivery is the unit of work: one version of one or more delivery scopes, with all
// the files that make it.
type BillingDelivery struct {
	Delivery string   `json:"delivery"` // id of this delivery: hash of source, format, version and objects
	Source   string   `json:"source"`
	Format   string   `json:"format"`
	Objects  []Object `json:"objects"`
	// Version orders the deliveries of a scope; see ParseVersion. Empty: none was given.
	Version string `json:"version,omitempty"`
	// Covers are months (YYYY-MM) and days that the delivery is whole for even where it has no
	// rows: what was live there goes.
	Covers   []string         `json:"covers,omitempty"`
	Replaces []string         `json:"replaces,omitempty"` // sources whose live scopes this one may retire
	Assume   Assumptions      `json:"assume,omitzero"`
	Controls *DeliveryControl `json:"controls,omitempty"`
}

// Assumptions are what a person states about files whose columns do not say it.
type Assumptions struct {
	Period   string `json:"period,omitempty"`   // YYYY-MM: billing period of rows without one
	Currency string `json:"currency,omitempty"` // ISO 4217, of rows without one
	Account  string `json:"account,omitempty"`  // billing account of rows without one
	// CapacityBlock is a regular expression (RE2) over usage type, reservation type and
	// description of AWS rows; what it matches is a Capacity Block. Empty: see aws_cur.sql.
	CapacityBlock string `json:"capacity_block,omitempty"`
}

// DeliveryControl holds what the provider's manifest promises of a delivery.
type DeliveryControl struct {
	Rows        *int64         `json:"rows,omitempty"`
	Billed      *money.Decimal `json:"billed,omitempty"`
	SubmittedAt *time.Time     `json:"submitted_at,omitempty"`
}

// BillingInvoice is what an issuer has invoiced (FOCUS InvoiceDetail names).
type BillingInvoice struct {
	InvoiceIssuerName  string        `json:"InvoiceIssuerName"`
	BillingAccountID   string        `json:"BillingAccountId"`
	InvoiceID          string        `json:"InvoiceId"`
	BillingPeriodStart time.Time     `json:"BillingPeriodStart"`
	BillingPeriodEnd   time.Time     `json:"BillingPeriodEnd"`
	BillingCurrency    string        `json:"BillingCurrency"`
	BilledCost         money.Decimal `json:"BilledCost"`
	Source             string        `json:"source"`
}
