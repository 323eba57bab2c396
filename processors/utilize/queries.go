package utilize

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/event"
)

// each runs a query and calls f for every row.
func (p *Processor) each(ctx context.Context, f func(driver.Rows) error, query string, args ...any) (err error) {
	rows, err := p.DB.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (p *Processor) readHashes(ctx context.Context, from, to time.Time) (map[cardDay]dayHash, error) {
	out := map[cardDay]dayHash{}
	err := p.each(ctx, func(r driver.Rows) error {
		var k cardDay
		var h dayHash
		var models, nodes []string
		if err := r.Scan(&k.uuid, &k.day, &h.first, &h.middle, &h.last, &models, &nodes, &h.targets); err != nil {
			return err
		}
		k.day = startOfDay(k.day)
		h.models, h.nodes = strings.Join(models, "\x00"), strings.Join(nodes, "\x00")
		out[k] = h
		return nil
	}, `SELECT Uuid, toDate(At) AS D,
			sumIf(H, toHour(At) = 0), sumIf(H, toHour(At) BETWEEN 1 AND 22), sumIf(H, toHour(At) = 23),
			arraySort(groupUniqArray(Model)), arraySort(groupUniqArray(Node)), arraySort(groupUniqArray(Target))
		FROM (SELECT Uuid, At, Model, Node, Target, cityHash64(Instance, At, Event) AS H
			FROM idlewatt_store.gpu_samples FINAL WHERE At >= ? AND At < ?)
		GROUP BY Uuid, D`, from, to)
	return out, err
}

func (p *Processor) readCommits(ctx context.Context, from, to time.Time) (map[cardDay]committed, error) {
	out := map[cardDay]committed{}
	err := p.each(ctx, func(r driver.Rows) error {
		var k cardDay
		var c committed
		if err := r.Scan(&k.uuid, &k.day, &c.print, &c.instances); err != nil {
			return err
		}
		k.day = startOfDay(k.day)
		out[k] = c
		return nil
	}, `SELECT Uuid, Day, argMax(Fingerprint, Load), groupUniqArray(Instance)
		FROM idlewatt_store.interval_commits WHERE Day >= toDate(?) AND Day < toDate(?) GROUP BY Uuid, Day`, from, to)
	return out, err
}

// readIntervals is the median step between scrapes, failed ones included: what a target was
// asked for is what was expected of it.
func (p *Processor) readIntervals(ctx context.Context, from, to time.Time) (map[targetDay]int64, error) {
	out := map[targetDay]int64{}
	err := p.each(ctx, func(r driver.Rows) error {
		var k targetDay
		var ms int64
		if err := r.Scan(&k.target, &k.day, &ms); err != nil {
			return err
		}
		k.day = startOfDay(k.day)
		out[k] = ms
		return nil
	}, `SELECT Target, D, toInt64(greatest(1000, 500 * round(Ms / 500)))
		FROM (SELECT Target, toDate(At) AS D, arraySort(groupUniqArray(toUnixTimestamp64Milli(At))) AS T,
				arrayReduce('quantileExactLow(0.5)', arraySlice(arrayDifference(T), 2)) AS Ms
			FROM idlewatt_store.scrapes WHERE At >= ? AND At < ? GROUP BY Target, D HAVING length(T) > 2)`, from, to)
	return out, err
}

// readLikes fills in what the days up to each given one show of every model. The tenth lowest
// reading counts, so that a stray one teaches nothing.
func (p *Processor) readLikes(ctx context.Context, days []time.Time) error {
	var from, to time.Time
	for d := days[0].Add(-(likeWindow - 1) * oneDay); !d.After(days[len(days)-1]); d = d.Add(oneDay) {
		if _, ok := p.likes[d]; ok {
			continue
		}
		p.likes[d] = map[string]Like{}
		if from.IsZero() {
			from = d
		}
		to = d.Add(oneDay)
	}
	if from.IsZero() {
		return nil
	}
	err := p.each(ctx, func(r driver.Rows) error {
		var model string
		var day time.Time
		var l Like
		if err := r.Scan(&model, &day, &l.FloorW, &l.CeilingW); err != nil {
			return err
		}
		p.likes[startOfDay(day)][model] = l
		return nil
	}, `SELECT Model, toDate(At) AS D,
			arrayElement(groupArraySortedIf(10)(assumeNotNull(PowerW), ifNull(coalesce(Engine, Utilization) = 0
				AND ifNull(Utilization, 0) = 0 AND PowerW >= 5, false)), -1),
			max(assumeNotNull(PowerW))
		FROM idlewatt_store.gpu_samples WHERE At >= ? AND At < ? AND isNotNull(PowerW) GROUP BY Model, D`, from, to)
	if err != nil {
		p.likes.forgetFrom(from)
	}
	return err
}

func (l likeDays) forgetFrom(from time.Time) {
	for d := range l {
		if !d.Before(from) {
			delete(l, d)
		}
	}
}

// jobHistory is how long after its end a job still explains why a device is nobody's.
const jobHistory = 30 * oneDay

func (p *Processor) readJobs(ctx context.Context, from, to time.Time) ([]Job, error) {
	var out []Job
	err := p.each(ctx, func(r driver.Rows) error {
		var j Job
		var attempt uint16
		var count uint32
		var start, end *time.Time
		var evidence string
		err := r.Scan(&j.Scheduler, &j.Cluster, &j.ID, &j.ArrayTask, &attempt, &j.Project, &j.Team, &j.Environment,
			&j.Nodes, &j.GPUs, &j.Pods, &j.Namespace, &count, &start, &end, &evidence, &j.Raw)
		if err != nil {
			return err
		}
		j.Attempt, j.GPUCount, j.Declared = int(attempt), int(count), evidence == event.EvidenceDeclared
		if start != nil {
			j.Start = *start
		}
		if end != nil {
			j.End = *end
		}
		out = append(out, j)
		return nil
	}, `SELECT Scheduler, Cluster, JobId, ArrayTask, Attempt, Project, Team, Environment, Nodes, Gpus, Pods, Namespace,
			GpuCount, Start, End, Evidence, Labels['slurm_job_id']
		FROM idlewatt_store.jobs WHERE (isNull(Start) OR Start < ?) AND (isNull(End) OR End >= ?)
		ORDER BY Scheduler, Cluster, JobId, ArrayTask, Attempt`, to, from.Add(-jobHistory))
	return out, err
}

// jobMark is how far the facts about jobs were read.
type jobMark struct {
	read     bool
	count    uint64
	received time.Time
	nodes    uint64    // rows about nodes
	told     time.Time // the newest of them
}

// newJobs returns the days that jobs and nodes touch of which something became known since the
// mark.
func (p *Processor) newJobs(ctx context.Context, since jobMark) (jobMark, []time.Time, error) {
	mark := jobMark{read: true}
	err := p.DB.QueryRow(ctx, "SELECT count(), max(ReceivedAt) FROM idlewatt_store.job_events").Scan(&mark.count, &mark.received)
	if err != nil {
		return since, nil, fmt.Errorf("looking for new jobs: %w", err)
	}
	err = p.DB.QueryRow(ctx, "SELECT count(), max(ReceivedAt) FROM idlewatt_store.nodes").Scan(&mark.nodes, &mark.told)
	if err != nil {
		return since, nil, fmt.Errorf("looking for news of nodes: %w", err)
	}
	if mark == since || !since.read {
		return mark, nil, nil
	}
	var days []time.Time
	err = p.each(ctx, func(r driver.Rows) error {
		var start, end time.Time
		if err := r.Scan(&start, &end); err != nil {
			return err
		}
		for d := startOfDay(start.Add(-margin)); !d.After(end.Add(margin)); d = d.Add(oneDay) {
			days = append(days, d)
		}
		return nil
	}, `SELECT toDateTime64(Start, 3, 'UTC'), ifNull(End, now64(3)) FROM idlewatt_store.jobs WHERE ReceivedAt > ? AND isNotNull(Start)
		UNION ALL SELECT At, greatest(At, now64(3)) FROM idlewatt_store.nodes WHERE ReceivedAt > ?`,
		since.received.Add(-time.Minute), since.told.Add(-time.Minute))
	if err != nil {
		return since, nil, fmt.Errorf("looking for new jobs: %w", err)
	}
	return mark, days, nil
}

// about is what many samples have in common.
type about struct {
	node, model, profile, target string
	owners                       *Owners
	findings                     []string
}

// aboutHash names one value of about in a query.
const aboutHash = `cityHash64(Node, Model, Profile, Target, OwnerKind, Owners, toString(OwnerLabels), OwnerConfidence, Findings)`

func (p *Processor) readAbout(ctx context.Context, from, to time.Time) (map[uint64]*about, error) {
	out := map[uint64]*about{}
	err := p.each(ctx, func(r driver.Rows) error {
		var hash uint64
		var a about
		var o Owners
		if err := r.Scan(&hash, &a.node, &a.model, &a.profile, &a.target, &o.Kind, &o.Names, &o.Labels, &o.Confidence, &a.findings); err != nil {
			return err
		}
		if len(o.Names) > 0 {
			a.owners = &o
		}
		out[hash] = &a
		return nil
	}, `SELECT `+aboutHash+` AS K, any(Node), any(Model), any(Profile), any(Target), any(OwnerKind), any(Owners), any(OwnerLabels),
			any(OwnerConfidence), any(Findings)
		FROM idlewatt_store.gpu_samples WHERE At >= ? AND At < ? GROUP BY K`, from, to)
	return out, err
}

// cards reads the samples of a day and its margins, card by card.
func (p *Processor) cards(
	ctx context.Context, day time.Time, uuids []string, interval func(string, int64) int64, f func(Card) error,
) error {
	from, to := day.Add(-margin), day.Add(oneDay+margin)
	abouts, err := p.readAbout(ctx, from, to)
	if err != nil {
		return fmt.Errorf("reading samples: %w", err)
	}
	card := Card{Devices: map[string][]Sample{}}
	flush := func() error {
		if len(card.Devices) == 0 {
			return nil
		}
		done := card
		card = Card{Devices: map[string][]Sample{}}
		return f(done)
	}
	err = p.each(ctx, func(r driver.Rows) error {
		var uuid, instance string
		var s Sample
		var key uint64
		var engines []float64
		err := r.Scan(&uuid, &instance, &s.At, &s.Complete, &s.Utilization, &s.Engine, &s.SM, &s.Tensor, &s.DRAM, &s.PowerW,
			&s.EnergyJ, &s.FBUsedMiB, &s.FBUsedRatio, &s.XID, &engines, &key)
		if err != nil {
			return err
		}
		if uuid != card.UUID {
			if err := flush(); err != nil {
				return err
			}
			card.UUID = uuid
		}
		if a := abouts[key]; a != nil {
			s.Node, s.Model, s.Profile, s.Owners, s.Findings = a.node, a.model, a.profile, a.owners, a.findings
			s.Interval = interval(a.target, s.At)
		}
		for _, e := range engines {
			if !math.IsNaN(e) {
				s.OwnerEngines = engines
			}
		}
		card.Devices[instance] = append(card.Devices[instance], s)
		return nil
	}, `SELECT Uuid, Instance, toUnixTimestamp64Milli(At), Complete, ifNull(Utilization, nan), ifNull(Engine, nan), ifNull(Sm, nan),
			ifNull(Tensor, nan), ifNull(Dram, nan), ifNull(PowerW, nan), ifNull(EnergyJ, nan), ifNull(FbUsedMiB, nan),
			ifNull(FbUsedRatio, nan), ifNull(Xid, 0), arrayMap(e -> ifNull(e, nan), OwnerEngines), `+aboutHash+`
		FROM idlewatt_store.gpu_samples FINAL WHERE At >= ? AND At < ? AND Uuid IN ? ORDER BY Uuid, Instance, At`, from, to, uuids)
	if err != nil {
		return fmt.Errorf("reading samples: %w", err)
	}
	return flush()
}
