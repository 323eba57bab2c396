// Package attribute splits every charge of a GPU machine over the jobs and states of its
// GPUs, exactly, and tells the ledger what changed. Of machines that nobody else tells of, the
// bill's own split over pods decides, where it has one.
//
// It works on levels, not on events: it recomputes each (load, day) whose inputs differ from
// those of its last commit. Loading bills is processors/normalize, states are
// processors/utilize, and charges that are no machine's are not split at all.
package attribute

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/processors/store"
)

// Options are what a Processor needs.
type Options struct {
	DB    *store.DB
	JS    jetstream.JetStream // nil publishes nothing
	Loads *store.Loads
	Now   func() time.Time
	Log   *slog.Logger
	// Every is how often Run looks for days whose inputs changed.
	Every time.Duration
}

// Processor computes allocations.
type Processor struct{ Options }

// New returns a processor; it opens nothing.
func New(o Options) *Processor {
	if o.Every == 0 {
		o.Every = 10 * time.Second
	}
	return &Processor{o}
}

// Run recomputes what differs, again and again, until ctx ends. A failed pass is logged and
// tried again at the next one: nothing is lost, since the inputs are still there.
func (p *Processor) Run(ctx context.Context) error {
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	for {
		if _, err := p.Once(ctx); err != nil && ctx.Err() == nil {
			p.Log.WarnContext(ctx, "attributing charges", slog.String("error", err.Error()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// key is what is recomputed and committed as one: a day of a live load.
type key struct {
	charge      uint64
	day         time.Time
	fingerprint uint64
	gpus, pods  bool // what there is to split: GPU machines, machines that the bill splits over pods
}

// Once recomputes every (load, day) whose inputs differ from those of its last commit, and
// returns how many there were.
func (p *Processor) Once(ctx context.Context) (int, error) {
	due, err := p.due(ctx)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	byLoad := map[uint64][]key{}
	var order []uint64
	for _, k := range due {
		if _, ok := byLoad[k.charge]; !ok {
			order = append(order, k.charge)
		}
		byLoad[k.charge] = append(byLoad[k.charge], k)
	}
	for _, load := range order {
		began := p.Now()
		if err := p.recompute(ctx, byLoad[load]); err != nil {
			return 0, err
		}
		p.Log.InfoContext(ctx, "charges split", slog.Uint64("load", load), slog.Int("days", len(byLoad[load])), slog.Duration("took", p.Now().Sub(began)))
	}
	return len(due), nil
}

// dueSQL compares what each (load, day) was computed from with what there is now: the live
// intervals and the jobs of the days it covers, and whose their hosts' names were then.
const dueSQL = `
WITH
    keys AS (
        SELECT x_Load, Day, max(Last) AS LastDay, max(Gpus) AS HasGpus, max(NOT Gpus) AS HasPods FROM
        (
            SELECT x_Load, toDate(ChargePeriodStart) AS Day, max(toDate(ChargePeriodEnd - INTERVAL 1 MILLISECOND)) AS Last, true AS Gpus
            FROM idlewatt_store.gpu_charges GROUP BY x_Load, Day
            UNION ALL
            SELECT x_Load, toDate(ChargePeriodStart) AS Day, max(toDate(ChargePeriodStart)), false
            FROM idlewatt_store.charges WHERE x_Load IN (SELECT Load FROM idlewatt_store.live_loads) AND isNotNull(x_SplitParentId) GROUP BY x_Load, Day
        )
        GROUP BY x_Load, Day),
    hosts AS (SELECT Name, Runs FROM idlewatt_store.host_map),
    days AS (
        SELECT Day, groupBitXor(h) AS h FROM
        (
            SELECT Day, sipHash64(Uuid, Instance, max(Load)) AS h FROM idlewatt_store.interval_commits GROUP BY Uuid, Instance, Day
            UNION ALL
            SELECT Day, sipHash64(toString(('host', Uuid, Node, arrayMap(r -> (greatest(r.1, d0), least(r.2, d1), r.3), arrayFilter(r -> r.1 < d1 AND r.2 > d0, g.Runs)),
                arrayMap(r -> (greatest(r.1, d0), least(r.2, d1), r.3), arrayFilter(r -> r.1 < d1 AND r.2 > d0, h.Runs)))))
            FROM (SELECT DISTINCT Day, Uuid, Node, toDateTime64(Day, 3, 'UTC') AS d0, d0 + INTERVAL 1 DAY AS d1 FROM idlewatt_store.live_intervals) AS i
            LEFT ANY JOIN idlewatt_store.gpu_map AS g ON g.Name = i.Uuid
            LEFT ANY JOIN hosts AS h ON h.Name = lower(i.Node)
            UNION ALL
            SELECT Day, sipHash64(toString(('job', Scheduler, Cluster, JobId, ArrayTask, Attempt, Nodes, GpuCount, Start, End, Project, Team,
                arrayMap(r -> (greatest(r.1, d0), least(r.2, d1), r.3), arrayFilter(r -> r.1 < d1 AND r.2 > d0, h.Runs)))))
            FROM
            (
                SELECT *, toDateTime64(Day, 3, 'UTC') AS d0, d0 + INTERVAL 1 DAY AS d1, if(length(Nodes) = 1, lower(Nodes[1]), '') AS Host FROM (
                SELECT *, arrayJoin(arrayMap(i -> toDate(Start) + i, range(toUInt32(least(400,
                    dateDiff('day', toDate(Start), toDate(ifNull(End, now()))) + 1))))) AS Day
                FROM idlewatt_store.jobs WHERE isNotNull(Start) AND notEmpty(Nodes) AND ifNull(End, now()) >= Start)
            ) AS j
            LEFT ANY JOIN hosts AS h ON h.Name = j.Host
        )
        GROUP BY Day),
    wanted AS (
        SELECT k.x_Load AS x_Load, k.Day AS Day, sipHash64('v` + methodVersion + `', toString(
            groupBitXorIf(assumeNotNull(d.h), k.HasGpus AND d.Day BETWEEN k.Day AND k.LastDay))) AS Fingerprint, any(k.HasGpus) AS Gpus, any(k.HasPods) AS Pods
        FROM keys AS k CROSS JOIN (SELECT * FROM days UNION ALL SELECT toDate('1970-01-01'), toUInt64(0)) AS d
        GROUP BY x_Load, Day)
SELECT w.x_Load, w.Day, w.Fingerprint, w.Gpus, w.Pods
FROM wanted AS w
LEFT ANY JOIN (SELECT ChargeLoad, Day, argMax(Fingerprint, Load) AS Fingerprint FROM idlewatt_store.allocation_commits GROUP BY ChargeLoad, Day) AS c
    ON c.ChargeLoad = w.x_Load AND c.Day = w.Day
WHERE c.ChargeLoad = 0 OR c.Fingerprint != w.Fingerprint
ORDER BY w.x_Load, w.Day`

// methodVersion changes when the split itself changes, so that every day is recomputed.
const methodVersion = "3"

func (p *Processor) due(ctx context.Context) ([]key, error) {
	rows, err := p.DB.Query(ctx, dueSQL)
	if err != nil {
		return nil, fmt.Errorf("looking for days to attribute: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	var out []key
	for rows.Next() {
		var k key
		if err := rows.Scan(&k.charge, &k.day, &k.fingerprint, &k.gpus, &k.pods); err != nil {
			return nil, fmt.Errorf("looking for days to attribute: %w", err)
		}
		out = append(out, k)
	}
	return out, rows.Err()
}

// recompute writes the allocations of some days of one load and commits them together.
func (p *Processor) recompute(ctx context.Context, keys []key) error {
	base := p.Loads.Next()
	days := make([]time.Time, len(keys))
	var gpus, pods bool
	for i, k := range keys {
		days[i], gpus, pods = k.day, gpus || k.gpus, pods || k.pods
	}
	qctx := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"insert_null_as_default": 0, "max_partitions_per_insert_block": 1000,
	}), clickhouse.WithParameters(clickhouse.Parameters{
		"base": fmt.Sprint(base), "load": fmt.Sprint(keys[0].charge), "days": dateArray(days), "first": days[0].Format(time.DateOnly),
	}))
	if gpus {
		if err := p.split(qctx, base, pods); err != nil {
			return fmt.Errorf("splitting the charges of load %d: %w", keys[0].charge, err)
		}
	}
	if pods {
		if err := p.DB.Exec(qctx, statement("pods.sql", pods)); err != nil {
			return fmt.Errorf("splitting the charges of load %d over pods: %w", keys[0].charge, err)
		}
	}
	p.Log.InfoContext(ctx, "split done")
	changes, err := p.changes(ctx, keys, base)
	if err != nil {
		return err
	}
	b, err := p.DB.PrepareBatch(ctx, "INSERT INTO idlewatt_store.allocation_commits (ChargeLoad, Day, Load, Fingerprint, Rows, Pods)")
	if err != nil {
		return fmt.Errorf("committing allocations: %w", err)
	}
	for _, k := range keys {
		if err := b.Append(k.charge, k.day, base+dayOrdinal(k.day, days[0]), k.fingerprint, uint64(0), k.pods); err != nil {
			return fmt.Errorf("committing allocations: %w", err)
		}
	}
	if err := b.Send(); err != nil {
		return fmt.Errorf("committing allocations: %w", err)
	}
	return p.publish(ctx, changes)
}

// split lays down what is seen of the machines and splits their charges by it.
func (p *Processor) split(ctx context.Context, base uint64, pods bool) error {
	err := p.DB.Exec(ctx, statement("seen.sql", pods))
	if err == nil {
		err = p.DB.Exec(ctx, statement("split.sql", pods))
	}
	// A partition that nothing was laid into is no error; what stays goes by its TTL.
	return errors.Join(err, p.DB.Exec(ctx, fmt.Sprintf("ALTER TABLE idlewatt_store.seen DROP PARTITION %d", base)))
}

func dayOrdinal(day, first time.Time) uint64 { return uint64(day.Sub(first).Hours() / 24) }

func dateArray(days []time.Time) string {
	s := "["
	for i, d := range days {
		if i > 0 {
			s += ","
		}
		s += "'" + d.Format(time.DateOnly) + "'"
	}
	return s + "]"
}
