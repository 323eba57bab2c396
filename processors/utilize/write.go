package utilize

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

const insertIntervals = `INSERT INTO idlewatt_store.gpu_intervals (Load, Uuid, Instance, Day, Start, End, ShareNum, ShareDen,
	State, Cause, Node, GpuModel, Resident, OwnerKind, Owner, OwnerConfidence, JobScheduler, JobCluster, JobId, JobTask,
	JobAttempt, Project, Team, Environment, LastJobId, Coverage, MeanPowerW, EngineMax, EngineMean, Findings)`

const insertCommits = `INSERT INTO idlewatt_store.interval_commits (Uuid, Instance, Day, Load, Fingerprint)`

// Sizes at which rows are sent and at which what was sent is committed.
const (
	sendRows   = 50_000
	commitRows = 500_000
)

// commit makes the rows of one device and day live.
type commit struct {
	uuid, instance string
	day            time.Time
	load, print    uint64
}

// writer writes derived rows and then their commits. Each (device, day) has a load of its
// own: the live view filters by load alone.
type writer struct {
	p        *Processor
	batch    driver.Batch
	sent     int
	commits  []commit
	replaces bool
	load     uint64
	left     uint64 // loads left of the last number taken
}

func (w *writer) nextLoad() uint64 {
	if w.left == 0 {
		w.load, w.left = w.p.Loads.Next(), 1<<16
	}
	l := w.load
	w.load, w.left = w.load+1, w.left-1
	return l
}

// add writes the rows of one card and day. Instances that had rows before and have none now
// get a commit too, which leaves nothing visible of them.
func (w *writer) add(ctx context.Context, uuid string, day time.Time, fingerprint uint64, rows []Row, before []string) error {
	loads := map[string]uint64{}
	for _, i := range before {
		loads[i] = 0
		w.replaces = true
	}
	for _, r := range rows {
		loads[r.Instance] = 0
	}
	if len(loads) == 0 {
		loads[""] = 0 // remember that there is nothing
	}
	for _, i := range slices.Sorted(maps.Keys(loads)) {
		loads[i] = w.nextLoad()
		w.commits = append(w.commits, commit{uuid, i, day, loads[i], fingerprint})
	}
	if w.batch == nil {
		b, err := w.p.DB.PrepareBatch(ctx, insertIntervals, driver.WithReleaseConnection())
		if err != nil {
			return fmt.Errorf("storing intervals: %w", err)
		}
		w.batch = b
	}
	for _, r := range rows {
		if err := w.batch.Append(r.values(loads[r.Instance], day)...); err != nil {
			return fmt.Errorf("storing intervals: %w", err)
		}
	}
	if w.batch.Rows() < sendRows {
		return nil
	}
	if err := w.send(); err != nil {
		return err
	}
	if w.sent < commitRows {
		return nil
	}
	return w.close(ctx)
}

func (w *writer) send() error {
	if w.batch == nil || w.batch.Rows() == 0 {
		return nil
	}
	w.sent += w.batch.Rows()
	if err := w.batch.Send(); err != nil {
		return fmt.Errorf("storing intervals: %w", err)
	}
	w.batch = nil
	return nil
}

// close sends what is left and commits everything that was sent.
func (w *writer) close(ctx context.Context) error {
	if err := w.send(); err != nil {
		return err
	}
	if len(w.commits) == 0 {
		return nil
	}
	if w.replaces && w.p.Pause > 0 {
		t := time.NewTimer(w.p.Pause)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
	b, err := w.p.DB.PrepareBatch(ctx, insertCommits, driver.WithReleaseConnection())
	if err != nil {
		return fmt.Errorf("committing intervals: %w", err)
	}
	for _, c := range w.commits {
		if err := b.Append(c.uuid, c.instance, c.day, c.load, c.print); err != nil {
			return fmt.Errorf("committing intervals: %w", err)
		}
	}
	if err := b.Send(); err != nil {
		return fmt.Errorf("committing intervals: %w", err)
	}
	w.commits, w.sent, w.replaces = nil, 0, false
	return nil
}

func (r Row) values(load uint64, day time.Time) []any {
	var j Job
	if r.Job != nil {
		j = *r.Job
	}
	findings := r.Findings
	if findings == nil {
		findings = []string{}
	}
	return []any{
		load, r.UUID, r.Instance, day, r.Start, r.End, r.ShareNum, r.ShareDen, r.State, r.Cause, r.Node, r.Model, r.Resident,
		r.OwnerKind, r.Owner, r.OwnerConfidence, j.Scheduler, j.Cluster, j.ID, j.ArrayTask,
		uint16(j.Attempt), r.Project, r.Team, r.Environment, r.LastJobID, //nolint:gosec // checked when it was stored
		float32(r.Coverage), nullable(r.MeanPowerW), nullable(r.EngineMax), nullable(r.EngineMean), findings,
	}
}

func nullable(v float64) *float32 {
	if !known(v) {
		return nil
	}
	f := float32(v)
	return &f
}
