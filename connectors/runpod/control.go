package runpod

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/money"
)

// sum adds amounts exactly and knows how far a provider's own sum of them, made of doubles and
// printed, may lie from it.
type sum struct {
	total, size money.Decimal // size: of their absolute values
	n           int64
	digits      int32
}

func (s *sum) add(v money.Decimal) {
	if v.IsZero() {
		return
	}
	s.total, s.size = s.total.Add(v), s.size.Add(v.Abs())
	s.n++
	s.digits = max(s.digits, fraction(v))
}

// fraction counts the fractional digits as they are printed: the exponent may hold zeros.
func fraction(v money.Decimal) int32 {
	_, digits, _ := strings.Cut(v.String(), ".")
	return int32(len(digits)) //nolint:gosec // at most money.Scale
}

func (s *sum) merge(o sum) {
	s.total, s.size, s.n, s.digits = s.total.Add(o.total), s.size.Add(o.size), s.n+o.n, max(s.digits, o.digits)
}

// Amounts are taken to be rounded at no less than micro-dollars; a double holds 15 digits.
const (
	fewestDigits = 6
	mostDigits   = 15
)

// ulp is the error of adding two doubles, relative to their size, rounded up.
var ulp = decimal.New(25, -17)

// near reports whether a provider may have got told for this sum: half a unit of the last
// printed digit for each amount and for the result, and an ulp for each addition.
func (s sum) near(told money.Decimal) bool {
	digits := min(max(s.digits, fewestDigits), mostDigits)
	slack := decimal.New(5*(s.n+1), -digits-1).Add(s.size.Add(told.Abs()).Mul(ulp).Mul(decimal.NewFromInt(s.n + 1)))
	return s.total.Sub(told).Abs().LessThanOrEqual(slack)
}

// errControl marks bills that contradict themselves. They may be read while RunPod writes
// them: asking again can mend it.
var errControl = errors.New("nothing of this window is delivered; if it stays so, RunPod bills something that this version does not know")

func differs(route, field string, is sum, other string, told money.Decimal) error {
	return fmt.Errorf("%s: records add up to %s %s, but %s says %s (difference %s USD): %w",
		route, is.total, field, other, told, told.Sub(is.total), errControl)
}

// check holds a route's records against its own totals. Of several pages it is not known
// whether each tells the totals of all or its own.
func (s *statement) check() error {
	for i := range s.totals {
		field := totalField
		if i > 0 {
			field = s.route.parts[i-1].field
		}
		if is := s.column(i); !is.near(s.totals[i]) && !is.near(s.summed[i]) {
			return differs(s.route.path, field, is, "its metadata.totals", s.totals[i])
		}
	}
	return s.unique()
}

// reconcile holds the routes against /v2/billing, the same money once more: each part, and all
// together. Routes that are not there are held to be zero.
func reconcile(control *statement, statements []*statement) error {
	of := map[*route]*statement{}
	for _, s := range statements {
		of[s.route] = s
	}
	var all sum
	k := 0
	for _, r := range routes {
		for i, p := range r.parts {
			var is sum
			if s := of[r]; s != nil {
				is = s.column(i + 1)
			}
			k++
			if told := control.told(k); !is.near(told) {
				return differs(r.path, p.field, is, "/v2/billing totals."+p.control, told)
			}
		}
		if s := of[r]; s != nil {
			all.merge(s.column(0))
		}
	}
	if told := control.told(0); !all.near(told) {
		return differs("all routes", totalField, all, "/v2/billing totals."+totalField, told)
	}
	return nil
}

// told is what a checked statement says of one amount in all.
func (s *statement) told(i int) money.Decimal {
	if len(s.said) == 1 {
		return s.totals[i]
	}
	return s.column(i).total
}
