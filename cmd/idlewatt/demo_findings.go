package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/deploy/demo"
	"github.com/idlewatt/idlewatt/processors/alert"
	"github.com/idlewatt/idlewatt/processors/alert/notify"
)

// demoFindings prints what the sample month shows, by the questions anybody could ask.
func (a *app) demoFindings(month demo.Month) error {
	for _, q := range []struct{ title, sql string }{
		{"Total billed, " + month.Period, `
SELECT BillingAccountId AS account, BillingCurrency AS currency, count() AS rows, round(sum(BilledCost), 2) AS billed, round(sum(EffectiveCost), 2) AS effective
FROM idlewatt.charges GROUP BY account, currency ORDER BY billed DESC FORMAT PrettyCompactMonoBlock`},
		{"Cost by project", `
SELECT ifNull(x_Project, '(untagged)') AS project, BillingCurrency AS currency, round(sum(EffectiveCost), 2) AS effective, round(sum(UsedCost), 2) AS used,
    round(sum(JobIdleCost), 2) AS job_idle, round(sum(UnallocatedIdleCost), 2) AS unallocated_idle, round(sum(UnobservedCost), 2) AS unobserved,
    round(sum(EffectiveCost - UsedCost - JobIdleCost - UnallocatedIdleCost - UnobservedCost), 2) AS all_else
FROM idlewatt.project_costs GROUP BY project, currency ORDER BY effective DESC FORMAT PrettyCompactMonoBlock`},
		{"Idle waste, by node and stretch", `
SELECT Node AS node, any(x_GpuModel) AS gpu, uniqExact(GpuUuid) AS gpus, State AS state, any(Cause) AS cause, formatDateTime(min(IntervalStart), '%Y-%m-%d %H:%i') AS since_utc, formatDateTime(max(IntervalEnd), '%Y-%m-%d %H:%i') AS until_utc,
    round(sum(GpuHours), 1) AS gpu_hours, round(sum(Cost), 2) AS cost, BillingCurrency AS currency
FROM idlewatt.idle_waste GROUP BY node, state, currency, toStartOfHour(IntervalStart), toStartOfHour(IntervalEnd) ORDER BY sum(Cost) DESC LIMIT 5 FORMAT PrettyCompactMonoBlock`},
		{"Jobs", `
SELECT JobId AS job, Attempt AS attempt, x_Project AS project, Outcome AS outcome, round(GpuHours, 1) AS gpu_hours, round(EffectiveCost, 2) AS cost, round(IdleCost, 2) AS idle, round(RetryCost, 2) AS retry
FROM idlewatt.job_costs ORDER BY EffectiveCost DESC LIMIT 6 FORMAT PrettyCompactMonoBlock`},
		{"Invoices", `
SELECT InvoiceId AS invoice, BillingAccountId AS account, InvoiceTotal AS invoiced, round(BilledCost, 2) AS billed, UnexplainedDifference AS unexplained, Status AS status, if(Difference = 0, 'closed', toString(Difference)) AS books
FROM idlewatt.reconciliation ORDER BY account FORMAT PrettyCompactMonoBlock`},
	} {
		var b strings.Builder
		if err := a.query(q.sql, "TSV", &b); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(q.title), err)
		}
		fmt.Fprintf(a.out, "\n%s\n%s", q.title, b.String())
	}
	return a.demoAlert(month)
}

const demoRules = `
time_zone: %s
channels:
  demo: {slack: {webhook_url_env: IDLEWATT_DEMO_WEBHOOK}}
rules:
  - {name: idle nodes, kind: idle_gpu, channel: demo}
`

// demoAlert shows the message that would have gone out on the Saturday morning.
func (a *app) demoAlert(month demo.Month) error {
	rules, err := alert.Parse(fmt.Appendf(nil, demoRules, month.TimeZone))
	if err != nil {
		return fmt.Errorf("reading the demo's rules: %w", err)
	}
	morning := month.Weekend.From.Add(15 * time.Hour).Truncate(time.Hour)
	fmt.Fprintf(a.out, "\nWhat Slack would have shown on %s\n", morning.Format("Mon 2006-01-02 15:04 UTC"))
	return a.preview(rules, morning)
}

func printSection(a *app, s notify.Section) {
	for _, line := range strings.Split(strings.TrimSpace(s.Title+"\n"+s.Text), "\n") {
		if line != "" {
			fmt.Fprintf(a.out, "  |   %s\n", line)
		}
	}
	for _, f := range s.Fields {
		fmt.Fprintf(a.out, "  |   %s: %s\n", f.Name, strings.ReplaceAll(f.Value, "\n", " "))
	}
	if s.Code != "" {
		fmt.Fprintf(a.out, "  |   $ %s\n", s.Code)
	}
}

// keeper is a notifier that keeps messages instead of sending them.
type keeper struct{ messages []notify.Message }

func (k *keeper) Send(_ context.Context, m notify.Message) error {
	k.messages = append(k.messages, m)
	return nil
}
