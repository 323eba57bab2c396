package report

import (
	"fmt"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/schema/money"
)

// kind is one allocation kind as reports show it. Of is what the views call it.
type kind struct {
	key, title string
	of         []string
}

// kinds are the columns of cost, in the order of the funnel. The last takes what has no other.
func kinds() []kind {
	return []kind{
		{"used", "Used", []string{"job_used", "metered"}},
		{"job_idle", "Job idle", []string{"job_idle"}},
		{"unallocated_idle", "Unallocated idle", []string{"unallocated_idle"}},
		{"unavailable", "Unavailable", []string{"unavailable"}},
		{"unobserved", "Unobserved", []string{"unobserved"}},
		{"commitment_unused", "Commitment unused", []string{"commitment_unused"}},
		{"shared", "Shared", []string{"shared"}},
		{"tax", "Tax", []string{"tax"}},
		{"credit", "Credit", []string{"credit"}},
		{"adjustment", "Adjustment", []string{"adjustment"}},
		{"other", "Other", []string{"other"}},
	}
}

// kindIndex returns where an allocation kind is shown.
func kindIndex(name string) int {
	all := kinds()
	for i, k := range all {
		for _, of := range k.of {
			if of == name {
				return i
			}
		}
	}
	return len(all) - 1
}

// Book is the conservation line of one billing account in one currency.
type Book struct {
	Issuer, Account, Currency string
	Billed, Effective         money.Decimal
	// Amortised is what the effective cost holds of other periods, less what was paid for them,
	// and without what is only estimated.
	Amortised money.Decimal
	Kinds     []money.Decimal // in the order of kinds()
	Estimated money.Decimal

	// shown are Effective and Kinds in whole cents that add up with the other accounts'.
	shownEffective money.Decimal
	shownKinds     []money.Decimal
}

// Line writes the identity in whole cents that add up.
func (b Book) Line() string {
	shown, effective := b.shownKinds, b.shownEffective
	billed := b.Billed.RoundBank(2)
	var parts []string
	for i, k := range kinds() {
		if !b.Kinds[i].IsZero() {
			parts = append(parts, strings.ToLower(k.title)+" "+money.Text(shown[i], ""))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	estimated, open := b.Estimated.RoundBank(2), ""
	if !b.Estimated.IsZero() {
		open = " + estimated " + money.Text(estimated, "")
	}
	// Without amortisation, what is left over is a cent of rounding, and is called so.
	word, rest := "amortisation difference", effective.Sub(billed).Sub(estimated)
	if b.Amortised.IsZero() && !rest.IsZero() {
		word = "rounding"
	}
	return fmt.Sprintf("%s: billed %s%s + %s %s = effective %s %s = %s", b.name(), money.Text(billed, ""), open, word,
		money.Text(rest, ""), money.Text(effective, ""), b.Currency, strings.Join(parts, " + "))
}

func (b Book) name() string { return strings.TrimSpace(b.Issuer + " " + b.Account) }

// BooksError refuses a report whose books do not close.
type BooksError struct {
	Month query.Month
	// Open are the accounts with a difference, Differences what it is.
	Open        []Book
	Differences []money.Decimal
}

func (e *BooksError) Error() string {
	var lines []string
	for i, b := range e.Open {
		lines = append(lines, fmt.Sprintf("%s, %s: effective %s, allocated %s, difference %s", b.name(), b.Currency,
			b.Effective, b.Effective.Sub(e.Differences[i]), e.Differences[i]))
	}
	return fmt.Sprintf("report refused: the books of %s do not close: %s", e.Month, strings.Join(lines, "; "))
}

// books makes the conservation lines and refuses those that do not close.
func books(month query.Month, rows []query.SummaryRow) ([]Book, error) {
	var out []Book
	for _, r := range rows {
		if n := len(out); n == 0 || out[n-1].Account != r.Account || out[n-1].Currency != r.Currency {
			out = append(out, Book{
				Issuer: r.Issuer, Account: r.Account, Currency: r.Currency, Billed: r.Billed, Effective: r.Charged,
				Kinds: make([]money.Decimal, len(kinds())),
			})
		}
		b := &out[len(out)-1]
		i := kindIndex(r.Kind)
		b.Kinds[i], b.Estimated = b.Kinds[i].Add(r.Allocated), b.Estimated.Add(r.Estimated)
	}
	refused := &BooksError{Month: month}
	for i, b := range out {
		out[i].Amortised = b.Effective.Sub(b.Billed).Sub(b.Estimated)
		if d := b.Effective.Sub(total(b.Kinds)); !d.IsZero() {
			refused.Open, refused.Differences = append(refused.Open, b), append(refused.Differences, d)
		}
	}
	if len(refused.Open) > 0 {
		return nil, refused
	}
	roundBooks(out)
	return out, nil
}

// roundBooks rounds the accounts of each currency together, as the tables round theirs, so
// that the lines and the tables show the same cents.
func roundBooks(books []Book) {
	var kindKeys []string
	for _, k := range kinds() {
		kindKeys = append(kindKeys, k.key)
	}
	byCurrency := map[string][]int{}
	for i, b := range books {
		byCurrency[b.Currency] = append(byCurrency[b.Currency], i)
	}
	for _, of := range byCurrency {
		var values [][]money.Decimal
		var keys []string
		for _, i := range of {
			values, keys = append(values, books[i].Kinds), append(keys, books[i].name())
		}
		g := CentsGrid(values, keys, kindKeys)
		for n, i := range of {
			books[i].shownEffective, books[i].shownKinds = g.Rows[n], g.Cells[n]
		}
	}
}

func total(values []money.Decimal) money.Decimal {
	sum := decimal.Zero
	for _, v := range values {
		sum = sum.Add(v)
	}
	return sum
}

// percent is a share in percent, one decimal.
func percent(part, whole money.Decimal) string {
	if whole.IsZero() {
		return "-"
	}
	return part.Mul(decimal.NewFromInt(100)).Div(whole).RoundBank(1).StringFixed(1) + " %"
}
