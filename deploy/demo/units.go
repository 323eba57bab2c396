package demo

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/money"
)

// units is an amount in steps of 1e-10, the finest that AWS prints. A bill of this size fits
// exactly, and so do its sums.
type units int64

const (
	scale       = 10
	one   units = 1e10
	e4    units = 1e6 // 1e-4: rates are written 55_0400 * e4
	cent  units = 1e8
)

// opt is an amount that a line may not have.
type opt struct {
	v  units
	ok bool
}

func some(v units) opt { return opt{v, true} }

// mul multiplies two amounts and rounds half-even to 1e-10.
func mul(a, b units) units {
	negative := (a < 0) != (b < 0)
	hi, lo := bits.Mul64(abs(a), abs(b))
	q, r := bits.Div64(hi, lo, uint64(one))
	if half := uint64(one) / 2; r > half || r == half && q&1 == 1 {
		q++
	}
	if negative {
		return -units(q)
	}
	return units(q)
}

func abs(a units) uint64 {
	if a < 0 {
		return uint64(-a)
	}
	return uint64(a)
}

func (a units) decimal() money.Decimal { return decimal.New(int64(a), -scale) }

// double is the number as AWS sends it: the double nearest to the decimal. Dividing two
// exact doubles rounds once.
func (a units) double() float64 { return float64(a) / float64(one) }

// text prints the shortest form, as the string columns of a bill have it.
func (a units) text() string {
	s := strconv.FormatUint(abs(a)/uint64(one), 10)
	if f := abs(a) % uint64(one); f != 0 {
		t := strconv.FormatUint(uint64(one)+f, 10)
		s += "." + strings.TrimRight(t[1:], "0")
	} else {
		s += ".0"
	}
	if a < 0 {
		return "-" + s
	}
	return s
}

// noise spreads a position over 64 bits (the finaliser of SplitMix64): irregular to look at,
// the same on every machine.
func noise(parts ...uint64) uint64 {
	z := uint64(0x1d1e_5eed)
	for _, p := range parts {
		z += p + 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
	}
	return z
}
