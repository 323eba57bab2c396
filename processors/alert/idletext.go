package alert

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/schema/money"
)

// wholeMoney writes an amount without cents and with separators: 1,415 USD.
func wholeMoney(d money.Decimal, currency string) string {
	if d.Abs().LessThan(decimal.NewFromInt(10)) {
		return money.Text(d, currency)
	}
	text := strings.TrimSpace(money.Text(d.RoundBank(0), ""))
	return strings.TrimSpace(strings.TrimSuffix(text, ".00") + " " + currency)
}

// describeGPUs is "8 x H100".
func describeGPUs(n IdleNode) string {
	model := n.GPUModel
	if model == "" {
		model = "GPU"
	}
	return fmt.Sprintf("%d x %s", n.GPUCount, model)
}

func costText(n IdleNode) string {
	if n.CostSoFar == nil {
		return "cost unknown"
	}
	return wholeMoney(*n.CostSoFar, n.Currency) + " so far"
}

func idleHeading(n IdleNode, zone *time.Location, now time.Time) string {
	layout := "Mon 15:04"
	if now.Sub(n.IdleSince) > 6*24*time.Hour { // the weekday alone would mislead
		layout = "Mon 2 Jan 15:04"
	}
	return fmt.Sprintf("%s: %s idle since %s (%s), %s", n.name(), describeGPUs(n),
		n.IdleSince.In(zone).Format(layout), zone, costText(n))
}

// idleNotice says everything that is known about an idle node.
func idleNotice(n IdleNode, zone *time.Location, now time.Time) Notice {
	out := Notice{
		Heading: idleHeading(n, zone, now), Amount: n.CostSoFar, Currency: n.Currency, Since: n.IdleSince,
		Brief: strings.Join([]string{costSentence(n), savingSentence(n, zone, now)}, " "), GroupTitle: groupTitle(n),
	}
	fields := []notify.Field{
		{Name: "Where", Value: place(n)},
		{Name: "GPUs", Value: describeGPUs(n)},
		{Name: "Idle since", Value: n.IdleSince.In(zone).Format("Mon 2 Jan 2006 15:04 MST") + ", " + spanText(now.Sub(n.IdleSince))},
		{Name: "State", Value: stateText(n)},
		{Name: "Last job", Value: jobText(n, zone)},
		{Name: "Owner", Value: ownerText(n)},
		{Name: "Evidence", Value: evidenceText(n)},
		{Name: "Cost so far", Value: costSentence(n)},
	}
	out.Sections = []notify.Section{{Text: savingSentence(n, zone, now), Fields: fields}}
	if free := freeCommand(n); free != "" {
		out.Sections = append(out.Sections, notify.Section{Title: "To free the GPUs", Code: free})
	}
	if command, warning := stopCommand(n); command != "" && n.whole() {
		title := "To stop paying"
		if n.Avoidable != nil && !n.Avoidable.IsPositive() {
			title = "To stop it, though it saves nothing now"
		}
		out.Sections = append(out.Sections, notify.Section{Title: title, Text: warning, Code: command})
	}
	return out
}

func place(n IdleNode) string {
	parts := []string{orUnknown(n.Provider, "provider"), orUnknown(n.Account, "account"), orUnknown(n.Region, "region"), orUnknown(n.ResourceID, "resource")}
	return strings.Join(parts, ", ")
}

func orUnknown(s, what string) string {
	if s == "" {
		return what + " unknown"
	}
	return s
}

func stateText(n IdleNode) string {
	text := strings.ReplaceAll(n.State, "_", " ")
	if n.Cause != "" {
		text += ": " + strings.ReplaceAll(n.Cause, "_", " ")
	}
	return text
}

func jobText(n IdleNode, zone *time.Location) string {
	if n.LastJobID == "" {
		return "none known"
	}
	text := n.LastJobID
	if n.JobUser != "" {
		text += " of " + n.JobUser
	}
	switch {
	case n.JobOutcome != "":
		text += ", " + n.JobOutcome + " at " + n.JobEnded.In(zone).Format("Mon 15:04")
	case n.State == "allocated_idle":
		text += ", still holds the GPUs"
	default:
		text += ", how it ended is not known"
	}
	return text
}

// ownerText names the owner and why we think so.
func ownerText(n IdleNode) string {
	switch {
	case n.Owner != "" && n.State == "allocated_idle":
		return fmt.Sprintf("%s (holds the GPUs now; confidence %s)%s", n.Owner, orUnknown(n.Confidence, "level"), of(n))
	case n.Owner != "":
		return fmt.Sprintf("%s (by the GPU's last owner; confidence %s)%s", n.Owner, orUnknown(n.Confidence, "level"), of(n))
	case n.JobUser != "":
		return fmt.Sprintf("%s (ran the last job)%s", n.JobUser, of(n))
	case n.Project != "" || n.Team != "":
		return strings.TrimPrefix(of(n), ", ") + " (by the resource's tags)"
	}
	return "not known: no job, no owner in telemetry, no tag"
}

func of(n IdleNode) string {
	text := ""
	if n.Project != "" {
		text += ", project " + n.Project
	}
	if n.Team != "" {
		text += ", team " + n.Team
	}
	return text
}

func evidenceText(n IdleNode) string {
	var parts []string
	if n.EngineMax != nil && !math.IsNaN(*n.EngineMax) {
		parts = append(parts, fmt.Sprintf("engine at most %.1f %%", *n.EngineMax*100))
	}
	if n.MeanPowerW != nil && !math.IsNaN(*n.MeanPowerW) {
		parts = append(parts, fmt.Sprintf("mean power %.0f W per GPU", *n.MeanPowerW))
	}
	return strings.Join(append(parts, fmt.Sprintf("samples for %.0f %% of the time", n.Coverage*100)), ", ")
}

func costSentence(n IdleNode) string {
	if n.CostSoFar == nil {
		return "Unknown: no bill and no price for this machine yet."
	}
	how := "billed"
	if n.Estimated {
		how = "estimated"
	}
	text := fmt.Sprintf("%s, %s", money.Text(*n.CostSoFar, n.Currency), how)
	if n.CostPerHour != nil {
		text += fmt.Sprintf(", %s an hour", money.Text(*n.CostPerHour, n.Currency))
	}
	return text + "."
}

// savingSentence says what stopping now saves by Monday 09:00, or that it saves nothing.
func savingSentence(n IdleNode, zone *time.Location, now time.Time) string {
	until := nextMonday(now.In(zone))
	by := until.Format("Monday 15:04 (2 Jan, MST)")
	switch {
	case !n.whole():
		return fmt.Sprintf("%d of this machine's %d GPUs are idle: it cannot be stopped without ending what the others do. Move that work, or give these GPUs some.",
			n.GPUCount, n.NodeGPUs)
	case n.Avoidable == nil || n.CostPerHour == nil:
		return "What stopping would save is unknown: no rate for this machine."
	case !n.Avoidable.IsPositive():
		model := strings.ReplaceAll(orUnknown(n.PricingModel, "pricing model"), "_", " ")
		return fmt.Sprintf("Committed (%s): stopping it now saves nothing. Its hours are lost unless a job uses them.", model)
	}
	seconds := decimal.NewFromInt(int64(until.Sub(now) / time.Second))
	saves := n.Avoidable.Mul(seconds).Div(decimal.NewFromInt(3600))
	return fmt.Sprintf("Stopping it now saves %s by %s.", wholeMoney(saves, n.Currency), by)
}

// nextMonday is the first Monday 09:00 after an instant, in that instant's zone.
func nextMonday(at time.Time) time.Time {
	days := (int(time.Monday) - int(at.Weekday()) + 7) % 7
	m := time.Date(at.Year(), at.Month(), at.Day()+days, 9, 0, 0, 0, at.Location())
	if !m.After(at) {
		m = time.Date(at.Year(), at.Month(), at.Day()+days+7, 9, 0, 0, 0, at.Location())
	}
	return m
}

// spanText is a length of time in days, hours and minutes.
func spanText(d time.Duration) string {
	d = d.Truncate(time.Minute)
	h, m := int(d.Hours()), int(d.Minutes())%60
	switch {
	case h >= 48:
		return fmt.Sprintf("%d d %d h", h/24, h%24)
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, m)
	}
	return fmt.Sprintf("%d min", m)
}

func groupTitle(n IdleNode) string {
	if n.Owner != "" {
		return "idle GPUs of " + n.Owner
	}
	return "idle GPUs of " + n.name()
}

// resolvedNotice says that an incident is over and what it cost.
func resolvedNotice(n IdleNode, why string, now time.Time) Notice {
	text := fmt.Sprintf("Idle for %s; %s", spanText(n.SeenUntil.Sub(n.IdleSince)), strings.TrimSuffix(costSentence(n), "."))
	return Notice{
		Heading: fmt.Sprintf("%s: %s no longer idle", n.name(), describeGPUs(n)), Amount: n.CostSoFar, Currency: n.Currency,
		Since: now, Sections: []notify.Section{{Text: text + ". " + why}}, Brief: text + ".", GroupTitle: "GPUs no longer idle",
	}
}
