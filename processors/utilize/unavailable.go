package utilize

import (
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/event"
)

// fatalXIDs are driver errors after which a GPU does no work until it is reset or replaced:
// 48 double bit ECC, 64 row remapping failed, 79 off the bus, 95 uncontained memory error,
// 119 and 120 GSP timeouts (NVIDIA's XID catalogue). All others only annotate.
var fatalXIDs = []int64{48, 64, 79, 95, 119, 120}

// causes of time out of use by the state of the node.
var causes = map[string]string{
	event.NodeCordoned: CauseCordoned, event.NodeDrained: CauseDrained,
	event.NodeMaintenance: CauseMaintenance, event.NodeFailed: CauseFailed,
}

// markUnavailable takes time without work out of what may be blamed, where the scheduler says
// that the node is out of use, or the driver that the GPU is. Work stays work: what runs on a
// cordoned node goes on, and what holds a cordoned GPU could use it. The XID is the last one
// and stays until the driver restarts: only one that is new is a fault, and work ends it.
// failed says that there was one before the first sample.
func (w World) markUnavailable(in []slot, failed bool) {
	var last *Sample
	for i := range in {
		s := &in[i]
		if s.sample != nil {
			switch {
			case s.verdict.class == work:
				failed = false
			case last != nil && s.sample.XID != last.XID && slices.Contains(fatalXIDs, s.sample.XID):
				failed = true
			}
			last = s.sample
		}
		state := w.Jobs.hostAt(s.of().Node, s.start).state
		for j := range s.cells {
			w.takeOut(s, &s.cells[j], state, failed)
		}
	}
}

func (w World) takeOut(s *slot, c *cell, state string, failed bool) {
	cause := causes[state]
	if state == event.NodeCordoned && c.hold.owner != "" {
		cause = ""
	}
	switch {
	case c.class == work || c.state == StateBusy:
		return
	case s.sample == nil && state != event.NodeFailed: // no scrape: only a node that is down explains that
		return
	case s.sample != nil && c.class == unknown && state != event.NodeFailed && !failed:
		return
	}
	if cause == "" && failed && s.sample != nil {
		cause = CauseXID
	}
	if cause != "" {
		c.state, c.cause, c.coverage, c.lastJob = StateUnavailable, cause, 0, ""
	}
}

// faultMemory is how long a fault without work after it is remembered.
const faultMemory = 7 * oneDay

// readFailed lists, per card and day, the instances that were failed when the day's margin
// began: since a fatal XID appeared they had samples and no work.
func (p *Processor) readFailed(ctx context.Context, days []time.Time) (map[cardDay][]string, error) {
	out := map[cardDay][]string{}
	var faulty []string
	err := p.each(ctx, func(r driver.Rows) error {
		var uuid string
		err := r.Scan(&uuid)
		faulty = append(faulty, uuid)
		return err
	}, `SELECT DISTINCT Uuid FROM idlewatt_store.gpu_samples WHERE At >= ? AND At < ? AND Xid IN ? ORDER BY Uuid`,
		days[0].Add(-margin), days[len(days)-1].Add(oneDay+margin), fatalXIDs)
	if err != nil || len(faulty) == 0 {
		return out, err
	}
	for _, day := range days {
		err := p.each(ctx, func(r driver.Rows) error {
			k := cardDay{day: day}
			var instance string
			err := r.Scan(&k.uuid, &instance)
			out[k] = append(out[k], instance)
			return err
		}, `SELECT Uuid, Instance FROM
			(
				SELECT Uuid, Instance, At, Xid, ifNull(greatest(ifNull(Engine, 0), ifNull(Utilization, 0)) > ?, false) AS Work,
					lagInFrame(toNullable(ifNull(Xid, 0))) OVER (PARTITION BY Uuid, Instance ORDER BY At ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS Before,
					row_number() OVER (PARTITION BY Uuid, Instance ORDER BY At) AS n
				FROM idlewatt_store.gpu_samples FINAL WHERE At >= ? AND At < ? AND Uuid IN ?
			)
			GROUP BY Uuid, Instance
			HAVING maxIf(At, n > 1 AND Xid IN ? AND Before != Xid AND NOT Work) > maxIf(At, Work) ORDER BY Uuid, Instance`,
			p.Policy.IdleThreshold, day.Add(-margin-faultMemory), day.Add(-margin), faulty, fatalXIDs)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
