package normalize

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/schema/event"
)

const focusHeader = "BillingAccountId,BillingCurrency,BillingPeriodStart,ChargePeriodStart,ChargePeriodEnd,ResourceId,BilledCost,EffectiveCost\n"

// line is one FOCUS row of an hour.
func line(account, period, resource, cost string) string {
	at := period + "-01T00:00:00Z"
	return fmt.Sprintf("%s,USD,%s,%s,%s-01T01:00:00Z,%s,%s,%s\n", account, at, at, period, resource, cost, cost)
}

// liveRows is what a source shows: month, resource and cost of each row.
func (r *rig) liveRows(source string) string {
	r.Helper()
	return strings.Join(r.ask(`SELECT concat(formatDateTime(BillingPeriodStart, '%Y-%m'), ' ', ifNull(ResourceId, ''), ' ', toString(BilledCost))
		FROM idlewatt.charges WHERE x_Source = ? ORDER BY BillingPeriodStart, ResourceId`, source), ", ")
}

// Handed case 045, its versions as deliveries of the whole: whatever the order of arrival,
// the highest version wins, and what it no longer holds is gone.
func TestHighestVersionWinsInEveryOrder(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "cases", "045.json"))
	must(t, err)
	var in struct {
		Arrivals []struct {
			Line, Cost string
			Version    int
			Removed    bool
		}
	}
	must(t, json.Unmarshal(text, &in))
	r := freshRig(t)
	// The whole bill as it stands at a version.
	bill := func(account string, version int) event.Object {
		newest, cost := map[string]int{}, map[string]string{}
		for _, a := range in.Arrivals {
			if a.Version <= version && a.Version >= newest[a.Line] {
				newest[a.Line], cost[a.Line] = a.Version, a.Cost
			}
		}
		csv := focusHeader
		for _, l := range []string{"L1", "L2", "L3"} {
			if cost[l] != "" {
				csv += line(account, "2025-05", l, cost[l])
			}
		}
		return r.put("bill.csv", []byte(csv))
	}
	for _, order := range [][]int{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}} {
		source := r.source()
		for _, version := range slices.Concat(order, order[:1]) { // the first comes again
			d := r.delivery(event.BillingDelivery{Source: source, Format: "focus", Version: fmt.Sprint(version)}, bill(source, version))
			_, err := r.p.Deliver(t.Context(), d)
			must(t, err)
		}
		if got, want := r.liveRows(source), "2025-05 L1 12, 2025-05 L3 1"; got != want {
			t.Errorf("order %v: live %s, want %s", order, got, want)
		}
	}
}

// book is what a source should show: per month the newest version's rows.
type book struct {
	rows    map[string]map[string]string // month -> resource -> cost
	version map[string]string            // month -> sorted version with its hash
}

// Any sequence of deliveries over several months: at every moment the live rows are those of
// the newest version of each month, never of the newest arrival; a repeat changes nothing.
func TestDeliveriesObeyTheirVersions(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	fewChecks(t, 8)
	rapid.Check(t, func(t *rapid.T) {
		source := r.source()
		months := []string{"2025-01", "2025-02", "2025-03"}
		want := book{map[string]map[string]string{}, map[string]string{}}
		for range rapid.IntRange(1, 5).Draw(t, "deliveries") {
			version := fmt.Sprint(rapid.IntRange(1, 9).Draw(t, "version"))
			csv := focusHeader
			rows := map[string]map[string]string{}
			for _, m := range rapid.SliceOfNDistinct(rapid.SampledFrom(months), 1, 2, rapid.ID).Draw(t, "months") {
				rows[m] = map[string]string{}
				for _, res := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID).Draw(t, "resources") {
					cost := fmt.Sprintf("%d.%02d", rapid.IntRange(-9, 9).Draw(t, "units"), rapid.IntRange(1, 99).Draw(t, "cents"))
					cost = strings.TrimSuffix(cost, "0")
					rows[m][res] = cost
					csv += line(source, m, res, cost)
				}
			}
			d := r.delivery(event.BillingDelivery{Source: source, Format: "focus", Version: version}, r.put("bill.csv", []byte(csv)))
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				if _, err := r.p.Deliver(r.Context(), d); err != nil {
					t.Fatal(err)
				}
			}
			order := SortVersion(version) + " " + contentHash(d)
			for m, lines := range rows {
				if order >= want.version[m] {
					want.rows[m], want.version[m] = lines, order
				}
			}
			if got := r.liveRows(source); got != want.text() {
				t.Fatalf("after version %s of %d months: live\n%s\nwant\n%s", version, len(rows), got, want.text())
			}
		}
	})
}

// fewChecks keeps properties that need the engines short, unless somebody asks for more.
func fewChecks(t *testing.T, n int) {
	t.Helper()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		must(t, f.Value.Set(fmt.Sprint(n)))
	}
}

func (b book) text() string {
	var out []string
	for m, lines := range b.rows {
		for res, cost := range lines {
			out = append(out, fmt.Sprintf("%s %s %s", m, res, cost))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// A, B, A: bytes that were live before go live again under their new version, without being
// loaded again, and a late B does not win over them.
func TestEarlierBytesGoLiveAgain(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	source := r.source()
	bytesOf := map[string]event.Object{
		"A": r.put("a.csv", []byte(focusHeader+line(source, "2025-01", "r", "1"))),
		"B": r.put("b.csv", []byte(focusHeader+line(source, "2025-01", "r", "2"))),
	}
	deliver := func(name, version, status, want string) {
		t.Helper()
		r.load(status, r.delivery(event.BillingDelivery{Source: source, Format: "focus", Version: version}, bytesOf[name]))
		if got := r.liveRows(source); got != "2025-01 r "+want {
			t.Errorf("%s at %s: live %s, want cost %s", name, version, got, want)
		}
	}
	deliver("A", "1", Live, "1")
	deliver("A", "1", Unchanged, "1")
	deliver("B", "3", Live, "2")
	deliver("A", "5", Live, "1")
	deliver("B", "4", Older, "1")
	deliver("A", "7", Unchanged, "1") // skipped, its version recorded
	deliver("B", "6", Older, "1")     // so this late one does not win
	deliver("B", "8", Live, "2")
	deliver("A", "2", Older, "2")
}

// Handed case 050: a delivery that is tried again, after a kill or a lost answer, leaves the
// bill and everything that is summed from it unchanged.
func TestRetriedLoadDoublesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	source := r.source()
	hour := func(h int, resource, cost string) string {
		return fmt.Sprintf("%s,USD,2025-03-01T00:00:00Z,2025-03-01T%02d:00:00Z,2025-03-01T%02d:00:00Z,%s,%s,%s\n", source, h, h+1, resource, cost, cost)
	}
	sums := func(want string) {
		t.Helper()
		r.want(`SELECT toString(sum(BilledCost)) FROM idlewatt.charges WHERE x_Source = ?`, []any{source}, want)
		r.want(`SELECT toString(sum(BilledCost)) FROM idlewatt.allocations_daily WHERE x_Source = ? GROUP BY Day`, []any{source}, want)
	}
	o := r.put("bill.csv", []byte(focusHeader+hour(0, "i-1", "1.5")+hour(1, "i-1", "2.5")))
	d := r.delivery(event.BillingDelivery{Source: source, Format: "focus", Version: "1"}, o)
	// A first attempt that wrote its rows and was killed before its commit.
	a := r.attempt(d)
	must(t, a.open())
	must(t, a.write(t.Context()))
	r.want(`SELECT toString(sum(BilledCost)) FROM idlewatt.charges WHERE x_Source = ?`, []any{source}, "0")
	r.load(Live, d)
	sums("4")
	r.load(Unchanged, d)
	sums("4")
	// Two rows that add up alike are two rows.
	o = r.put("bill.csv", []byte(focusHeader+hour(0, "i-1", "2.0")+hour(5, "i-2", "2.0")))
	r.load(Live, r.delivery(event.BillingDelivery{Source: source, Format: "focus", Version: "2"}, o))
	sums("4")
	r.want(`SELECT toString(count()) FROM idlewatt.charges WHERE x_Source = ?`, []any{source}, "2")
}

func (r *rig) attempt(d event.BillingDelivery) *attempt {
	f, ok := find(d.Format)
	if !ok {
		r.Fatal(d.Format)
	}
	return &attempt{p: r.p, d: d, format: f, version: SortVersion(d.Version), hash: contentHash(d)}
}

// Handed case 052: a restated line that moves to another month leaves its old month, also
// after merges.
func TestMovedLineLeavesItsMonth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	source := r.source()
	deliver := func(version, csv string) {
		t.Helper()
		r.load(Live, r.delivery(event.BillingDelivery{Source: source, Format: "focus", Version: version}, r.put("bill.csv", []byte(focusHeader+csv))))
	}
	deliver("1", line(source, "2025-03", "other", "0")+line(source, "2025-03", "L1", "10.00"))
	deliver("2", line(source, "2025-03", "other", "0")+line(source, "2025-04", "L1", "12.00"))
	want := func() {
		t.Helper()
		r.want(`SELECT toString(sum(BilledCost)), toString(sumIf(BilledCost, toMonth(ChargePeriodStart) = 3)), toString(sumIf(BilledCost, toMonth(ChargePeriodStart) = 4)),
			toString(countIf(ResourceId = 'L1')) FROM idlewatt.charges WHERE x_Source = ?`, []any{source}, "12|0|12|1")
	}
	want()
	must(t, r.db.Exec(t.Context(), "OPTIMIZE TABLE idlewatt_store.charges FINAL"))
	want()
}

// Handed case 057, part b: a delivery over more partitions than an insert may have by default.
func TestManyPeriodsInOneDelivery(t *testing.T) {
	t.Parallel()
	r := freshRig(t)
	days, months := r.source(), r.source()
	csv, focus := "Date,SubscriptionId,CostInBillingCurrency,BillingCurrency\n", focusHeader
	for i := range 101 {
		csv += time.Date(2025, 1, 1+i, 0, 0, 0, 0, time.UTC).Format("01/02/2006") + "," + days + ",1.00,USD\n"
		focus += line(months, time.Date(2018, time.Month(1+i), 1, 0, 0, 0, 0, time.UTC).Format("2006-01"), "r", "1.00")
	}
	out := r.load(Live, r.delivery(event.BillingDelivery{Source: days, Format: "azure-actual"}, r.put("days.csv", []byte(csv))))
	if len(out.Scopes) != 101 {
		t.Errorf("%d scopes, want one a day", len(out.Scopes))
	}
	r.sums(days, "101|101|101|-")
	r.p.SharedDisk = false // the other way has settings of its own
	out = r.load(Live, r.delivery(event.BillingDelivery{Source: months, Format: "focus"}, r.put("months.csv", []byte(focus))))
	if len(out.Scopes) != 101 {
		t.Errorf("%d scopes, want one a month", len(out.Scopes))
	}
	r.sums(months, "101|101|101|-")
}

// Handed case 059: a bill is kept however old it is; no table of money forgets by itself.
func TestOldMonthsAreKept(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "cases", "059.json"))
	must(t, err)
	var in struct {
		Rows []struct {
			Age  int `json:"age_days"`
			Cost int
		}
	}
	must(t, json.Unmarshal(text, &in))
	r := newRig(t)
	source := r.source()
	csv := focusHeader
	for _, row := range in.Rows {
		at := time.Now().UTC().AddDate(0, 0, -row.Age)
		day := at.Format("2006-01-02")
		csv += fmt.Sprintf("%s,USD,%s-01,%s,%sT23:00:00Z,r,%d,%d\n", source, at.Format("2006-01"), day, day, row.Cost, row.Cost)
	}
	r.load(Live, r.delivery(event.BillingDelivery{Source: source, Format: "focus"}, r.put("bill.csv", []byte(csv))))
	r.sums(source, "2|12|12|-")
	must(t, r.db.Exec(t.Context(), "OPTIMIZE TABLE idlewatt_store.charges FINAL"))
	r.sums(source, "2|12|12|-")
	r.want(`SELECT name FROM system.tables WHERE database = 'idlewatt_store' AND match(create_table_query, '\\bTTL\\b')
		AND name IN ('charges', 'commits', 'invoices', 'jobs', 'allocations', 'allocation_commits', 'delivery_log', 'tag_dims', 'tag_sets')`, nil)
}

// Times, numbers and words each sort by value, and words by the value of their digit groups.
func TestSortVersion(t *testing.T) {
	t.Parallel()
	sorted := [][]string{
		{"", "1", "2", "10", "100"},
		{"2025-04-03", "2025-04-03T02:00:00Z", "2025-04-03T03:00:00+00:30", "2025-04-03 03:00:00", "2025-04-06T02:00:00.5Z"},
		{"asm-1", "asm-2", "asm-10", "asm-10-1", "asm-10-2"},
		{"20261001T000000Z-9", "20261001T000000Z-10", "20261002T000000Z-1"},
	}
	for _, list := range sorted {
		for i := range list {
			for j := range i {
				if a, b := SortVersion(list[j]), SortVersion(list[i]); a >= b || !comparableVersions(a, b) {
					t.Errorf("%q (%s) does not come before %q (%s)", list[j], a, list[i], b)
				}
			}
		}
	}
	if comparableVersions(SortVersion("5"), SortVersion("2025-01-01")) || comparableVersions(SortVersion("v5"), SortVersion("5")) {
		t.Error("versions of different kinds were compared")
	}
}
