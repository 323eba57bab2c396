package attribute

import (
	"context"
	"fmt"
	"time"

	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

// JobCost is the payload of ledger.job_cost: what a job's attempt cost on one day.
type JobCost struct {
	Scheduler string `json:"scheduler"`
	Cluster   string `json:"cluster,omitempty"`
	JobID     string `json:"job_id"`
	JobTask   string `json:"job_task,omitempty"`
	Attempt   uint16 `json:"attempt"`
	Day       string `json:"day"`
	Currency  string `json:"currency"`
	GPUHours  string `json:"gpu_hours"`
	Cost      string `json:"effective_cost"`
	IdleCost  string `json:"idle_cost"`
	Status    string `json:"status"` // estimated, billed_open or invoiced
	Load      uint64 `json:"load"`   // of the charges
}

// IdleWaste is the payload of ledger.idle_waste: what a resource's idle GPUs cost on one day.
type IdleWaste struct {
	ResourceID string `json:"resource_id"`
	State      string `json:"state"`
	Day        string `json:"day"`
	Currency   string `json:"currency"`
	GPUHours   string `json:"gpu_hours"`
	Cost       string `json:"effective_cost"`
	Load       uint64 `json:"load"`
}

type change struct {
	typ, natural, version string
	at                    time.Time
	payload               any
}

// daySQL sums one version of a day's allocations by job, or by idle resource.
const daySQL = `
SELECT c.BillingCurrency, a.JobScheduler, a.JobCluster, a.JobId, a.JobTask, a.JobAttempt, if(a.JobId = '', assumeNotNull(c.ResourceId), '') AS Res,
    if(a.JobId = '', toString(a.State), '') AS St, a.Day, toString(sum(a.GpuHours)), toString(sum(ifNull(a.EffectiveCost, 0))),
    toString(sumIf(ifNull(a.EffectiveCost, 0), a.x_AllocationKind = 'job_idle')),
    multiIf(countIf(isNull(c.InvoiceId)) = 0, 'invoiced', countIf(c.x_Dataset = 'estimate') > 0, 'estimated', 'billed_open')
FROM idlewatt_store.allocations AS a
INNER JOIN idlewatt_store.gpu_charges AS c ON c.x_Load = a.ChargeLoad AND c.x_Object = a.ChargeObject AND c.x_Row = a.ChargeRow
WHERE a.ChargeLoad = ? AND a.Load IN (?) AND (a.JobId != '' OR a.x_AllocationKind IN ('job_idle', 'unallocated_idle'))
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9`

type total struct{ hours, cost, idle, status string }

type subject struct {
	currency, scheduler, cluster, job, task string
	attempt                                 uint16
	resource, state                         string
	day                                     time.Time
}

// changes compares the days about to be committed with what was live before, and returns an
// event for every total that differs.
func (p *Processor) changes(ctx context.Context, keys []key, base uint64) ([]change, error) {
	if p.JS == nil {
		return nil, nil
	}
	fresh := map[time.Time]uint64{}
	for _, k := range keys {
		fresh[k.day] = base + dayOrdinal(k.day, keys[0].day)
	}
	before, err := p.liveDays(ctx, keys)
	if err != nil {
		return nil, err
	}
	now, err := p.totals(ctx, keys[0].charge, fresh)
	if err != nil {
		return nil, err
	}
	was, err := p.totals(ctx, keys[0].charge, before)
	if err != nil {
		return nil, err
	}
	var out []change
	for s, t := range now {
		if was[s] != t {
			out = append(out, s.change(t, keys[0].charge, p.Now()))
		}
	}
	for s := range was {
		if _, still := now[s]; !still {
			out = append(out, s.change(total{"0", "0", "0", "billed_open"}, keys[0].charge, p.Now()))
		}
	}
	return out, nil
}

func (s subject) change(t total, load uint64, at time.Time) change {
	day := s.day.Format(time.DateOnly)
	version := fmt.Sprint(load, t)
	if s.job == "" {
		return change{event.TypeLedgerIdleWaste, s.resource + "/" + s.state + "/" + day + "/" + s.currency, version, at, IdleWaste{
			ResourceID: s.resource, State: s.state, Day: day, Currency: s.currency, GPUHours: t.hours, Cost: t.cost, Load: load}}
	}
	return change{event.TypeLedgerJobCost, fmt.Sprint(s.scheduler, "/", s.cluster, "/", s.job, "/", s.task, "/", s.attempt, "/", day, "/", s.currency), version, at, JobCost{
		Scheduler: s.scheduler, Cluster: s.cluster, JobID: s.job, JobTask: s.task, Attempt: s.attempt, Day: day,
		Currency: s.currency, GPUHours: t.hours, Cost: t.cost, IdleCost: t.idle, Status: t.status, Load: load}}
}

func (p *Processor) liveDays(ctx context.Context, keys []key) (map[time.Time]uint64, error) {
	rows, err := p.DB.Query(ctx, "SELECT Day, max(Load) FROM idlewatt_store.allocation_commits WHERE ChargeLoad = ? GROUP BY Day", keys[0].charge)
	if err != nil {
		return nil, fmt.Errorf("reading live allocations: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	due := map[time.Time]bool{}
	for _, k := range keys {
		due[k.day] = true
	}
	out := map[time.Time]uint64{}
	for rows.Next() {
		var day time.Time
		var load uint64
		if err := rows.Scan(&day, &load); err != nil {
			return nil, fmt.Errorf("reading live allocations: %w", err)
		}
		if due[day] {
			out[day] = load
		}
	}
	return out, rows.Err()
}

func (p *Processor) totals(ctx context.Context, charge uint64, days map[time.Time]uint64) (map[subject]total, error) {
	out := map[subject]total{}
	if len(days) == 0 {
		return out, nil
	}
	loads := make([]uint64, 0, len(days)) // one load number serves one day only
	for _, l := range days {
		loads = append(loads, l)
	}
	rows, err := p.DB.Query(ctx, daySQL, charge, loads)
	if err != nil {
		return nil, fmt.Errorf("adding up the ledger: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	for rows.Next() {
		var s subject
		var t total
		if err := rows.Scan(&s.currency, &s.scheduler, &s.cluster, &s.job, &s.task, &s.attempt, &s.resource, &s.state, &s.day,
			&t.hours, &t.cost, &t.idle, &t.status); err != nil {
			return nil, fmt.Errorf("adding up the ledger: %w", err)
		}
		out[s] = t
	}
	return out, rows.Err()
}

// publish tells the ledger. The commit came first: a crash here loses a notice, never a
// figure, and the next change of the same total is told again.
func (p *Processor) publish(ctx context.Context, changes []change) error {
	for _, c := range changes {
		e, err := event.New(c.typ, "idlewatt/attribute", c.natural, c.version, c.at, c.payload)
		if err != nil {
			return err
		}
		if err := bus.Publish(ctx, p.JS, e); err != nil {
			return err
		}
	}
	return nil
}
