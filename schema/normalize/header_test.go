package normalize

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/idlewatt/idlewatt/schema/event"
)

func header(t testing.TB, o event.Object, content []byte) (Header, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "object")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadHeader(path, o)
}

func TestCSVHeader(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a,b\n1,2\n":                  "a|b",
		"\ufeffa,b\r\n":               "a|b",
		"\"a, with comma\",\"b\"\n":   "a, with comma|b",
		"a":                           "a",
		"\n\na,b\n":                   "a|b",
		"Kosten (PreTaxCost),Datum\n": "Kosten (PreTaxCost)|Datum",
	} {
		h, err := header(t, event.Object{Encoding: "csv"}, []byte(in))
		if err != nil || strings.Join(h.Names(), "|") != want || h.Rows != -1 {
			t.Errorf("%q: %q, %v, want %s", in, h.Names(), err, want)
		}
	}
	if _, err := header(t, event.Object{Encoding: "csv"}, []byte("\n\n")); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("nothing but empty lines: %v", err)
	}
}

// Each format knows its own names in every spelling that a provider has used.
func TestMatchAndGuess(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"lineItem/LineItemType,lineItem/UnblendedCost,bill/BillingPeriodStartDate":  "aws-cur-legacy",
		"line_item_line_item_type,line_item_unblended_cost,bill_payer_account_name": "aws-cur2",
		"BilledCost,ChargePeriodStart,ChargePeriodEnd,BillingPeriodStart":           "focus",
		"billedcost,chargeperiodstart,CHARGEPERIODEND,BillingPeriodStart":           "focus",
		"Date,CostInBillingCurrency":                                                "azure-actual",
		"UsageDateTime,PreTaxCost":                                                  "azure-actual",
		"UsageDateTime (UsageDateTime),Kosten (PreTaxCost)":                         "azure-actual",
		"date,costInBillingCurrency,billingCurrency":                                "azure-actual",
		"Wann,Wieviel": "",
	} {
		f, ok := Guess(strings.Split(in, ","))
		if f.Name != want || ok != (want != "") {
			t.Errorf("%s: guessed %q", in, f.Name)
		}
	}
}

func TestEveryFormatIsWhole(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		names := []string{}
		for _, c := range f.Columns {
			if slices.Contains(names, c.Name) {
				t.Errorf("%s has column %s twice", f.Name, c.Name)
			}
			names = append(names, c.Name)
			if c.Filled && !c.Required {
				t.Errorf("%s: column %s must be filled and may be absent", f.Name, c.Name)
			}
		}
		for _, s := range f.Signature {
			if !slices.Contains(names, s) {
				t.Errorf("%s: its signature %s is no column", f.Name, s)
			}
		}
		if found, ok := Find(f.Name); !ok || found.Summary == "" || found.SQL == "" {
			t.Errorf("%s cannot be found whole", f.Name)
		}
		// Money is multiplied and divided by functions that check the range, never by * or /.
		for i, l := range strings.Split(f.SQL, "\n") {
			code, _, _ := strings.Cut(l, "--")
			for _, op := range []string{" * ", " / "} {
				if strings.Contains(code, op) {
					t.Errorf("%s, line %d: %q wraps silently; use multiplyDecimal or divideDecimal", f.Name, i+1, strings.TrimSpace(l))
				}
			}
		}
	}
}

func TestFocusVersion(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"BilledCost": "1.0", "billedcost,SkuMeter": "1.1", "InvoiceId,SkuMeter": "1.2", "\ufeffServiceProviderName,InvoiceId": "1.3", "InvoiceDetailId": "1.4",
	} {
		if got := FocusVersion(strings.Split(in, ",")); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func someParquet(t testing.TB) []byte {
	t.Helper()
	type row struct {
		Cost float64           `parquet:"line_item_unblended_cost"`
		Tags map[string]string `parquet:"resource_tags"`
		Kind *string           `parquet:"line_item_line_item_type,optional"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b)
	if _, err := w.Write([]row{{1, map[string]string{"a": "b"}, nil}, {2, nil, nil}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestParquetHeader(t *testing.T) {
	t.Parallel()
	whole := someParquet(t)
	h, err := header(t, event.Object{Encoding: "parquet"}, whole)
	if err != nil || h.Rows != 2 {
		t.Fatalf("%+v, %v", h, err)
	}
	types := map[string]string{}
	for _, f := range h.Fields {
		types[f.Name] = f.Type
	}
	if types["line_item_unblended_cost"] != "Nullable(Float64)" || types["resource_tags"] != "Map(String, Nullable(String))" || types["line_item_line_item_type"] != "Nullable(String)" {
		t.Errorf("types %v", types)
	}
	for n := range whole {
		if _, err := header(t, event.Object{Encoding: "parquet"}, whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a whole file", n, len(whole))
		}
	}
}

func FuzzReadHeader(f *testing.F) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte("a,b\n1,2\n"))
	_ = w.Close()
	f.Add([]byte("a,b\n1,2\n"), uint8(0))
	f.Add([]byte("\ufeff\"a\n\",b"), uint8(0))
	f.Add(packed.Bytes(), uint8(1))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x00, 0x09, 0x00, 0x00, 'x'}, uint8(2))
	f.Add(someParquet(f), uint8(3))
	f.Fuzz(func(t *testing.T, content []byte, kind uint8) {
		o := []event.Object{
			{Encoding: "csv", Compression: "none"}, {Encoding: "csv", Compression: "gzip"}, {Encoding: "csv", Compression: "zstd"}, {Encoding: "parquet"},
		}[kind%4]
		h, err := header(t, o, content)
		if err != nil {
			return
		}
		for _, format := range Formats() {
			format.Match(h.Names())
		}
		Guess(h.Names())
		FocusVersion(h.Names())
	})
}
