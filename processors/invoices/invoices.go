// Package invoices stores what was invoiced: billing.invoice events become rows of
// idlewatt_store.invoices. Holding them against bills is the view idlewatt.reconciliation.
package invoices

import (
	"context"
	"fmt"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Consumer returns the durable consumer that stores invoices. The newest total of an
// invoice id replaces the earlier one.
func Consumer(db *store.DB) runtime.Consumer {
	return runtime.Consumer{
		Stream: bus.RawBilling, Durable: "invoices", Subjects: []string{"raw.billing.invoice"}, Batch: 200,
		Handle: func(ctx context.Context, batch []runtime.Delivered) []error { return handle(ctx, db, batch) },
	}
}

func handle(ctx context.Context, db *store.DB, batch []runtime.Delivered) []error {
	errs := make([]error, len(batch))
	fail := func(err error) []error {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
		return errs
	}
	b, err := db.PrepareBatch(ctx, `INSERT INTO idlewatt_store.invoices (InvoiceIssuerName, BillingAccountId, InvoiceId,
		BillingPeriodStart, BillingPeriodEnd, BillingCurrency, BilledCost, x_Source, x_Event, x_ReceivedAt)`)
	if err != nil {
		return fail(fmt.Errorf("storing invoices: %w", err))
	}
	for i, d := range batch {
		var inv event.BillingInvoice
		if errs[i] = runtime.Permanent(check(d, &inv)); errs[i] != nil {
			continue
		}
		if err := b.Append(inv.InvoiceIssuerName, inv.BillingAccountID, inv.InvoiceID, inv.BillingPeriodStart,
			inv.BillingPeriodEnd, inv.BillingCurrency, inv.BilledCost, inv.Source, d.ID, d.Stored); err != nil {
			errs[i] = runtime.Permanent(fmt.Errorf("storing invoice %s: %w", inv.InvoiceID, err))
		}
	}
	if err := b.Send(); err != nil {
		return fail(fmt.Errorf("storing invoices: %w", err))
	}
	return errs
}

func check(d runtime.Delivered, inv *event.BillingInvoice) error {
	if err := d.Decode(inv); err != nil {
		return err
	}
	if inv.BillingAccountID == "" || len(inv.BillingCurrency) != 3 || inv.BillingPeriodStart.IsZero() {
		return fmt.Errorf("invoice %q: BillingAccountId, BillingCurrency and BillingPeriodStart are required", inv.InvoiceID)
	}
	return money.Check(inv.BilledCost)
}
