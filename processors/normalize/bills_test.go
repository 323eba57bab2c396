package normalize

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// bill is a public or invented file with the sums that its README states. Effective cost "-"
// means that the file has none.
type bill struct {
	file, format, sums string
	assume             event.Assumptions
	scopes             int
}

func bills() []bill {
	none := event.Assumptions{}
	spec := event.Assumptions{Account: "spec", Currency: "USD"}
	return []bill{
		{"focus10_sample_1000.csv", "focus", "1000|20.52022672899|14.97651418586|20.39090575119", none, 2},
		{"aws_cur1_anonymous_2023-11.csv", "aws-cur-legacy", "1281|1.6823086974|1.6823086974|3.3561726949", none, 1},
		{"azure_ea_anonymous_2023-09.csv", "azure-actual", "27|1.26136926505726|1.26136926505726|*", none, 0},
		{"azure_ea_actual_small_2023-09.csv", "azure-actual", "11|8.5450077867419368|*|*", none, 0},
		{"azure_opencost_header_German.csv", "azure-actual", "1|0.075|0.075|*", none, 1},
		{"azure_opencost_header_EnterpriseCamel.csv", "azure-actual", "1|0.012|0.012|*", none, 1},
		{"azure_opencost_header_PayAsYouGo.csv", "azure-actual", "1|0.075|0.075|*", none, 1},
		{"aws_cur2.csv", "aws-cur2", "15|27213.2735|63.4735|178.38414", none, 1},
		{"aws_cur_legacy.csv", "aws-cur-legacy", "17|27213.2735|63.4735|178.38414", none, 1},
		{"azure_actual.csv", "azure-actual", "5|3700.657996|*|*", none, 0},
		{"azure_mca_actual.csv", "azure-actual", "1|89.9628|89.9628|89.9628", none, 1},
		{"spec_examples/v1.2/commitment_discount_purchase_scenario_1.csv", "focus", "1|8760|0|-", spec, 1},
		{"spec_examples/v1.2/commitment_discount_usage_scenario_1.csv", "focus", "1|0|1|-", spec, 1},
		{"spec_examples/v1.2/commitment_discount_usage_scenario_2.csv", "focus", "1|0|1|-", spec, 1},
		{"spec_examples/v1.2/commitment_discount_usage_scenario_3.csv", "focus", "2|0|1|-", spec, 1},
		{"spec_examples/v1.2/commitment_discount_usage_scenario_4.csv", "focus", "2|0.5|1.5|-", spec, 1},
		{"spec_examples/v1.2/one_hundred_percent_utilization_with_commitment_discount_flexibility_with_1_resource.csv", "focus", "3|2.75|2.75|*", spec, 1},
		{"spec_examples/v1.2/one_hundred_percent_utilization_with_commitment_discount_flexibility_with_2_resources.csv", "focus", "3|2|2|*", spec, 1},
		{"spec_examples/v1.2/one_hundred_percent_utilization_without_commitment_discount_flexibility.csv", "focus", "2|1.5|1.5|*", spec, 1},
		{"spec_examples/v1.2/zero_percent_utilization_without_commitment_discount_flexibility.csv", "focus", "3|3.5|3.5|*", spec, 1},
		{"spec_examples/v1.4_draft/correction_closed_s1_original.csv", "focus", "1|1500|1500|2000", spec, 1},
		{"spec_examples/v1.4_draft/correction_closed_s1_ledger.csv", "focus", "3|0|0|0", spec, 1},
		{"spec_examples/v1.4_draft/correction_closed_s1_delta.csv", "focus", "2|0|0|0", spec, 1},
	}
}

func readBill(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "bills", name))
	must(t, err)
	return b
}

// agrees compares answer and expectation cell by cell; * accepts anything.
func agrees(want, got string) bool {
	w, g := strings.Split(want, "|"), strings.Split(got, "|")
	for i := range w {
		if i >= len(g) || w[i] != "*" && w[i] != g[i] {
			return false
		}
	}
	return len(w) == len(g)
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	must(t, err)
	must(t, w.Close())
	return out.Bytes()
}

func zstandard(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must(t, err)
	return w.EncodeAll(b, nil)
}

// parquet lets the engine write the same rows as Parquet, under the names that a provider
// gives Parquet columns. All is text, unless settings let the engine
// choose numbers and times.
func (r *rig) parquet(f normalize.Format, object event.Object, settings string) []byte {
	r.Helper()
	h, err := normalize.ReadHeader(r.archive.Root+"/sha256/"+object.SHA256[:2]+"/"+object.SHA256, object)
	must(r, err)
	var cols, structure []string
	seen := map[string]bool{}
	for _, c := range h.Names() {
		name := f.Key(c)
		if _, isTag := tagKey(f, c); isTag || name == "" || seen[name] {
			name = c
		}
		seen[name] = true
		cols = append(cols, fmt.Sprintf("%s AS %s", ident(c), ident(name)))
		structure = append(structure, ident(c)+" Nullable(String)")
	}
	from := fmt.Sprintf("file(%s, CSVWithNames)", literal(r.archive.Root+"/sha256/"+object.SHA256[:2]+"/"+object.SHA256))
	if !strings.Contains(settings, "infer") {
		from = fmt.Sprintf("file(%s, CSVWithNames, %s)", literal(r.archive.Root+"/sha256/"+object.SHA256[:2]+"/"+object.SHA256), literal(strings.Join(structure, ", ")))
	}
	path := filepath.Join(r.TempDir(), "rows.parquet")
	stmt := fmt.Sprintf("INSERT INTO FUNCTION file(%s, Parquet) SELECT %s FROM %s", literal(path), strings.Join(cols, ", "), from)
	if settings != "" {
		stmt += " SETTINGS " + settings
	}
	must(r, r.db.Exec(r.Context(), stmt))
	b, err := os.ReadFile(path)
	must(r, err)
	return b
}

func tagKey(f normalize.Format, header string) (string, bool) {
	if f.TagKey == nil {
		return "", false
	}
	return f.TagKey(header)
}

// Every real file gives its sums to the last digit, whatever it is packed in and whichever
// way its bytes take to the store.
func TestBillsAddUpToTheLastDigit(t *testing.T) {
	t.Parallel()
	groups := map[string][]bill{}
	for _, b := range bills() {
		group := strings.TrimSuffix(filepath.Base(b.file), ".csv")
		if strings.HasPrefix(group, "aws_cur2") || strings.HasPrefix(group, "aws_cur_legacy") {
			group = "aws_sample" // both are one bill: they follow each other
		}
		groups[group] = append(groups[group], b)
	}
	for group, list := range groups {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			source, version := r.source(), 0
			for _, b := range list {
				for _, v := range r.variants(b) {
					version++
					r.p.SharedDisk = !v.streamed
					b.assume.Account = source
					d := r.delivery(event.BillingDelivery{Source: source, Format: b.format, Assume: b.assume, Version: fmt.Sprint(version)}, v.object)
					out := r.load(Live, d)
					got := r.ask(sumsSQL, source)
					if len(got) != 1 || !agrees(b.sums, got[0]) {
						t.Errorf("%s %s, streamed %v: got %s, want %s", b.file, v.name, v.streamed, got, b.sums)
					}
					if b.scopes > 0 && len(out.Scopes) != b.scopes {
						t.Errorf("%s: %d scopes, want %d", v.name, len(out.Scopes), b.scopes)
					}
					r.wantRowNumbers(source)
				}
			}
		})
	}
}

type variant struct {
	name     string
	object   event.Object
	streamed bool
}

// variants are the same rows in other packings; for the small examples of the specification
// the text alone.
func (r *rig) variants(b bill) []variant {
	csv := readBill(r, b.file)
	plain := r.put("bill.csv", csv)
	out := []variant{{"csv", plain, false}}
	if strings.HasPrefix(b.file, "spec_examples") {
		return out
	}
	f, _ := normalize.Find(b.format)
	return append(out,
		variant{"gzip", r.put("bill.csv.gz", gzipped(r, csv)), true}, variant{"zstd", r.put("bill.csv.zst", zstandard(r, csv)), false},
		variant{"parquet", r.put("bill.parquet", r.parquet(f, plain, "")), false},
		variant{"gzip parquet", r.put("bill.parquet", r.parquet(f, plain, "output_format_parquet_compression_method = 'gzip'")), true})
}

// wantRowNumbers wants every row of the file once, numbered from 1.
func (r *rig) wantRowNumbers(source string) {
	r.Helper()
	r.want(`SELECT toString(count() = uniqExact(x_Row) AND min(x_Row) = 1 AND max(x_Row) = count()) FROM idlewatt.charges WHERE x_Source = ?`, []any{source}, "1")
}

// Where CSV is text, Parquet has doubles and timestamps: the same sums, doubles going through
// their shortest decimal text.
func TestTypedParquetAddsUp(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	f, _ := normalize.Find("aws-cur-legacy")
	o := r.put("bill.parquet", r.parquet(f, r.put("bill.csv", readBill(t, "aws_cur1_anonymous_2023-11.csv")),
		"date_time_input_format = 'best_effort', input_format_try_infer_exponent_floats = 1"))
	h, err := normalize.ReadHeader(r.archive.Root+"/sha256/"+o.SHA256[:2]+"/"+o.SHA256, o)
	must(t, err)
	types := map[string]string{}
	for _, c := range h.Fields {
		types[c.Name] = c.Type
	}
	if types["line_item_unblended_cost"] != "Nullable(Float64)" || !strings.HasPrefix(types["line_item_usage_start_date"], "Nullable(DateTime64") {
		t.Fatalf("the test wants doubles and times, the file has %v", types)
	}
	d := r.delivery(event.BillingDelivery{Format: "aws-cur-legacy", Assume: event.Assumptions{Account: "typed"}}, o)
	r.load(Live, d)
	r.sums(d.Source, "1281|1.6823086974|1.6823086974|3.3561726949")
}

func TestAWSSampleSaysWhoPaidForWhat(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	for i, file := range []string{"aws_cur2.csv", "aws_cur_legacy.csv"} {
		format := "aws-cur2"
		if strings.Contains(file, "legacy") {
			format = "aws-cur-legacy"
		}
		d := r.delivery(event.BillingDelivery{Source: "payer", Format: format, Version: fmt.Sprint(i)}, r.put(file, readBill(t, file)))
		r.load(Live, d)
		src := []any{d.Source}
		// Instances ran 4 h = 28 GPU hours; 8 GPU hours of a capacity reservation were idle.
		r.want(`SELECT if(ifNull(CapacityReservationStatus, '-') = 'Unused', 'idle', 'ran') AS what, toString(sum(x_GpuHours))
			FROM idlewatt.charges WHERE x_Source = ? AND x_GpuHours > 0 GROUP BY what ORDER BY what`, src, "idle|8", "ran|28")
		r.want(`SELECT ChargeCategory, toString(sum(BilledCost)) FROM idlewatt.charges WHERE x_Source = ?
			AND ChargeCategory IN ('Tax', 'Credit') GROUP BY ChargeCategory ORDER BY ChargeCategory`, src, "Credit|-100", "Tax|5")
		// Covered usage and its negation are billed 0.
		r.want(`SELECT toString(sum(BilledCost)), toString(countIf(BilledCost != 0)) FROM idlewatt.charges WHERE x_Source = ?
			AND x_LineItemType IN ('SavingsPlanCoveredUsage', 'SavingsPlanNegation')`, src, "0|0")
		r.want(`SELECT toString(count()) FROM idlewatt.charges WHERE x_Source = ? AND x_PricingModel = 'spot' AND isNotNull(ListCost)`, src, "0")
		if format == "aws-cur2" {
			r.want(`SELECT ifNull(x_Team, '-') AS team, toString(sum(EffectiveCost)) FROM idlewatt.charges
				WHERE x_Source = ? AND ChargeCategory IN ('Usage', 'Purchase') GROUP BY team ORDER BY team`, src,
				"-|66.0608", "chat-api|6.2", "pretrain|86.9827", "research|11.57")
			r.want(`SELECT right(ifNull(SubAccountId, ''), 4) AS account, toString(sum(EffectiveCost)) FROM idlewatt.charges
				WHERE x_Source = ? GROUP BY account ORDER BY account`, src, "0001|-90.8152", "0010|145.3172", "0020|8.9715")
			r.want(`SELECT toString(sum(EffectiveCost)) FROM idlewatt.charges WHERE x_Source = ? AND x_GpuHours > 0
				AND ifNull(CapacityReservationStatus, '') != 'Unused'`, src, "101.9812")
		}
	}
}

func TestAzureSampleIsCash(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	d := r.delivery(event.BillingDelivery{Format: "azure-actual"}, r.put("azure_actual.csv", readBill(t, "azure_actual.csv")))
	r.load(Live, d)
	r.want(`SELECT ifNull(x_Team, '-') AS t, toString(BilledCost), ifNull(toString(EffectiveCost), '-'), ifNull(toString(x_GpuHours), '-')
		FROM idlewatt.charges WHERE x_Source = ? ORDER BY x_Row`, []any{d.Source},
		"pretrain|2123.712|2123.712|192", "research|7.346|7.346|10", "chat-api|0|-|20", "-|1569.6|0|-", "-|-0.000004|-0.000004|-")
	r.want(`SELECT Tags['note'] FROM idlewatt.charges WHERE x_Source = ? AND x_Row = 1`, []any{d.Source}, `a "quoted", value`)
	r.want(`SELECT toString(countIf(ResourceId != lower(ResourceId))) FROM idlewatt.charges WHERE x_Source = ?`, []any{d.Source}, "0")
}

// Three costs of the file have up to 28 digits: each is rounded half-even, and it is said.
func TestLongFractionsAreRoundedAndCounted(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	// An amortised file is refused as such; its long fractions are wanted here, as usage on demand.
	text := readBill(t, "azure_ea_amortized_small_2023-09.csv")
	for _, committed := range []string{",Reservation,", ",SavingsPlan,"} {
		text = bytes.ReplaceAll(text, []byte(committed), []byte(",OnDemand,"))
	}
	o := r.put("amortized.csv", text)
	d := r.delivery(event.BillingDelivery{Format: "azure-actual", Assume: event.Assumptions{Account: "round"}}, o)
	out := r.load(Live, d)
	if out.RoundedRows != 3 {
		t.Errorf("%d rows were rounded, want 3", out.RoundedRows)
	}
	r.want(`SELECT toString(sum(toDecimal256(BilledCost, 18))) FROM idlewatt.charges WHERE x_Source = ?`, []any{d.Source}, "16.296932136636644627")
	// What rounding took away is known: both together are the file's exact sum.
	r.want(`SELECT toString(sum(toDecimal256(BilledCost, 30)) + sum(toDecimal256(x_BilledResidue, 30))) FROM idlewatt_store.charges WHERE x_Delivery = ?`,
		[]any{d.Delivery}, "16.296932136636644627485419")
}

func TestEveryDefectOfTheFocusSampleIsReported(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	d := r.delivery(event.BillingDelivery{Format: "focus"}, r.put("focus10_sample_1000.csv", readBill(t, "focus10_sample_1000.csv")))
	out := r.load(Live, d)
	got := map[string]uint64{}
	for k, n := range out.Defects {
		name, where, _ := strings.Cut(k, "; first: ")
		if !strings.HasPrefix(where, "focus10_sample_1000.csv, row ") {
			t.Errorf("%q does not name file and row", k)
		}
		got[name] = n
	}
	want := map[string]uint64{
		"contracted cost missing": 7, "availability zone is a number": 51,
		"effective cost 0 on uncovered usage with a billed cost": 608,
		"credit whose effective cost is not its billed cost":     1,
		"charge frequency unknown to FOCUS":                      7,
		"region name without region id":                          7,
		"negative usage":                                         12,
		"charge outside its billing period":                      1,
		"list cost is not list price x quantity":                 31,
		"tag keys that differ only by a blank":                   23,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defects (-want +got):\n%s", diff)
	}
	r.want(`SELECT ServiceProviderName, toString(count()), toString(sum(BilledCost)), toString(sum(EffectiveCost)), toString(sum(ListCost)), ifNull(toString(sum(ContractedCost)), '-')
		FROM idlewatt.charges WHERE x_Source = ? GROUP BY ServiceProviderName ORDER BY ServiceProviderName`, []any{d.Source},
		"AWS|942|18.0066386184|13|18.1493176406|13", "Microsoft|51|1.97651418586|1.97651418586|1.97651418586|1.97626039326", "Oracle|7|0.53707392473|0|0.26507392473|-")
}

// The file's bad dates are no times: it is refused, with the cell named.
func TestSpecExamplesWithImpossibleDates(t *testing.T) {
	t.Parallel()
	for file, row := range map[string]uint64{"2": 0, "3": 0} {
		r := newRig(t)
		name := "commitment_discount_purchase_scenario_" + file + ".csv"
		csv := readBill(t, "spec_examples/v1.2/"+name)
		for i, line := range strings.Split(string(csv), "\n") {
			if strings.Contains(line, "T30:00:00Z") && row == 0 {
				row = uint64(i)
			}
		}
		d := r.delivery(event.BillingDelivery{Format: "focus", Assume: event.Assumptions{Account: "spec", Currency: "USD"}}, r.put(name, csv))
		out := r.load(Refused, d)
		want := fmt.Sprintf("%s, row %d, column %q: cannot read \"2023-02-01T30:00:00Z\" as a date or time", name, row, "ChargePeriodEnd")
		if out.Message != want {
			t.Errorf("got  %s\nwant %s", out.Message, want)
		}
	}
}
