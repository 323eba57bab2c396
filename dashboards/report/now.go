package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/dashboards/query"
)

// IdleNow is the table of nodes that are idle at this moment.
func (b *Builder) IdleNow(rows []query.IdleNowRow) Table {
	t := Table{
		Key: "idle_now", Title: "Nodes that are idle at this moment", Empty: "No GPU is known to be idle.",
		Columns: []Column{
			{Key: "node", Title: "Node", Kind: Text}, {Key: "gpus", Title: "GPUs", Kind: Count}, {Key: "gpu_model", Title: "Model", Kind: Text},
			{Key: "since", Title: "Idle since", Kind: Moment}, {Key: "for", Title: "For", Kind: Text}, {Key: "cost", Title: "Cost so far", Kind: Money},
			{Key: "per_hour", Title: "Per hour", Kind: Money}, {Key: "avoidable", Title: "Avoidable per hour", Kind: Money}, {Key: "currency", Title: "Currency", Kind: Text},
			{Key: "pricing_model", Title: "Pricing", Kind: Text}, {Key: "state", Title: "State", Kind: Text}, {Key: "cause", Title: "Cause", Kind: Text},
			{Key: "project", Title: "Project", Kind: Text}, {Key: "owner", Title: "Owner", Kind: Text}, {Key: "last_job", Title: "Last job", Kind: Text},
		},
	}
	now := b.now()
	for _, r := range rows {
		name := r.Node
		if name == "" {
			name = r.ResourceID
		}
		t.Rows = append(t.Rows, []Cell{
			text(name), count(r.GPUs), text(r.GPUModel), b.moment(r.Since), text(span(now.Sub(r.Since))), optional(r.Cost),
			optional(r.PerHour), optional(r.Avoidable), text(r.Currency), text(words(r.PricingModel)), text(words(r.State)), text(words(r.Cause)),
			text(orUntagged(r.Project)), text(r.Owner), text(r.LastJob),
		})
	}
	return t
}

// span is a length of time in hours and minutes.
func span(d time.Duration) string {
	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}

// Waste are tables of idle stretches, one per currency.
func (b *Builder) Waste(rows []query.IdleRow) []Table {
	var currencies []string
	for _, r := range rows {
		if !slices.Contains(currencies, r.Currency) {
			currencies = append(currencies, r.Currency)
		}
	}
	if len(currencies) == 0 {
		return []Table{b.idleTable(nil, "")}
	}
	var out []Table
	for _, c := range currencies {
		t := b.idleTable(rows, c)
		if c == "" {
			t.Title = "Idle GPUs without a price"
		}
		out = append(out, t)
	}
	return out
}

// Unmatched is the table of machines that only the bill or only telemetry knows.
func (b *Builder) Unmatched(rows []query.CoverageRow) Table {
	t := Table{
		Key: "unmatched", Title: "Machines that only the bill or only telemetry knows, the most expensive first", Empty: "Every billed GPU machine has telemetry, and every host a bill.",
		Columns: []Column{
			{Key: "kind", Title: "What", Kind: Text}, {Key: "name", Title: "Name", Kind: Text}, {Key: "resource_id", Title: "Resource", Kind: Text},
			{Key: "gpu_hours", Title: "GPU-hours", Kind: Quantity}, {Key: "cost", Title: "Cost", Kind: Money}, {Key: "currency", Title: "Currency", Kind: Text},
			{Key: "first", Title: "First seen", Kind: Moment}, {Key: "last", Title: "Last seen", Kind: Moment},
		},
	}
	for _, r := range rows {
		t.Rows = append(t.Rows, []Cell{
			text(r.Kind), text(r.Name), text(cmp.Or(r.ResourceID, strings.Join(r.Candidates, " or "))), quantity(r.GPUHours), optional(r.Cost), text(r.Currency), b.moment(r.First), b.moment(r.Last),
		})
	}
	return t
}

// Telemetry is the table of targets where something fails or is refused.
func (b *Builder) Telemetry(rows []query.TelemetryRow) Table {
	t := Table{
		Key: "telemetry", Title: "Targets of telemetry that fail or whose readings are refused, in their last day", Empty: "Every target answers, and no reading is refused.",
		Columns: []Column{
			{Key: "target", Title: "Target", Kind: Text}, {Key: "node", Title: "Node", Kind: Text}, {Key: "scrapes", Title: "Scrapes", Kind: Count},
			{Key: "failed", Title: "Failed", Kind: Count}, {Key: "rejected", Title: "Readings refused", Kind: Text},
			{Key: "error", Title: "Last error", Kind: Text}, {Key: "last_ok", Title: "Last good", Kind: Moment},
		},
	}
	for _, r := range rows {
		t.Rows = append(t.Rows, []Cell{
			text(r.Target), text(r.Node), count(r.Scrapes), count(r.Failed), text(r.Reasons()), text(r.LastError), b.optionalMoment(r.LastOK),
		})
	}
	return t
}

// CountText writes a whole number with separators.
func CountText(n uint64) string { return count(n).Show }
