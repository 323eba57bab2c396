package money

import (
	"fmt"
	"strings"
)

// SplitSQL returns the SQL that divides an amount over an array of whole-number weights
// (Array(Int256), at least one of them positive), exactly: parts are rounded down to 18
// digits and the units left over go to the largest remainders, ties by position. The result
// is an Array(Nullable(Decimal(38, 18))) whose sum is the amount; a NULL amount gives NULLs.
//
// amount is an expression of type Decimal(38, 18), nullable or not. The weights' order must
// not depend on the order of the input.
func SplitSQL(amount, weights string) string {
	// Lambdas over arrays of one element bind what is computed once per row: a lambda that
	// mentions a whole array would copy it for each of its elements.
	const text = `arrayMap((u_, t_, null_) -> arrayMap((lows_, ranks_, left_) ->
        arrayMap((low_, rank_) -> if(null_, NULL, toDecimal128(toDecimal256(sign(u_) * (low_ + (rank_ <= left_)), 0) * toDecimal256('0.000000000000000001', 18), 18)), lows_, ranks_),
        [@lows], [arraySort((pos_, nth_) -> nth_, arrayEnumerate(@weights), arraySort((pos_, rest_) -> (-rest_, pos_), arrayEnumerate(@weights), @rests))],
        [abs(u_) - arraySum(@lows)])[1],
    [toInt256(toDecimal256(ifNull(@amount, 0), 18) * toDecimal256('1000000000000000000', 0))], [arraySum(@weights)], [isNull(@amount)])[1]`
	r := strings.NewReplacer(
		"@lows", fmt.Sprintf("arrayMap(w_ -> intDiv(abs(u_) * w_, t_), %s)", weights),
		"@rests", fmt.Sprintf("arrayMap(w_ -> (abs(u_) * w_) %% t_, %s)", weights),
		"@weights", weights, "@amount", amount)
	return r.Replace(text)
}
