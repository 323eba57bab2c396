package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/migrations"
)

func TestMain(m *testing.M) { localtest.Main(m) }

type rig struct {
	t  *testing.T
	db *store.DB
	js jetstream.JetStream
	p  *Processor
}

func clock() time.Time { return time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC) }

func newRig(t *testing.T) rig {
	t.Helper()
	engines := localtest.Fresh(t)
	db, err := store.Open(t.Context(), engines.ClickHouseOptions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := migrations.Apply(t.Context(), db.SQL, ""); err != nil {
		t.Fatal(err)
	}
	nc, err := engines.ConnectNATS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), js, 1); err != nil {
		t.Fatal(err)
	}
	return rig{t, db, js, New(Options{DB: db, Now: clock, Log: slog.New(slog.DiscardHandler)})}
}

func (r rig) publish(e event.Event) {
	r.t.Helper()
	if err := bus.Publish(r.t.Context(), r.js, e); err != nil {
		r.t.Fatal(err)
	}
}

func (r rig) drain() {
	r.t.Helper()
	for _, c := range r.p.Consumers() {
		if _, err := r.js.CreateOrUpdateConsumer(r.t.Context(), c.Stream, jetstream.ConsumerConfig{
			Durable: c.Durable, FilterSubjects: c.Subjects, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second,
			MaxAckPending: 2 * c.Batch, MaxDeliver: -1,
		}); err != nil {
			r.t.Fatal(err)
		}
		if err := runtime.Drain(r.t.Context(), r.js, c, r.p.Log); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r rig) count(query string) uint64 {
	r.t.Helper()
	var n uint64
	if err := r.db.QueryRow(r.t.Context(), query).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

func jobEvent(t *testing.T, typ string, at time.Time, j event.Job) event.Event {
	t.Helper()
	e, err := event.New(typ, "slurm-test", fmt.Sprint(j.ID, "/", j.Attempt, "/", typ, at, j.Evidence), "", at, j)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func at(hours float64) time.Time { return clock().Add(time.Duration(hours * float64(time.Hour))) }

func TestJobFactsFoldIntoOneRow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := event.JobID{Scheduler: "slurm", Cluster: "c1", ID: "4711", Attempt: 1}
	units := decimal.RequireFromString("12.5")
	end := at(3)
	facts := []event.Event{
		jobEvent(t, event.TypeJobFinished, at(3), event.Job{JobID: id, Evidence: "scheduler", End: &end, Outcome: "NODE_FAIL"}),
		jobEvent(t, event.TypeJobStarted, at(0), event.Job{JobID: id, Evidence: "scheduler", User: "dana", Project: "llm", GPUCount: 16}),
		jobEvent(t, event.TypeJobPlaced, at(0.1), event.Job{JobID: id, Evidence: "scheduler", Nodes: []string{"n2"}}),
		jobEvent(t, event.TypeJobPlaced, at(0.2), event.Job{JobID: id, Evidence: "scheduler", Nodes: []string{"n1"}, GPUs: []string{"GPU-1"}}),
		jobEvent(t, event.TypeJobCheckpointed, at(2), event.Job{JobID: id, Evidence: "declared"}),
		jobEvent(t, event.TypeJobCheckpointed, at(1), event.Job{JobID: id, Evidence: "declared", AcceptedUnits: &units}),
		jobEvent(t, event.TypeJobFinished, at(5), event.Job{
			JobID: id, Evidence: "declared", Outcome: "COMPLETED", Nodes: []string{"laptop"}, Project: "mine", Team: "atlas",
		}),
	}
	for _, e := range facts {
		r.publish(e)
	}
	r.drain()
	// The same facts again, as after a crash before the acknowledgement and outside the
	// server's duplicate window.
	var again []runtime.Delivered
	for _, e := range facts {
		again = append(again, runtime.Delivered{Event: e})
	}
	for _, err := range r.p.handleJobs(t.Context(), again) {
		if err != nil {
			t.Error(err)
		}
	}
	row := r.db.QueryRow(t.Context(), `SELECT Scheduler, User, Project, Team, Nodes, Gpus, GpuCount, Start, End, LastCheckpoint,
		Outcome, AcceptedUnits, Evidence FROM idlewatt_store.jobs WHERE JobId = '4711' AND Attempt = 1`)
	var scheduler, user, outcome, evidence string
	var project, team *string
	var nodes, gpus []string
	var count uint32
	var started, ended, checkpoint *time.Time
	var accepted *decimal.Decimal
	if err := row.Scan(&scheduler, &user, &project, &team, &nodes, &gpus, &count, &started, &ended, &checkpoint, &outcome, &accepted, &evidence); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(scheduler, user, *project, *team, nodes, gpus, count, started.UTC(), ended.UTC(), checkpoint.UTC(), outcome, accepted, evidence)
	want := fmt.Sprint("slurm", "dana", "llm", "atlas", []string{"n1", "n2"}, []string{"GPU-1"}, 16, at(0), at(3), at(2), "NODE_FAIL", units, "scheduler")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := r.count("SELECT count() FROM idlewatt_store.jobs"); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
	if n := r.count("SELECT count() FROM idlewatt_store.job_events FINAL"); n != uint64(len(facts)) {
		t.Errorf("%d facts, want %d", n, len(facts))
	}
}

// TestCase058OneBadEventNeitherLosesNorBlocks: what is acknowledged is stored, a bad event is
// put aside with its content.
func TestCase058OneBadEventNeitherLosesNorBlocks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var want []string
	for i := range 20 {
		j := event.Job{JobID: event.JobID{Scheduler: "slurm", ID: fmt.Sprint("job-", i)}, Evidence: "scheduler"}
		switch i {
		case 3:
			j.Scheduler = ""
		case 7:
			j.Outcome = "MAYBE"
		case 9:
			long := decimal.RequireFromString("1e25")
			j.AcceptedUnits = &long
		default:
			want = append(want, j.ID)
		}
		r.publish(jobEvent(t, event.TypeJobStarted, at(0), j))
	}
	broken := jobEvent(t, event.TypeJobStarted, at(0), event.Job{JobID: event.JobID{Scheduler: "s", ID: "x"}})
	broken.Data = json.RawMessage(`{"id": 5}`)
	broken.ID = "broken"
	r.publish(broken)
	if _, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: "raw.job.started", Data: []byte("no event at all")}); err != nil {
		t.Fatal(err)
	}
	r.drain()
	var got []string
	if err := r.db.QueryRow(t.Context(), "SELECT arraySort(groupArray(JobId)) FROM idlewatt_store.jobs").Scan(&got); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	dead, err := r.js.Stream(t.Context(), bus.Dead)
	if err != nil {
		t.Fatal(err)
	}
	info, err := dead.Info(t.Context())
	if err != nil || info.State.Msgs != 5 {
		t.Errorf("%d dead letters, want 5: %v", info.State.Msgs, err)
	}
	for _, c := range r.p.Consumers() {
		cons, err := r.js.Consumer(t.Context(), c.Stream, c.Durable)
		if err != nil {
			t.Fatal(err)
		}
		if i, err := cons.Info(t.Context()); err != nil || i.NumAckPending != 0 || i.NumPending != 0 {
			t.Errorf("%s has work left: %+v %v", c.Durable, i, err)
		}
	}
}

// TestNothingIsAcknowledgedWithoutTheStore: while the store refuses, events stay.
func TestNothingIsAcknowledgedWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := []runtime.Delivered{{Event: jobEvent(t, event.TypeJobStarted, at(0), event.Job{JobID: event.JobID{Scheduler: "slurm", ID: "1"}})}}
	if err := r.db.Exec(t.Context(), "RENAME TABLE idlewatt_store.job_events TO idlewatt_store.away"); err != nil {
		t.Fatal(err)
	}
	if errs := r.p.handleJobs(t.Context(), d); errs[0] == nil {
		t.Error("acknowledged without a table")
	}
	if err := r.db.Exec(t.Context(), "RENAME TABLE idlewatt_store.away TO idlewatt_store.job_events"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if errs := r.p.handleJobs(ctx, d); errs[0] == nil {
		t.Error("acknowledged while stopping")
	}
	if errs := r.p.handleJobs(t.Context(), d); errs[0] != nil || r.count("SELECT count() FROM idlewatt_store.jobs") != 1 {
		t.Errorf("not stored: %v", errs)
	}
}

func TestInstances(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rate, gpus := decimal.RequireFromString("98.32"), decimal.NewFromInt(8)
	to := at(2)
	for i, m := range []event.Instance{
		{ResourceID: "i-1", Provider: "aws", Hosts: []string{"ip-10-0-0-1"}, GPUCount: &gpus, Rate: &rate, Currency: "USD", SeenFrom: at(0)},
		{ResourceID: "i-1", Provider: "aws", Hosts: []string{"ip-10-0-0-1"}, GPUCount: &gpus, Rate: &rate, Currency: "USD", SeenFrom: at(0), SeenTo: &to},
		{ResourceID: "", Provider: "aws"},
		{ResourceID: "i-2", Provider: "aws", Rate: &rate},
	} {
		e, err := event.New(event.TypeInventoryInstance, "aws", fmt.Sprint(m.ResourceID, i), "", at(float64(i)), m)
		if err != nil {
			t.Fatal(err)
		}
		r.publish(e)
	}
	r.drain()
	var seenTo *time.Time
	var got decimal.Decimal
	err := r.db.QueryRow(t.Context(), "SELECT SeenTo, assumeNotNull(Rate) FROM idlewatt_store.instances FINAL").Scan(&seenTo, &got)
	if err != nil || seenTo == nil || !seenTo.Equal(to) || !got.Equal(rate) {
		t.Errorf("seen to %v, rate %v: %v", seenTo, got, err)
	}
	if n := r.count("SELECT count() FROM idlewatt_store.instances FINAL"); n != 1 {
		t.Errorf("%d instances, want 1", n)
	}
}
