package money_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/schema/money"
)

func TestMain(m *testing.M) { localtest.Main(m) }

func TestParse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0", "-12.34": "-12.34", "+1.5": "1.5", " 7 ": "7", "5.2E-9": "0.0000000052", "8.0e-10": "0.0000000008", "1e3": "1000",
		".5": "0.5", "5.": "5", "00012.100": "12.1", "99999999999999999999.999999999999999999": "99999999999999999999.999999999999999999",
		"0.0000000000000000005": "0", "0.0000000000000000015": "0.000000000000000002", "0.0000000000000000025": "0.000000000000000002",
		"-0.0000000000000000015": "-0.000000000000000002", "0.00000000000000000051": "0.000000000000000001",
	} {
		d, rounded, err := money.Parse(in)
		if err != nil || !d.Equal(decimal.RequireFromString(want)) {
			t.Errorf("Parse(%q) = %s, %v, want %s", in, d, err, want)
		}
		if exact := decimal.RequireFromString(strings.TrimSpace(in)); rounded != !exact.Equal(d) {
			t.Errorf("Parse(%q) says rounded %v", in, rounded)
		}
	}
	for _, in := range []string{"", " ", "abc", "1,5", "1.000,00", "1_000", "1 000", "$5", "NaN", "Inf", "-Infinity", "0x10", "1e", "--1", "1.2.3", "1e99999999999", "٣"} {
		if d, _, err := money.Parse(in); err == nil {
			t.Errorf("Parse(%q) = %s, want an error", in, d)
		}
	}
	for _, in := range []string{"100000000000000000000", "-1e20", "1e30", "99999999999999999999.9999999999999999999"} {
		if d, _, err := money.Parse(in); !errors.Is(err, money.ErrOverflow) {
			t.Errorf("Parse(%q) = %s, %v, want overflow", in, d, err)
		}
	}
}

// What has 18 digits or fewer comes back as it was written.
func TestParseIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.Int64().Draw(t, "units")
		scale := rapid.IntRange(0, money.Scale).Draw(t, "scale")
		d := decimal.New(units, int32(-scale))
		got, rounded, err := money.Parse(d.String())
		if err != nil || rounded || !got.Equal(d) {
			t.Fatalf("Parse(%s) = %s, %v, %v", d, got, rounded, err)
		}
		if money.Check(got) != nil {
			t.Fatalf("%s does not fit", got)
		}
	})
}

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0.00 USD", "1415.005": "1,415.00 USD", "1415.015": "1,415.02 USD", "-1234567.891": "-1,234,567.89 USD", "999": "999.00 USD", "-0.001": "0.00 USD",
	} {
		if got := money.Text(decimal.RequireFromString(in), "USD"); got != want {
			t.Errorf("Text(%s) = %q, want %q", in, got, want)
		}
	}
}

func open(t *testing.T) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(localtest.Start(t).ClickHouseOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// split divides on the engine.
func split(ctx context.Context, conn driver.Conn, amount string, weights []string) ([]string, error) {
	sql := fmt.Sprintf(`SELECT arrayMap(p -> ifNull(toString(p), 'NULL'), %s)
		FROM (SELECT CAST(%s AS Nullable(Decimal(38, 18))) AS amount, CAST([%s] AS Array(Int256)) AS weights)`,
		money.SplitSQL("amount", "weights"), amount, "'"+strings.Join(weights, "', '")+"'")
	var out []string
	err := conn.QueryRow(ctx, sql).Scan(&out)
	return out, err
}

// oracle is the same rule in whole numbers: down to units of 18 digits, what is left over to
// the largest remainders, ties by position.
func oracle(units *big.Int, weights []*big.Int) []*big.Int {
	total := new(big.Int)
	for _, w := range weights {
		total.Add(total, w)
	}
	rest := new(big.Int).Abs(units)
	size := new(big.Int).Set(rest)
	parts, remainders := make([]*big.Int, len(weights)), make([]*big.Int, len(weights))
	order := make([]int, len(weights))
	for i, w := range weights {
		parts[i], remainders[i] = new(big.Int).QuoRem(new(big.Int).Mul(size, w), total, new(big.Int))
		rest.Sub(rest, parts[i])
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return remainders[b].Cmp(remainders[a]) })
	for _, i := range order[:rest.Int64()] {
		parts[i].Add(parts[i], big.NewInt(1))
	}
	for _, p := range parts {
		p.Mul(p, big.NewInt(int64(units.Sign())))
	}
	return parts
}

func TestSplitSQLAgainstWholeNumbers(t *testing.T) {
	t.Parallel()
	conn := open(t)
	rapid.Check(t, func(t *rapid.T) {
		units := new(big.Int).Mul(big.NewInt(rapid.Int64().Draw(t, "high")), big.NewInt(rapid.Int64Range(1, 1e18).Draw(t, "low")))
		amount := decimal.NewFromBigInt(units, -money.Scale)
		if money.Check(amount) != nil {
			amount = decimal.NewFromBigInt(units, -money.Scale-18).Truncate(money.Scale)
		}
		units = amount.Shift(money.Scale).BigInt()
		var weights []*big.Int
		var texts []string
		positive := false
		for _, w := range rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1<<62)), 1, 9).Draw(t, "weights") {
			weights = append(weights, big.NewInt(w))
			positive = positive || w > 0
		}
		if !positive {
			weights[0] = big.NewInt(1)
		}
		for _, w := range weights {
			texts = append(texts, w.String())
		}
		got, err := split(t.Context(), conn, "'"+amount.String()+"'", texts)
		if err != nil {
			t.Fatal(err)
		}
		sum := decimal.Zero
		for i, want := range oracle(units, weights) {
			w := decimal.NewFromBigInt(want, -money.Scale)
			g := decimal.RequireFromString(got[i])
			if !g.Equal(w) {
				t.Fatalf("%s over %v: part %d is %s, want %s", amount, texts, i, g, w)
			}
			sum = sum.Add(g)
		}
		if !sum.Equal(amount) {
			t.Fatalf("%s over %v: parts add up to %s", amount, texts, sum)
		}
	})
}

// Who gets a part does not change what the parts are: equal weights aside, a permutation of
// the weights permutes the parts.
func TestSplitSQLDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	conn := open(t)
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfNDistinct(rapid.Int64Range(1, 1000), 2, 6, rapid.ID).Draw(t, "weights")
		amount := decimal.New(rapid.Int64Range(-1e6, 1e6).Draw(t, "amount"), -18).String()
		shuffled := rapid.Permutation(weights).Draw(t, "shuffled")
		parts := func(list []int64) map[int64]string {
			var texts []string
			for _, w := range list {
				texts = append(texts, fmt.Sprint(w))
			}
			got, err := split(t.Context(), conn, "'"+amount+"'", texts)
			if err != nil {
				t.Fatal(err)
			}
			out := map[int64]string{}
			for i, w := range list {
				out[w] = got[i]
			}
			return out
		}
		a, b := parts(weights), parts(shuffled)
		// Remainders may tie: then position decides, and the parts are the same as a whole.
		var as, bs []string
		for _, w := range weights {
			as, bs = append(as, a[w]), append(bs, b[w])
		}
		if slices.Equal(as, bs) {
			return
		}
		slices.Sort(as)
		slices.Sort(bs)
		if tied := oracleTies(amount, weights); !tied || !slices.Equal(as, bs) && !closeTo(as, bs) {
			t.Fatalf("%s over %v: %v, over %v: %v", amount, weights, a, shuffled, b)
		}
	})
}

func oracleTies(amount string, weights []int64) bool {
	units, total := decimal.RequireFromString(amount).Shift(18).BigInt(), big.NewInt(0)
	for _, w := range weights {
		total.Add(total, big.NewInt(w))
	}
	seen := map[string]bool{}
	for _, w := range weights {
		rest := new(big.Int).Mod(new(big.Int).Mul(new(big.Int).Abs(units), big.NewInt(w)), total).String()
		if seen[rest] {
			return true
		}
		seen[rest] = true
	}
	return false
}

// closeTo reports whether two lists differ by single units only, as ties may.
func closeTo(a, b []string) bool {
	for i := range a {
		if decimal.RequireFromString(a[i]).Sub(decimal.RequireFromString(b[i])).Abs().GreaterThan(decimal.New(1, -18)) {
			return false
		}
	}
	return true
}

func TestSplitSQLEdges(t *testing.T) {
	t.Parallel()
	conn := open(t)
	for _, c := range []struct {
		amount  string
		weights []string
		want    string
	}{
		{"NULL", []string{"1", "2"}, "NULL NULL"},
		{"'0'", []string{"1", "2"}, "0 0"},
		{"'1'", []string{"5"}, "1"},
		{"'1'", []string{"0", "1", "0"}, "0 1 0"},
		{"'10'", []string{"1", "1", "1"}, "3.333333333333333334 3.333333333333333333 3.333333333333333333"},
		{"'-10'", []string{"1", "1", "1"}, "-3.333333333333333334 -3.333333333333333333 -3.333333333333333333"},
		{"'0.000000000000000001'", []string{"1", "2"}, "0 0.000000000000000001"},
		{"'99999999999999999999.999999999999999999'", []string{"1", "1"}, "50000000000000000000 49999999999999999999.999999999999999999"},
	} {
		got, err := split(t.Context(), conn, c.amount, c.weights)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s over %v: %v, %v, want %s", c.amount, c.weights, got, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1.5", "-5.2E-9", "1e30", "", "NaN", "1,5", "0.0000000000000000005"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, _, err := money.Parse(s)
		if err != nil {
			return
		}
		if err := money.Check(d); err != nil {
			t.Errorf("Parse(%q) = %s: %v", s, d, err)
		}
		if again, rounded, err := money.Parse(d.String()); err != nil || rounded || !again.Equal(d) {
			t.Errorf("Parse(%q) = %s, read again as %s, %v", s, d, again, err)
		}
	})
}
