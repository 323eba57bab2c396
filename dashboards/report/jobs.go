package report

import (
	"context"
	"fmt"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/schema/money"
)

// jobRows is how many jobs a report holds; more say so.
const jobRows = 1000

// jobs makes the report of what the jobs of the month cost.
func (b *Builder) jobs(ctx context.Context, r Request, out *Report) error {
	out.Title = "Cost of jobs"
	from, to := r.Month.Bounds(b.zone)
	rows, err := b.db.Jobs(ctx, query.JobsQuestion{From: from, To: to, Limit: jobRows})
	if err != nil {
		return err
	}
	var more []string
	for _, row := range rows {
		more = append(more, row.Currency)
	}
	for _, currency := range out.sections(more...) {
		var mine []query.JobRow
		for _, row := range rows {
			if row.Currency == currency {
				mine = append(mine, row)
			}
		}
		s := Section{Title: currency, Tables: []Table{b.jobTable(mine, currency)}}
		if currency == "" && len(mine) > 0 {
			s.Title = "Without a cost"
		}
		if len(mine) > 0 && currency != "" {
			s.Plots = []Plot{jobPlot(mine, currency)}
		}
		out.Sections = append(out.Sections, s)
	}
	out.Notes = append(out.Notes, "A job that ran in the month is shown with the cost of its whole life, so the sums are not those of the month's bill.",
		"Retry is the cost of a failed or preempted attempt since its last checkpoint.")
	if len(rows) == jobRows {
		out.Notes = append(out.Notes, fmt.Sprintf("Only the %d most expensive jobs are shown.", jobRows))
	}
	return nil
}

func (b *Builder) jobTable(rows []query.JobRow, currency string) Table {
	unpriced := currency == ""
	t := Table{
		Key: "jobs", Title: "Jobs, the most expensive first", Currency: currency, Main: true, Empty: "No jobs were seen.",
		Columns: []Column{
			{Key: "scheduler", Title: "Scheduler", Kind: Text}, {Key: "cluster", Title: "Cluster", Kind: Text}, {Key: "job", Title: "Job", Kind: Text},
			{Key: "attempt", Title: "Attempt", Kind: Count}, {Key: "user", Title: "User", Kind: Text}, {Key: "project", Title: "Project", Kind: Text},
			{Key: "team", Title: "Team", Kind: Text}, {Key: "outcome", Title: "Outcome", Kind: Text}, {Key: "start", Title: "Start", Kind: Moment},
			{Key: "end", Title: "End", Kind: Moment}, {Key: "gpu_hours", Title: "GPU-hours", Kind: Quantity}, {Key: "busy_gpu_hours", Title: "Busy", Kind: Quantity},
			{Key: "effective_cost", Title: "Effective cost", Kind: Money, Hidden: unpriced}, {Key: "idle_cost", Title: "Idle", Kind: Money, Hidden: unpriced},
			{Key: "retry_cost", Title: "Retry", Kind: Money, Hidden: unpriced}, {Key: "estimated_cost", Title: "Estimated", Kind: Money, Hidden: unpriced},
			{Key: "cost_per_gpu_hour", Title: "Per GPU-hour", Kind: Money, Hidden: unpriced}, {Key: "confidence", Title: "Confidence", Kind: Text},
		},
	}
	var keys []string
	var columns [6][]*money.Decimal
	for i := range rows {
		r := &rows[i]
		keys = append(keys, fmt.Sprintf("%s\x00%s\x00%s\x00%d", r.Scheduler, r.Cluster, r.Job, r.Attempt))
		for j, v := range []*money.Decimal{&r.GPUHours, &r.BusyHours, r.Effective, r.Idle, r.Retry, r.Estimated} {
			columns[j] = append(columns[j], v)
		}
	}
	var cells [6][]Cell
	if len(rows) > 0 {
		t.Total = make([]Cell, len(t.Columns))
		t.Total[0] = text("Total")
	}
	for j := range columns {
		var sum Cell
		cells[j], sum = sumColumn(columns[j], keys)
		if len(rows) > 0 {
			t.Total[10+j] = sum
		}
	}
	for i, r := range rows {
		t.Rows = append(t.Rows, []Cell{
			text(r.Scheduler), text(r.Cluster), text(r.Job), count(uint64(max(r.Attempt, 0))), text(r.User), text(orUntagged(r.Project)),
			text(r.Team), text(r.Outcome), b.optionalMoment(r.Start), b.optionalMoment(r.End), cells[0][i], cells[1][i], cells[2][i],
			cells[3][i], cells[4][i], cells[5][i], rateCell(r.PerGPUHour), text(r.Confidence),
		})
	}
	return t
}

func jobPlot(rows []query.JobRow, currency string) Plot {
	p := Plot{Title: "Most expensive jobs", Currency: currency, Series: []Series{{Key: "used", Title: "Busy"}, {Key: "job_idle", Title: "Idle"}}}
	for _, r := range rows {
		if len(p.Labels) == barsShown {
			break
		}
		if r.Effective == nil {
			continue
		}
		var idle money.Decimal
		if r.Idle != nil {
			idle = *r.Idle
		}
		label := r.Job
		if r.Attempt > 1 {
			label = fmt.Sprintf("%s (attempt %d)", r.Job, r.Attempt)
		}
		p.add(label, money.Text(*r.Effective, ""), []money.Decimal{r.Effective.Sub(idle), idle})
	}
	return p
}
