package alert_test

import (
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/processors/alert"
	"github.com/idlewatt/idlewatt/schema/migrations"
	"github.com/idlewatt/idlewatt/schema/money"
)

// The statements run on the real engine over the real views.
func TestFactsFromClickHouse(t *testing.T) {
	t.Parallel()
	engines := localtest.Fresh(t)
	sql := clickhouse.OpenDB(engines.ClickHouseOptions())
	defer sql.Close() //nolint:errcheck // test
	if err := migrations.Apply(t.Context(), sql, "Europe/Berlin"); err != nil {
		t.Fatal(err)
	}
	db, err := clickhouse.Open(engines.ClickHouseOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // test
	for _, stmt := range factsData {
		if err := db.Exec(t.Context(), stmt); err != nil {
			t.Fatalf("%s: %v", stmt, err)
		}
	}
	facts := alert.NewClickHouse(db)
	now := time.Date(2026, 5, 8, 18, 0, 0, 0, time.UTC)
	got, err := facts.Idle(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	if err := facts.Describe(t.Context(), got.Nodes); err != nil {
		t.Fatal(err)
	}
	engine, power := 0.0, 70.0
	want := alert.IdleFacts{
		Nodes: []alert.IdleNode{{
			ResourceID: "i-1", Node: "trn-07", GPUModel: "H100", GPUCount: 1, NodeGPUs: 1, IdleSince: friday.Add(-5 * time.Minute), SeenUntil: now,
			State: "unallocated_idle", Cause: "no_job", CostSoFar: amount("8"), CostPerHour: amount("4"), Avoidable: amount("4"),
			Currency: "USD", Estimated: true, PricingModel: "on_demand", LastJobID: "4711", Coverage: 1, EngineMax: &engine, MeanPowerW: &power,
			Provider: "AWS", Account: "sub", Region: "us-east-1", Zone: "us-east-1a", Name: "trn-07",
			JobOutcome: "FAILED", JobEnded: friday, JobUser: "alice", Scheduler: "slurm",
		}},
		Known: map[string]alert.Known{"trn-07": {Until: now, State: "unallocated_idle"}},
	}
	if d := cmp.Diff(want, got, cmpopts.EquateApproxTime(0)); d != "" {
		t.Errorf("idle (-want +got):\n%s", d)
	}
	spend(t, facts, now)
}

func spend(t *testing.T, facts alert.Facts, now time.Time) {
	t.Helper()
	month := alert.SpendQuestion{Dimension: "provider", Value: "AWS", Cost: alert.CostEffective, Label: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	month.From, month.To = month.Label.Add(-2*time.Hour), month.Label.AddDate(0, 1, 0).Add(-2*time.Hour)
	for _, c := range []struct {
		change func(*alert.SpendQuestion)
		want   map[string]money.Decimal
	}{
		{func(*alert.SpendQuestion) {}, map[string]money.Decimal{"USD": *amount("9"), "EUR": *amount("1.5")}},
		{func(q *alert.SpendQuestion) { q.Dimension = "" }, map[string]money.Decimal{"USD": *amount("9"), "EUR": *amount("1.5")}},
		{func(q *alert.SpendQuestion) { q.Value = "x' OR 1=1 --" }, map[string]money.Decimal{}},
		{func(q *alert.SpendQuestion) { q.Cost = alert.CostBilled }, map[string]money.Decimal{"USD": *amount("8"), "EUR": *amount("1.5")}},
		{func(q *alert.SpendQuestion) { q.From, q.To = now, now.Add(time.Hour) }, map[string]money.Decimal{"USD": *amount("5")}},
	} {
		q := month
		c.change(&q)
		got, err := facts.Spend(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, got.By); d != "" {
			t.Errorf("%+v (-want +got):\n%s", q, d)
		}
		if got.LastBill.IsZero() && len(c.want) > 0 {
			t.Error("no time of the newest bill")
		}
	}
}

// One machine at 4 USD an hour, billed for one hour on the 5th; a monthly fee whose time
// begins before May in Berlin's terms but whose billing period is May; April's charge.
var factsData = []string{
	`INSERT INTO idlewatt_store.charges (x_Load, x_Scope, x_Row, BillingAccountId, SubAccountId, BillingCurrency, BillingPeriodStart,
		BillingPeriodEnd, ChargePeriodStart, ChargePeriodEnd, ChargeCategory, BilledCost, EffectiveCost, ResourceId, ResourceName,
		AvailabilityZone, RegionId, ServiceProviderName, x_PricingModel, x_GpuModel, x_GpuCount, x_GpuHours) VALUES
		(1, 's', 1, 'pay', 'sub', 'USD', '2026-05-01', '2026-06-01', '2026-05-05 10:00:00', '2026-05-05 11:00:00', 'Usage', 3, 4, 'i-1', 'trn-07', 'us-east-1a', 'us-east-1', 'AWS', 'on_demand', 'H100', 1, 1),
		(1, 's', 2, 'pay', 'sub', 'USD', '2026-05-01', '2026-06-01', '2026-05-01 00:00:00', '2026-06-01 00:00:00', 'Tax', 5, 5, NULL, NULL, NULL, NULL, 'AWS', NULL, NULL, NULL, NULL),
		(1, 's', 3, 'pay', 'sub', 'EUR', '2026-05-01', '2026-06-01', '2026-04-30 23:00:00', '2026-05-01 00:00:00', 'Usage', 1.5, 1.5, NULL, NULL, NULL, NULL, 'AWS', NULL, NULL, NULL, NULL),
		(1, 's', 4, 'pay', 'sub', 'USD', '2026-04-01', '2026-05-01', '2026-04-30 21:00:00', '2026-04-30 22:00:00', 'Usage', 70, 70, NULL, NULL, NULL, NULL, 'AWS', NULL, NULL, NULL, NULL),
		(9, 's', 5, 'pay', 'sub', 'USD', '2026-05-01', '2026-06-01', '2026-05-05 10:00:00', '2026-05-05 11:00:00', 'Usage', 99, 99, NULL, NULL, NULL, NULL, 'AWS', NULL, NULL, NULL, NULL)`,
	`INSERT INTO idlewatt_store.commits (Scope, Load, Version, ContentHash, PeriodStart, PeriodEnd) VALUES ('s', 1, '1', 'h', '2026-05-01', '2026-06-01')`,
	`INSERT INTO idlewatt_store.gpu_intervals (Load, Uuid, Day, Start, End, State, Cause, Node, GpuModel, LastJobId, Coverage, MeanPowerW, EngineMax) VALUES
		(5, 'GPU-1', '2026-05-08', '2026-05-08 15:00:00', '2026-05-08 16:00:00', 'busy', '', 'trn-07', 'H100', '', 1, 600, 0.9),
		(5, 'GPU-1', '2026-05-08', '2026-05-08 16:00:00', '2026-05-08 17:00:00', 'unallocated_idle', 'no_job', 'trn-07', 'H100', '4711', 1, 70, 0),
		(5, 'GPU-1', '2026-05-08', '2026-05-08 17:00:00', '2026-05-08 18:00:00', 'unallocated_idle', 'no_job', 'trn-07', 'H100', '4711', 1, 70, 0),
		(4, 'GPU-1', '2026-05-08', '2026-05-08 12:00:00', '2026-05-08 18:00:00', 'unallocated_idle', 'no_job', 'trn-07', 'H100', '1', 1, 70, 0)`,
	`INSERT INTO idlewatt_store.interval_commits (Uuid, Instance, Day, Load) VALUES ('GPU-1', '', '2026-05-08', 4), ('GPU-1', '', '2026-05-08', 5)`,
	// The job came back on another node after the moment that is asked about.
	`INSERT INTO idlewatt_store.job_events (Event, Type, At, Scheduler, JobId, Attempt, User, End, Outcome) VALUES
		('s', 'job.started', '2026-05-08 10:00:00', 'slurm', '4711', 0, 'alice', NULL, ''),
		('e', 'job.finished', '2026-05-08 16:05:01', 'slurm', '4711', 0, '', '2026-05-08 16:05:00', 'FAILED'),
		('f', 'job.finished', '2026-05-10 16:05:01', 'slurm', '4711', 1, '', '2026-05-10 16:05:00', 'COMPLETED')`,
}
