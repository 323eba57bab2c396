// Package lines is the file form of charges that a provider tells by an API and not by an
// export: CSV in FOCUS 1.4 names plus a few of ours, normalised as format charge-lines.
//
// Here lives the form. What a provider's answer means is its connector's matter, which writes
// lines; amounts stay text from the answer to the store.
package lines

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/idlewatt/idlewatt/schema/money"
)

// Format is the name of the bill format of these files (see schema/normalize).
const Format = "charge-lines"

// Line is one charge. Names and meanings are those of FOCUS 1.4; empty texts, nil amounts and
// zero times are absent. Times are UTC, ends exclusive.
type Line struct {
	BillingAccountID, BillingAccountName string
	SubAccountID, SubAccountName         string
	BillingCurrency                      string    // ISO 4217
	BillingPeriodStart, BillingPeriodEnd time.Time // absent: the month of ChargePeriodStart
	ChargePeriodStart, ChargePeriodEnd   time.Time
	ChargeCategory                       string // Usage, Purchase, Tax, Credit, Adjustment
	ChargeClass, ChargeDescription       string
	ChargeFrequency                      string
	BilledCost                           money.Decimal
	EffectiveCost                        *money.Decimal // absent: not known; usage paid as it runs has it equal to BilledCost
	ListCost, ContractedCost             *money.Decimal
	ListUnitPrice, ContractedUnitPrice   *money.Decimal
	ConsumedQuantity                     *money.Decimal
	ConsumedUnit                         string
	PricingQuantity                      *money.Decimal
	PricingUnit                          string
	PricingCategory                      string // Standard, Dynamic, Committed, Other
	CommitmentDiscountID                 string
	CommitmentDiscountCategory           string // Spend, Usage
	CommitmentDiscountType               string
	CommitmentDiscountStatus             string // Used, Unused
	ServiceProviderName                  string
	HostProviderName                     string
	InvoiceIssuerName                    string
	InvoiceID                            string
	ServiceCategory, ServiceName         string // e.g. Compute, Storage, Networking, AI and Machine Learning
	ServiceSubcategory                   string
	RegionID, RegionName                 string
	AvailabilityZone                     string
	ResourceID, ResourceName             string
	ResourceType                         string
	SkuID, SkuMeter, SkuPriceID          string
	Tags                                 map[string]string
	// LineItemType is our charge class: compute, storage_running, storage_stopped,
	// network_volume, network_egress, network_ingress, platform_fee, commitment, rounding, ...
	LineItemType string
	PricingModel string // on_demand, community, secure, spot, reserved, savings_plan, marketplace, serverless, cluster
	InstanceType string
	GPUModel     string // in catalogue words if the catalogue knows it: H100, A100-80GB
	// GPUCount and MachineHours are given only on lines that bill the running of a GPU machine:
	// hours are of the whole machine, and GPU-hours are their product.
	GPUCount     *money.Decimal
	MachineHours *money.Decimal
}

// column is one column of the file and how a line fills it.
type column struct {
	name string
	text func(l *Line) string
}

// Header returns the names of the columns, in file order.
func Header() []string {
	var out []string
	for _, c := range columns {
		out = append(out, c.name)
	}
	return out
}

// Writer writes lines as CSV. The header is written even if no line follows.
type Writer struct {
	csv *csv.Writer
	n   int
}

// NewWriter starts a file.
func NewWriter(w io.Writer) (*Writer, error) {
	out := &Writer{csv: csv.NewWriter(w)}
	if err := out.csv.Write(Header()); err != nil {
		return nil, fmt.Errorf("writing charge lines: %w", err)
	}
	return out, nil
}

// Write appends one line. A line without its period, category, currency, account or provider
// is refused, naming what is missing.
func (w *Writer) Write(l Line) error {
	if err := l.check(); err != nil {
		return fmt.Errorf("charge line %d: %w", w.n+1, err)
	}
	if l.BillingPeriodStart.IsZero() {
		s := l.ChargePeriodStart.UTC()
		l.BillingPeriodStart = time.Date(s.Year(), s.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	if l.BillingPeriodEnd.IsZero() {
		l.BillingPeriodEnd = l.BillingPeriodStart.AddDate(0, 1, 0)
	}
	rec := make([]string, len(columns))
	for i, c := range columns {
		rec[i] = c.text(&l)
	}
	if err := w.csv.Write(rec); err != nil {
		return fmt.Errorf("writing charge lines: %w", err)
	}
	w.n++
	return nil
}

// Count returns how many lines were written.
func (w *Writer) Count() int { return w.n }

// Close flushes; it does not close what is below.
func (w *Writer) Close() error {
	w.csv.Flush()
	if err := w.csv.Error(); err != nil {
		return fmt.Errorf("writing charge lines: %w", err)
	}
	return nil
}

func (l *Line) check() error {
	var errs []error
	for name, v := range map[string]string{
		"BillingAccountId": l.BillingAccountID, "BillingCurrency": l.BillingCurrency, "ChargeCategory": l.ChargeCategory,
		"ServiceProviderName": l.ServiceProviderName,
	} {
		if v == "" {
			errs = append(errs, fmt.Errorf("%s is missing", name))
		}
	}
	if l.ChargePeriodStart.IsZero() || !l.ChargePeriodEnd.After(l.ChargePeriodStart) {
		errs = append(errs, fmt.Errorf("charge period %v to %v is none", l.ChargePeriodStart, l.ChargePeriodEnd))
	}
	if err := money.Check(l.BilledCost); err != nil {
		errs = append(errs, fmt.Errorf("BilledCost: %w", err))
	}
	return errors.Join(errs...)
}

func amount(d *money.Decimal) string {
	if d == nil {
		return ""
	}
	return d.String()
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func tags(m map[string]string) string {
	if len(m) == 0 {
		return ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		return "" // a map of texts always encodes
	}
	return string(b)
}
