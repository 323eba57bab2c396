// Package money holds exact amounts: decimals with at most 18 fractional digits and 20
// integer digits, the range of ClickHouse's Decimal(38,18). Floats have no way in.
//
// Here lives the arithmetic of single amounts. Sums over bills are ClickHouse's work.
package money

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
)

// Decimal is an exact amount, quantity or rate.
type Decimal = decimal.Decimal

// Scale is the number of fractional digits that are kept.
const Scale = 18

// ErrOverflow means that an amount has more than 20 digits before the point.
var ErrOverflow = errors.New("amount does not fit Decimal(38,18)")

// Parse reads a plain or E-notation number as providers write it. Thousands separators,
// currency signs, NaN and infinities are errors. More than 18 fractional digits are rounded
// half-even; rounded says whether that changed the value.
func Parse(s string) (d Decimal, rounded bool, err error) {
	t := strings.TrimSpace(s)
	if t == "" || strings.ContainsAny(t, ",_ ") {
		return Decimal{}, false, fmt.Errorf("reading amount %q: want a number such as -12.34 or 5.2E-9", s)
	}
	exact, err := decimal.NewFromString(t)
	if err != nil {
		return Decimal{}, false, fmt.Errorf("reading amount %q: want a number such as -12.34 or 5.2E-9", s)
	}
	d = exact.RoundBank(Scale)
	if err := Check(d); err != nil {
		return Decimal{}, false, fmt.Errorf("reading amount %q: %w", s, err)
	}
	return d, !d.Equal(exact), nil
}

// Check reports whether the amount fits Decimal(38,18) without losing a digit.
func Check(d Decimal) error {
	if d.Abs().GreaterThanOrEqual(decimal.New(1, 20)) {
		return ErrOverflow
	}
	if -d.Exponent() > Scale && !d.Equal(d.Truncate(Scale)) {
		return fmt.Errorf("amount %s has more than %d fractional digits", d, Scale)
	}
	return nil
}

// Text writes the amount for people: two decimals and thousands separators, with its currency.
func Text(d Decimal, currency string) string {
	s := d.RoundBank(2).StringFixed(2)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	whole, frac, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return strings.TrimSpace(sign + whole + "." + frac + " " + currency)
}
