package demo_test

import (
	"errors"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/shopspring/decimal"
)

// cells is one row as read back from Parquet: text of each column by name, maps apart.
type cells struct {
	text map[string]string
	maps map[string]map[string]string
}

func (c cells) amount(t *testing.T, name string) decimal.Decimal {
	t.Helper()
	if c.text[name] == "" {
		return decimal.Zero
	}
	d, err := decimal.NewFromString(c.text[name])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// readBill reads files back with the library's own row reader, in a way of its own.
func readBill(t *testing.T, paths []string, row func(cells)) {
	t.Helper()
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		p, err := parquet.OpenFile(f, st.Size())
		if err != nil {
			t.Fatal(err)
		}
		readFile(t, p, row)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func readFile(t *testing.T, p *parquet.File, row func(cells)) {
	t.Helper()
	r := parquet.NewReader(p)
	leaves := p.Schema().Columns()
	buf := make([]parquet.Row, 64)
	for {
		n, err := r.ReadRows(buf)
		for _, values := range buf[:n] {
			row(decode(values, leaves))
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// asked are the columns that these tests look at.
var asked = map[string]bool{
	"bill_invoice_id": true, "bill_payer_account_id": true, "line_item_line_item_type": true, "line_item_net_unblended_cost": true,
	"line_item_resource_id": true, "line_item_unblended_cost": true, "line_item_usage_amount": true, "line_item_usage_type": true,
	"pricing_term": true, "resource_tags": true, "savings_plan_net_savings_plan_effective_cost": true,
	"savings_plan_total_commitment_to_date": true, "savings_plan_used_commitment": true,
}

func decode(values parquet.Row, leaves [][]string) cells {
	c := cells{text: map[string]string{}, maps: map[string]map[string]string{}}
	keys := map[string][]string{}
	seen := map[string]int{}
	for _, v := range values {
		path := leaves[v.Column()]
		if v.IsNull() || !asked[path[0]] {
			continue
		}
		s := v.String()
		if v.Kind() == parquet.Double {
			s = strconv.FormatFloat(v.Double(), 'g', -1, 64) // the shortest text that reads back
		}
		switch {
		case len(path) == 1:
			c.text[path[0]] = s
		case path[2] == "key":
			keys[path[0]] = append(keys[path[0]], s)
		default:
			if c.maps[path[0]] == nil {
				c.maps[path[0]] = map[string]string{}
			}
			c.maps[path[0]][keys[path[0]][seen[path[0]]]] = s
			seen[path[0]]++
		}
	}
	return c
}
