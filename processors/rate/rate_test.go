package rate

import (
	"fmt"
	"testing"
	"time"
)

// shown lists what stands among the charges.
const shown = `SELECT concat(ifNull(ResourceId, '-'), ' ', ifNull(ResourceType, '-'), ' ', formatDateTime(ChargePeriodStart, '%d %H:%i'), ' ', formatDateTime(ChargePeriodEnd, '%H:%i'), ' ',
	toString(BilledCost), ' ', BillingCurrency, ' ', x_ChargeStatus) FROM idlewatt.charges WHERE x_Dataset = 'estimate' ORDER BY ChargePeriodStart, ResourceId, ResourceType`

// rated lists estimates by resource: hours, cost, rate and where it came from.
const rated = `SELECT concat(ResourceId, ' ', toString(sum(Hours)), ' h ', toString(sum(Cost)), ' at ', toString(any(Rate)), ' ', any(RateSource))
	FROM idlewatt.estimates GROUP BY ResourceId ORDER BY ResourceId`

func TestProvidersRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(run{resource: "pod-1", rate: "2.5", gpu: "H100", gpus: 2, from: at(7, 10, 15), to: at(7, 12, 30), pricing: "secure"})
	if n := w.once(); n != 2 {
		t.Errorf("%d were written, want a day of estimates and one of charges", n)
	}
	w.want(shown, "pod-1 machine 07 10:15 11:00 1.875 USD estimated", "pod-1 machine 07 11:00 12:00 2.5 USD estimated", "pod-1 machine 07 12:00 12:30 1.25 USD estimated")
	w.want(`SELECT concat(BillingAccountId, ' ', ifNull(x_PricingModel, ''), ' ', ifNull(x_GpuModel, ''), ' ', toString(sum(x_GpuHours)), ' ', ifNull(ServiceProviderName, ''), ' ', toString(max(ListCost) IS NULL))
		FROM idlewatt.charges GROUP BY BillingAccountId, x_PricingModel, x_GpuModel, ServiceProviderName`, "inv secure H100 4.5 Amazon Web Services 1")
	if n := w.once(); n != 0 {
		t.Errorf("nothing changed, and %d were written again", n)
	}
	w.fresh()
	if n := w.once(); n != 0 {
		t.Errorf("after a restart %d were written again", n)
	}
}

// TestRunPodStoppedPod is handed case 019: 72 h running, then 144 h stopped.
func TestRunPodStoppedPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start, stop, gone := at(1, 0, 0), at(4, 0, 0), at(10, 0, 0)
	pod := func(kind, rate string, from, to time.Time, gpus int64) run {
		return run{source: "rp", provider: "runpod", resource: "pod-ex1", kind: kind, rate: rate, from: from, to: to, gpus: gpus, gpu: map[bool]string{true: "A40"}[gpus > 0]}
	}
	// 50 GB of container disk at 0.10 and 100 GB of volume at 0.10, stopped at 0.20, per 720 hours.
	w.runs(pod("machine", "2.00", start, stop, 1), pod("storage", "0.020833333333333333", start, stop, 0), pod("storage", "0.027777777777777778", stop, gone, 0))
	w.once()
	w.want(`SELECT concat(toString(round(sum(BilledCost), 9)), ' ', toString(round(sumIf(BilledCost, ChargePeriodStart >= '2026-10-04'), 9)), ' ',
		toString(sumIf(ifNull(x_GpuHours, 0), ChargePeriodStart >= '2026-10-04'))) FROM idlewatt.charges`, "149.5 4 0")
	w.want("SELECT toString(sum(x_GpuHours)) FROM idlewatt.charges", "72")
}

// TestLambdaBilledMinutes is handed case 021: from healthy to termination, in minutes.
func TestLambdaBilledMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	healthy, end := at(5, 10, 7), at(5, 12, 22)
	w.runs(
		run{source: "la", provider: "lambda", resource: "lam-ex1", rate: "23.92", gpus: 8, gpu: "H100", pricing: "on_demand", from: healthy, to: end, step: 60},
		run{source: "la", provider: "lambda", resource: "lam-ex2", rate: "23.92", gpus: 8, from: healthy.Add(20 * time.Second), to: end.Add(-30 * time.Second), step: 60},
		run{source: "la", provider: "lambda", resource: "fs-1", kind: "volume", rate: "0.1", from: at(5, 0, 0), to: at(7, 0, 0), step: 3600})
	w.once()
	w.want(rated, "fs-1 48 h 4.8 at 0.1 provider", "lam-ex1 2.25 h 53.82 at 23.92 provider", "lam-ex2 2.25 h 53.82 at 23.92 provider")
	w.want("SELECT toString(sum(x_GpuHours)) FROM idlewatt.charges WHERE ResourceId = 'lam-ex1'", "18")
	w.want("SELECT toString(sum(BilledCost)) FROM idlewatt.charges WHERE ResourceId != 'lam-ex2'", "58.62")
}

func TestRates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	from, to := at(10, 9, 0), at(10, 11, 0)
	m := func(id, instance, pricing string) run {
		return run{resource: id, account: "acct", region: "r1", zone: "r1a", instance: instance, system: "Linux", pricing: pricing, from: from, to: to}
	}
	with := func(r run, change func(*run)) run { change(&r); return r }
	w.runs(
		m("01-zone", "zoned", "on_demand"), with(m("02-region", "zoned", "on_demand"), func(r *run) { r.zone = "r1b" }),
		with(m("03-anywhere", "zoned", "on_demand"), func(r *run) { r.region, r.zone = "r9", "r9a" }),
		with(m("04-per-gpu", "cards", "on_demand"), func(r *run) { r.gpus = 4 }), m("05-gpus-unknown", "cards", "on_demand"),
		with(m("06-windows", "zoned", "on_demand"), func(r *run) { r.zone, r.system = "r1b", "Windows" }),
		m("07-reserved", "zoned", "reserved"), with(m("08-reserved-told", "zoned", "reserved"), func(r *run) { r.rate = "1" }),
		m("09-negotiated", "paid", "on_demand"), m("10-spot-apart", "paid", "spot"), with(m("11-other-account", "paid", "on_demand"), func(r *run) { r.account = "other" }),
		m("12-changed", "stepped", "on_demand"), m("13-promotion-over", "promo", "on_demand"), m("14-unknown", "nobody", "on_demand"),
		m("15-first-price-within-hour", "late", "on_demand"), m("16-no-model", "zoned", ""), with(m("17-absurd", "zoned", "on_demand"), func(r *run) { r.rate = "99999999999999999999" }))
	w.prices(
		price{instance: "zoned", rate: "7", from: at(1, 0, 0)}, price{instance: "zoned", region: "r1", system: "Linux", rate: "6", from: at(1, 0, 0)},
		price{instance: "zoned", region: "r1", zone: "r1a", system: "Linux", rate: "5", from: at(1, 0, 0)}, price{instance: "zoned", pricing: "reserved", rate: "9", from: at(1, 0, 0)},
		price{instance: "cards", per: "gpu", rate: "1.25", from: at(1, 0, 0)},
		price{instance: "paid", rate: "8", from: at(1, 0, 0)}, price{instance: "paid", pricing: "spot", rate: "2", from: at(1, 0, 0)},
		price{instance: "stepped", rate: "3", from: at(1, 0, 0)}, price{instance: "stepped", rate: "4", from: at(10, 9, 30)}, price{instance: "stepped", rate: "100", from: at(10, 11, 0)},
		price{instance: "promo", rate: "10", from: at(1, 0, 0)}, price{instance: "promo", rate: "1", from: at(2, 0, 0), to: at(3, 0, 0)},
		price{instance: "nobody", per: "vcpu", rate: "1", from: at(1, 0, 0)}, price{instance: "nobody", rate: "0", from: at(1, 0, 0)},
		price{instance: "late", rate: "2", from: at(10, 9, 20)}, price{instance: "late", rate: "3", from: at(10, 9, 40)})
	paid := line{account: "acct", instance: "paid", region: "r1", pricing: "on_demand", resource: "i-old", cost: "6", gpus: 8}
	var lines []line
	for day := 3; day < 6; day++ {
		l := paid
		l.start = at(day, 5, 0)
		lines = append(lines, l)
	}
	covered, sep := paid, paid
	covered.start, covered.pricing, covered.cost = at(4, 6, 0), "savings_plan", "1"
	sep.start, sep.cost = at(1, 0, 0).AddDate(0, 0, -40), "1" // too long ago
	w.bill("payer/cur/2026-10", "1", append(lines, covered, sep)...)
	w.once()
	w.want(rated,
		"01-zone 2 h 10 at 5 catalogue", "02-region 2 h 12 at 6 catalogue", "03-anywhere 2 h 14 at 7 catalogue", "04-per-gpu 2 h 10 at 5 catalogue",
		"06-windows 2 h 14 at 7 catalogue", "08-reserved-told 2 h 2 at 1 provider", "09-negotiated 2 h 12 at 6 negotiated", "10-spot-apart 2 h 4 at 2 catalogue",
		"11-other-account 2 h 16 at 8 catalogue", "12-changed 2 h 7 at 3 catalogue", "13-promotion-over 2 h 20 at 10 catalogue",
		"15-first-price-within-hour 2 h 5 at 2 catalogue")
	w.want("SELECT concat(ResourceId, ' ', toString(Hours), ' ', Reason) FROM idlewatt.unpriced_runs ORDER BY ResourceId",
		"05-gpus-unknown 2 no_gpu_count", "07-reserved 2 committed", "14-unknown 2 no_price", "16-no-model 2 no_pricing_model", "17-absurd 2 rate_too_high")
}

// TestOpenRuns: a run that was not seen to end lasts until the last poll that covers it.
func TestOpenRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(
		run{resource: "open", rate: "1", from: at(7, 22, 0)},
		run{source: "quiet", resource: "no-poll", rate: "1", from: at(7, 10, 0), received: at(7, 12, 30)},
		run{source: "two", resource: "elsewhere", region: "west", rate: "1", from: at(7, 10, 0), received: at(7, 10, 30)},
		run{source: "two", resource: "here", region: "east", rate: "1", from: at(7, 10, 0)},
		// The end of the first was never told; the second says that the rate has changed.
		run{resource: "resized", rate: "1", from: at(7, 10, 0)}, run{resource: "resized", rate: "2", from: at(7, 11, 30)})
	w.poll("inv", at(7, 10, 0), at(7, 23, 0), at(8, 6, 0), at(8, 2, 0)) // a gap of the poller is none of the run
	must(t, w.db.Exec(w.ctx, `INSERT INTO idlewatt_store.polls (Source, Provider, Region, At, Running, Event, ReceivedAt) VALUES ('two', 'aws', 'east', '2026-10-07 13:00:00', 1, 'p', now64(6))`))
	w.once()
	const sums = `SELECT concat(ResourceId, ' ', toString(sum(Cost))) FROM idlewatt.estimates GROUP BY ResourceId ORDER BY ResourceId`
	w.want(sums, "elsewhere 0.5", "here 3", "no-poll 2.5", "open 8", "resized 38.5")
	w.want("SELECT concat(ResourceName, ' ', toString(SeenUntil), ' ', toString(CostPerHour), ' ', toString(CostSoFar)) FROM idlewatt.running WHERE x_Source = 'inv' ORDER BY 1",
		"name of open 2026-10-08 06:00:00.000 1 8", "name of resized 2026-10-08 06:00:00.000 2 37")
	w.poll("inv", at(8, 7, 0))
	if n := w.once(); n != 2 {
		t.Errorf("%d were written, want one day of estimates and one of charges", n)
	}
	// It ends, and in fact did before the last poll.
	w.runs(run{resource: "open", rate: "1", from: at(7, 22, 0), to: at(7, 23, 30), before: at(8, 0, 30), after: at(7, 21, 0), received: at(9, 0, 0)})
	w.once()
	w.want(sums, "elsewhere 0.5", "here 3", "no-poll 2.5", "open 1.5", "resized 40.5")
	w.want("SELECT concat(toString(sum(CostLow)), ' ', toString(sum(Cost)), ' ', toString(sum(CostHigh))) FROM idlewatt.estimates WHERE ResourceId = 'open'", "1.5 1.5 3.5")
	w.want(`SELECT toString(x_Scope) FROM idlewatt.charges GROUP BY x_Scope ORDER BY x_Scope`, "inv/estimate/2026-10-07", "inv/estimate/2026-10-08", "quiet/estimate/2026-10-07", "two/estimate/2026-10-07")
}

// TestHostsAreNoRuns: the host map of the configuration, from the beginning of time, costs nothing.
func TestHostsAreNoRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(run{source: "idlewatt/config", provider: "config", resource: "i-1", from: time.Unix(0, 0).UTC(), received: at(7, 0, 0)},
		run{source: "k8s", resource: "i-2", from: at(1, 0, 0), received: at(7, 0, 0)})
	if n := w.once(); n != 0 {
		t.Errorf("%d days were computed", n)
	}
	w.want("SELECT toString(count()) FROM idlewatt.unpriced_runs", "0")
}

// TestCompleteThrough: up to where the bill is whole estimates go, matched or not, by family;
// after it only what is billed.
func TestCompleteThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := run{resource: "i-1", account: "acct", instance: "p5", region: "r", pricing: "on_demand", rate: "10", gpus: 8, from: at(7, 0, 0), to: at(9, 0, 0)}
	ghost, disk := m, m
	ghost.resource, disk.resource, disk.kind, disk.instance, disk.rate = "i-ghost", "vol-1", "storage", "", "1"
	w.runs(m, ghost, disk)
	w.once()
	const sums = `SELECT concat(ifNull(ResourceId, '-'), ' ', toString(count()), ' ', toString(sum(BilledCost))) FROM idlewatt.charges WHERE x_ChargeStatus = 'estimated' GROUP BY ResourceId ORDER BY ResourceId`
	w.want(sums, "i-1 48 480", "i-ghost 48 480", "vol-1 48 48")
	// 36 hours are billed: with a day's lag the first 12 are whole.
	var lines []line
	for h := range 36 {
		lines = append(lines, line{resource: "i-1", account: "acct", instance: "p5", region: "r", pricing: "on_demand", gpus: 8, cost: "9", start: at(7, h, 0)})
	}
	lines = append(lines, line{account: "acct", category: "Tax", cost: "100", start: at(30, 0, 0)}, line{account: "acct", category: "Credit", cost: "-100", start: at(30, 0, 0)},
		line{account: "acct", cost: "5", start: at(1, 0, 0), end: at(31, 0, 0)}, line{account: "acct", resource: "i-1", unit: "GB", cost: "7", start: at(8, 20, 0)}, line{account: "acct", resource: "i-1", instance: "p5", cost: "0", start: at(29, 0, 0)})
	w.bill("payer/cur/2026-10", "1", lines...)
	w.once()
	w.want("SELECT concat(Account, ' ', Family, ' ', toString(Through), ' ', BillingAccountId) FROM idlewatt_store.complete WHERE Family = 'compute' ORDER BY 1",
		" compute 2026-10-07 12:00:00.000 payer-1", "acct compute 2026-10-07 12:00:00.000 payer-1", "payer-1 compute 2026-10-07 12:00:00.000 payer-1")
	w.want(sums, "i-1 12 120", "i-ghost 36 360", "vol-1 48 48")
	w.want("SELECT concat(BillingAccountId, ' ', ifNull(SubAccountId, '-')) FROM idlewatt.charges WHERE ResourceId = 'i-ghost' GROUP BY ALL", "payer-1 acct")
	w.want("SELECT concat(Status, ' ', toString(count())) FROM idlewatt.estimates WHERE ResourceId = 'i-1' GROUP BY Status ORDER BY Status", "estimated 12", "superseded 36")
	w.want(`SELECT concat(x_InstanceType, ' ', toString(Day), ' ', toString(EstimatedCost), ' ', toString(BilledCost), ' ', toString(Difference), ' ', toString(EstimatedHours), ' ', toString(BilledHours))
		FROM idlewatt.estimate_errors`, "p5 2026-10-07 240 108 132 24 12")
	// A delivery cannot know what came after it was made; and it is not taken back.
	for _, v := range []string{"t" + micros(at(7, 6, 0)), "t" + micros(at(8, 0, 0))} {
		w.bill("payer/cur/2026-11", v, lines[:36]...)
		w.once()
		w.want("SELECT toString(Through) FROM idlewatt_store.complete WHERE Account = 'acct' AND Family = 'compute'", "2026-10-07 12:00:00.000")
	}
	// What is invoiced is whole to the end of its period.
	for i := range lines {
		lines[i].invoice = "E-1"
	}
	w.bill("payer/cur/2026-10", "2", lines...)
	w.once()
	w.want(sums, "vol-1 48 48")
	w.want("SELECT toString(count()) FROM idlewatt.charges WHERE ResourceId = 'i-1' AND ChargePeriodStart < '2026-10-09'", fmt.Sprint(36+1+36))
}

// TestBillsMadeAfterTheirPeriodAreWhole is handed case 008 with a bill that has no invoice id:
// a spot run that was free, and the unpaid end of another, are no estimates for ever.
func TestBillsMadeAfterTheirPeriodAreWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spot := func(name string, from, to time.Time) run {
		return run{resource: name, account: "acct", instance: "g5", region: "r", pricing: "spot", rate: "0.60", gpus: 1, from: from, to: to}
	}
	w.runs(spot("spot-a", at(2, 0, 10), at(2, 0, 52)), spot("spot-b", at(2, 1, 0), at(2, 3, 17)), spot("spot-d", at(2, 5, 0), at(2, 7, 17)))
	w.bill("payer/cur/2026-10", "t"+micros(at(40, 0, 0)),
		line{resource: "spot-b", account: "acct", instance: "g5", region: "r", pricing: "spot", gpus: 1, cost: "1.375", start: at(2, 1, 0), end: at(2, 3, 17)},
		line{resource: "spot-d", account: "acct", instance: "g5", region: "r", pricing: "spot", gpus: 1, cost: "1.2", start: at(2, 5, 0), end: at(2, 7, 0)})
	w.once()
	w.want("SELECT concat(toString(sum(EffectiveCost)), ' ', toString(countIf(x_ChargeStatus = 'estimated'))) FROM idlewatt.charges", "2.575 0")
}

// TestDaysOfAnAPIAreWholeForAllFamilies: a provider that says all of a day says by silence that
// a disk cost nothing.
func TestDaysOfAnAPIAreWholeForAllFamilies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := run{source: "rp", provider: "runpod", account: "payer-1", resource: "pod", instance: "H100", pricing: "on_demand", rate: "2", gpus: 1, from: at(7, 0, 0), to: at(9, 0, 0)}
	disk := pod
	disk.kind, disk.instance, disk.rate = "storage", "", "1"
	w.runs(pod, disk)
	w.bill("rp/usage/2026-10-07", "t"+micros(at(8, 6, 0)), line{provider: "RunPod", resource: "pod", gpus: 1, cost: "2", start: at(7, 0, 0)})
	w.once()
	// Asked on the 8th at six, less an hour; but no later than the last day that was told.
	w.want("SELECT concat(Family, ' ', toString(Through)) FROM idlewatt_store.complete WHERE Account = 'payer-1' ORDER BY Family",
		"compute 2026-10-08 00:00:00.000", "other 2026-10-08 00:00:00.000", "storage 2026-10-08 00:00:00.000")
	w.want("SELECT concat(ResourceType, ' ', toString(sum(BilledCost)), ' ', toString(min(ChargePeriodStart))) FROM idlewatt.charges WHERE x_ChargeStatus = 'estimated' GROUP BY ResourceType ORDER BY 1",
		"machine 48 2026-10-08 00:00:00.000", "storage 24 2026-10-08 00:00:00.000")
	// A day without any line is told as well.
	w.bill("rp/usage/2026-10-08", "t"+micros(at(8, 13, 0)))
	w.once()
	w.want("SELECT DISTINCT toString(Through) FROM idlewatt_store.complete WHERE Account = 'payer-1'", "2026-10-08 12:00:00.000")
}

func micros(t time.Time) string { return fmt.Sprintf("%020d", t.UnixMicro()) }

// TestInvoiceSettles: where there is no bill, estimates and one line add up to the invoice.
func TestInvoiceSettles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(run{source: "la", provider: "lambda", account: "team-9", resource: "lam-1", rate: "3", gpus: 1, gpu: "H100", pricing: "on_demand", from: at(4, 20, 0), to: at(6, 4, 0)})
	w.once()
	invoice := func(id, issuer, account, currency, from, to, amount string) {
		must(t, w.db.Exec(w.ctx, `INSERT INTO idlewatt_store.invoices (InvoiceIssuerName, BillingAccountId, InvoiceId, BillingPeriodStart, BillingPeriodEnd, BillingCurrency, BilledCost)
			VALUES (?, ?, ?, ?, ?, ?, ?)`, issuer, account, id, from, to, currency, amount))
	}
	invoice("X", "Lambda, Inc.", "team-9", "EUR", "2026-10-05", "2026-10-12", "1")
	invoice("Y", "Amazon", "team-9", "USD", "2026-10-04", "2026-10-12", "1")
	invoice("Z", "Lambda, Inc.", "team-8", "USD", "2026-10-05", "2026-10-12", "1")
	w.once()
	w.want("SELECT concat(x_ChargeStatus, ' ', toString(sum(BilledCost))) FROM idlewatt.charges GROUP BY x_ChargeStatus", "estimated 96")
	invoice("L-7", "Lambda, Inc.", "team-9", "USD", "2026-10-05", "2026-10-12", "90.01")
	w.once()
	w.want("SELECT concat(x_ChargeStatus, ' ', ifNull(InvoiceId, '-'), ' ', ChargeCategory, ' ', ifNull(x_LineItemType, ''), ' ', toString(count()), ' ', toString(sum(BilledCost))) FROM idlewatt.charges GROUP BY ALL ORDER BY 1",
		"estimated - Usage estimate 4 12", "invoiced L-7 Adjustment invoice_settlement 1 6.01", "invoiced L-7 Usage estimate 28 84")
	w.want("SELECT concat(InvoiceId, ' ', toString(InvoiceTotal), ' ', toString(BilledCost), ' ', toString(Difference), ' ', Status) FROM idlewatt.reconciliation WHERE InvoiceId = 'L-7'", "L-7 90.01 90.01 0 matched")
	w.want("SELECT concat(Status, ' ', toString(count())) FROM idlewatt.estimates GROUP BY Status ORDER BY 1", "estimated 4", "settled 28")
	if n := w.once(); n != 0 {
		t.Errorf("nothing changed, and %d were written again", n)
	}
	// Time that is found later moves the adjustment, not the sum.
	w.runs(run{source: "la", provider: "lambda", account: "team-9", resource: "lam-2", rate: "3", from: at(8, 0, 0), to: at(8, 5, 0)})
	w.once()
	w.want("SELECT toString(sum(BilledCost)) FROM idlewatt.charges WHERE InvoiceId = 'L-7'", "90.01")
	w.want("SELECT toString(BilledCost) FROM idlewatt.charges WHERE ChargeCategory = 'Adjustment'", "-8.99")
}

// TestWallets: a balance ends when what is spent now has used it up, and is never a cost.
func TestWallets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(run{source: "rp", provider: "runpod", resource: "pod-1", rate: "2", from: at(7, 0, 0)}, run{source: "rp", provider: "runpod", resource: "pod-2", rate: "3", from: at(7, 0, 0), to: at(7, 1, 0)})
	for _, row := range []string{
		"('rp', 'runpod', '', '2026-10-07 01:00:00', 100, 'USD', NULL)", "('rp', 'runpod', '', '2026-10-07 02:00:00', 96, 'USD', NULL)",
		"('told', 'vast', 'a', '2026-10-07 02:00:00', 10, 'USD', 4)", "('told', 'vast', 'a', '2026-10-07 03:00:00', 5, 'USD', 0.5)",
		"('empty', 'vast', '', '2026-10-07 03:00:00', -1, 'USD', 1)", "('idle', 'vast', '', '2026-10-07 03:00:00', 7, 'USD', 0)",
		"('rich', 'vast', '', '2026-10-07 03:00:00', 90000000000000000000, 'USD', 0.000000000000000001)",
	} {
		must(t, w.db.Exec(w.ctx, "INSERT INTO idlewatt_store.wallets (Source, Provider, Account, At, Balance, Currency, SpendPerHour) VALUES "+row))
	}
	w.want("SELECT concat(x_Source, ' ', toString(Balance), ' ', ifNull(toString(SpendPerHour), '-'), ' ', SpendSource, ' ', ifNull(toString(ExpectedEnd), '-')) FROM idlewatt.wallets ORDER BY 1",
		"empty -1 1 provider 2026-10-07 03:00:00.000", "idle 7 0 provider -", "rich 90000000000000000000 0.000000000000000001 provider -",
		"rp 96 2 running 2026-10-09 02:00:00.000", "told 5 0.5 provider 2026-10-07 13:00:00.000")
	w.want("SELECT toString(count()) FROM idlewatt.charges", "0")
}
