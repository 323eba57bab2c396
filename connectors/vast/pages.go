package vast

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/lines"
)

// found is a charge and where it was found.
type found struct {
	row
	from, to time.Time
	text     string // the row's own JSON, compact
	where    string // file or page, and row
	file     int
}

// payments are the types of rows that move cash: not costs. credit to reserved are those of
// /api/v1/invoices/; the others are of older lists.
var payments = map[string]bool{
	"credit": true, "transfer": true, "payout": true, "refund": true, "reserved": true,
	"payment": true, "stripe": true, "stripe_payments": true, "paypal": true, "crypto": true, "bitpay": true, "coinbase": true,
}

// gather sorts the rows of one page into charges and payments.
func gather(p page, name string, file int) (charges []found, paid []row, err error) {
	for n, raw := range p.Results {
		where := fmt.Sprintf("%s, results[%d]", name, n)
		var r row
		if err := decode(raw, &r); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", where, err)
		}
		switch {
		case r.charge():
			f := found{row: r.modern(), where: where, file: file}
			if f.from, f.to, err = f.span(); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", where, err)
			}
			var b bytes.Buffer
			if err := json.Compact(&b, raw); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", where, err)
			}
			f.text = b.String()
			charges = append(charges, f)
		case payments[r.Type] || r.Metadata.Service != "":
			paid = append(paid, r)
		default:
			return nil, nil, fmt.Errorf("%s: type %q is neither a charge nor a payment that is known", where, short(r.Type))
		}
	}
	return charges, paid, nil
}

func short(s string) string {
	if len(s) > 40 {
		s = s[:40] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}

// write books charges in an order of their own, so that the order of pages changes nothing.
func (b booker) write(charges []found, w *lines.Writer) error {
	slices.SortStableFunc(charges, func(x, y found) int {
		if c := x.from.Compare(y.from); c != 0 {
			return c
		}
		return strings.Compare(*x.Source+" "+x.text, *y.Source+" "+y.text)
	})
	for _, c := range charges {
		out, err := b.book(c.row)
		if err != nil {
			return fmt.Errorf("%s: %w", c.where, err)
		}
		for _, l := range out {
			if err := w.Write(l); err != nil {
				return fmt.Errorf("%s: %w", c.where, err)
			}
		}
	}
	return nil
}

// disjoint refuses money that would be counted twice: one row in two files, or rows of one
// contract over periods that overlap without being the same.
func disjoint(charges []found) error {
	bySource := map[string][]found{}
	for _, c := range charges {
		bySource[*c.Source] = append(bySource[*c.Source], c)
	}
	for _, source := range slices.Sorted(maps.Keys(bySource)) {
		rows := bySource[source]
		slices.SortStableFunc(rows, func(x, y found) int { return x.from.Compare(y.from) })
		for i, x := range rows {
			for _, y := range rows[i+1:] {
				if !y.from.Before(x.to) {
					break
				}
				same := x.from.Equal(y.from) && x.to.Equal(y.to)
				if !same || x.file != y.file && x.text == y.text {
					return fmt.Errorf("%s and %s both bill %s on %s: give each day of a contract once", x.where, y.where, source, y.from.Format(time.DateOnly))
				}
			}
		}
	}
	return nil
}

// covered are the days that charges lie on.
func covered(charges []found) []string {
	days := map[string]bool{}
	for _, c := range charges {
		for d := c.from; d.Before(c.to); d = d.AddDate(0, 0, 1) {
			days[d.Format(time.DateOnly)] = true
		}
	}
	return slices.Sorted(maps.Keys(days))
}

// paidText sums payments by type, as Vast.ai's own command line shows them: amounts of
// /api/v1/invoices/ have the sign turned, but those of transfers and payouts.
func paidText(paid []row) string {
	sums := map[string]decimal.Decimal{}
	for _, r := range paid {
		d, err := amount("amount", r.Amount)
		if err != nil || d == nil {
			continue
		}
		v := *d
		if r.Start != "" && r.Type != "transfer" && r.Type != "payout" {
			v = v.Neg()
		}
		sums[r.Type] = sums[r.Type].Add(v)
	}
	parts := []string{}
	for _, t := range slices.Sorted(maps.Keys(sums)) {
		text := sums[t].String()
		if cents := sums[t].Round(2); cents.Equal(sums[t]) {
			text = cents.StringFixed(2)
		}
		parts = append(parts, fmt.Sprintf("%s %s USD", short(t), text))
	}
	return fmt.Sprintf("%d payments, which are no costs: %s", len(paid), strings.Join(parts, ", "))
}
