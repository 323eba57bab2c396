package report

import (
	"context"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/schema/money"
)

// reconciliation makes the report of bills against invoices and allocations.
func (b *Builder) reconciliation(ctx context.Context, r Request, out *Report) error {
	out.Title = "Reconciliation"
	rows, err := b.db.Reconciliation(ctx, query.ReconciliationQuestion{Month: r.Month})
	if err != nil {
		return err
	}
	refused := &BooksError{Month: r.Month}
	var more []string
	for _, row := range rows {
		if !row.Difference.IsZero() {
			refused.Open = append(refused.Open, Book{Issuer: row.Issuer, Account: row.Account, Currency: row.Currency, Billed: row.Billed, Effective: row.Effective})
			refused.Differences = append(refused.Differences, row.Difference)
		}
		more = append(more, row.Currency)
	}
	if len(refused.Open) > 0 {
		return refused
	}
	for _, currency := range out.sections(more...) {
		out.Sections = append(out.Sections, Section{Title: currency, Tables: []Table{reconciliationTable(rows, currency)}})
	}
	out.Notes = append(out.Notes, "Difference is between the bill and its allocation, and always 0 where the books close; an open invoice shows under Unexplained. Unexplained is what the invoice has beyond the bill after whole cents, tax and credits are accounted for. Without an invoice nothing is called reconciled.")
	return nil
}

func reconciliationTable(rows []query.ReconciliationRow, currency string) Table {
	t := Table{
		Key: "reconciliation", Title: "Bill, invoice and allocation by account", Currency: currency, Main: true, Empty: "No bill and no invoice.",
		Columns: []Column{
			{Key: "issuer", Title: "Issuer", Kind: Text}, {Key: "account", Title: "Account", Kind: Text}, {Key: "invoice_id", Title: "Invoice", Kind: Text},
			{Key: "status", Title: "Status", Kind: Text}, {Key: "invoice_total", Title: "Invoice total", Kind: Money}, {Key: "billed_cost", Title: "Billed", Kind: Money},
			{Key: "explained", Title: "Explained", Kind: Money}, {Key: "unexplained", Title: "Unexplained", Kind: Money},
			{Key: "amortisation_difference", Title: "Amortisation difference", Kind: Money}, {Key: "effective_cost", Title: "Effective", Kind: Money},
			{Key: "allocated_cost", Title: "Allocated", Kind: Money}, {Key: "difference", Title: "Difference", Kind: Money},
		},
	}
	var mine []query.ReconciliationRow
	for _, r := range rows {
		if r.Currency == currency {
			mine = append(mine, r)
		}
	}
	var keys []string
	var columns [8][]*money.Decimal
	for i := range mine {
		r := &mine[i]
		keys = append(keys, r.Issuer+"\x00"+r.Account+"\x00"+r.InvoiceID)
		for j, v := range []*money.Decimal{r.Invoice, &r.Billed, r.Explained, r.Unexplained, &r.Amortised, &r.Effective, &r.Allocated, &r.Difference} {
			columns[j] = append(columns[j], v)
		}
		t.Rows = append(t.Rows, []Cell{text(r.Issuer), text(r.Account), text(r.InvoiceID), text(words(r.Status))})
	}
	t.Total = []Cell{text("Total"), {}, {}, {}}
	for j := range columns {
		cells, sum := sumColumn(columns[j], keys)
		for i := range mine {
			if cells[i].Null { // no invoice is not an unknown one
				cells[i].Show = "-"
			}
			t.Rows[i] = append(t.Rows[i], cells[i])
		}
		t.Total = append(t.Total, sum)
	}
	if len(mine) == 0 {
		t.Total = nil
	}
	return t
}
