// Package invoicefile reads invoice totals from a six-column CSV, in the names of the FOCUS
// InvoiceDetail dataset.
//
// Holding invoices against bills is the reconciliation view's work.
package invoicefile

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Columns are the six columns, in any order; others are ignored.
var columns = []string{"InvoiceIssuerName", "BillingAccountId", "InvoiceId", "BillingPeriodStart", "BillingCurrency", "BilledCost"}

// Factory describes the format; it has no live connector.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "invoicefile", Summary: "invoice totals, six-column CSV (by hand)",
		Formats: []connectors.Format{{Name: "invoice", Sniff: sniff, Decode: decode}},
	}
}

func sniff(head []byte) bool {
	line, _, _ := strings.Cut(string(head), "\n")
	rec, err := csv.NewReader(strings.NewReader(line)).Read()
	if err != nil || len(rec) > 12 {
		return false
	}
	_, missing := index(rec)
	return len(missing) == 0
}

func index(header []string) (at map[string]int, missing []string) {
	at = map[string]int{}
	for i, h := range header {
		at[strings.ToLower(strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")))] = i
	}
	for _, c := range columns {
		if _, ok := at[strings.ToLower(c)]; !ok {
			missing = append(missing, c)
		}
	}
	return at, missing
}

func decode(ctx context.Context, f connectors.File, emit connectors.Emitter) error {
	r := csv.NewReader(f.Body)
	r.FieldsPerRecord = -1
	header, err := r.Read()
	if err != nil {
		return fmt.Errorf("reading header of %s: %w", f.Name, err)
	}
	at, missing := index(header)
	if len(missing) > 0 {
		return fmt.Errorf("%s: required columns missing: %s; want %s", f.Name, strings.Join(missing, ", "), strings.Join(columns, ","))
	}
	var all []event.BillingInvoice // whole file or nothing: half a set of invoices misleads
	for row := 1; ; row++ {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading %s, row %d: %w", f.Name, row, err)
		}
		inv, column, err := parse(rec, at)
		if err != nil {
			return fmt.Errorf("%s, row %d, column %q: %w", f.Name, row, column, err)
		}
		inv.Source = f.Source
		all = append(all, inv)
	}
	if len(all) == 0 {
		return fmt.Errorf("%s: has a header but no invoices", f.Name)
	}
	for _, inv := range all {
		key := strings.Join([]string{inv.InvoiceIssuerName, inv.BillingAccountID, inv.InvoiceID, inv.BillingPeriodStart.Format("2006-01"), inv.BillingCurrency}, "/")
		e, err := event.New(event.TypeBillingInvoice, "idlewatt/"+f.Source, key, inv.BilledCost.String(), f.Now, inv)
		if err != nil {
			return err
		}
		if err := emit.Event(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func parse(rec []string, at map[string]int) (inv event.BillingInvoice, column string, err error) {
	get := func(c string) string {
		if i := at[strings.ToLower(c)]; i < len(rec) {
			return strings.TrimSpace(rec[i])
		}
		return ""
	}
	inv = event.BillingInvoice{
		InvoiceIssuerName: get("InvoiceIssuerName"), BillingAccountID: get("BillingAccountId"), InvoiceID: get("InvoiceId"),
		BillingCurrency: strings.ToUpper(get("BillingCurrency")),
	}
	for _, c := range []string{"InvoiceIssuerName", "BillingAccountId", "BilledCost", "BillingPeriodStart"} {
		if get(c) == "" {
			return inv, c, errors.New("is empty")
		}
	}
	if len(inv.BillingCurrency) != 3 {
		return inv, "BillingCurrency", fmt.Errorf("%q is no ISO 4217 code", get("BillingCurrency"))
	}
	if inv.BillingPeriodStart, err = month(get("BillingPeriodStart")); err != nil {
		return inv, "BillingPeriodStart", err
	}
	inv.BillingPeriodEnd = inv.BillingPeriodStart.AddDate(0, 1, 0)
	if inv.BilledCost, _, err = money.Parse(get("BilledCost")); err != nil {
		return inv, "BilledCost", err
	}
	return inv, "", nil
}

func month(s string) (time.Time, error) {
	for _, layout := range []string{"2006-01", "2006-01-02", time.RFC3339, "2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC), nil
		}
	}
	return time.Time{}, fmt.Errorf("cannot read %q as a month: want YYYY-MM", s)
}
