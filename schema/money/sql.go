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
	const text = `arrayMap(part_ -> if(isNull(@amount), NULL, toDecimal128(toDecimal256(part_, 0) * toDecimal256('0.000000000000000001', 18), 18)),
        if(length(@weights) = 1, [@units], arrayMap((low_, rank_) -> sign(@units) * (low_ + (rank_ <= abs(@units) - arraySum(@lows))),
            @lows, arraySort((pos_, nth_) -> nth_, arrayEnumerate(@weights),
                arraySort(pos_ -> (-@rests[pos_], pos_), arrayEnumerate(@weights))))))`
	r := strings.NewReplacer(
		"@lows", fmt.Sprintf("arrayMap(w_ -> intDiv(abs(@units) * w_, arraySum(%s)), %s)", weights, weights),
		"@rests", fmt.Sprintf("arrayMap(w_ -> (abs(@units) * w_) %% arraySum(%s), %s)", weights, weights),
		"@weights", weights, "@amount", amount, "@units", "@units")
	return strings.ReplaceAll(r.Replace(text), "@units",
		fmt.Sprintf("toInt256(toDecimal256(ifNull(%s, 0), 18) * toDecimal256('1000000000000000000', 0))", amount))
}
