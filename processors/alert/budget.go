package alert

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/schema/money"
)

// exceeded is the subject of the notice that the amount itself was passed.
const exceeded = "exceeded"

// month returns the calendar month of an instant in a zone, as instants, and its first day.
func month(now time.Time, zone *time.Location) (from, to, label time.Time) {
	t := now.In(zone)
	from = time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, zone)
	to = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, zone)
	return from, to, time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// judgeBudget compares this month's cost with every threshold. A threshold that was reached
// stays so for the month, whatever restatements do.
func (e *Evaluator) judgeBudget(ctx context.Context, r BudgetRule, known map[string]stored, now time.Time) error {
	from, to, label := month(now, e.rules.Zone)
	spend, err := e.facts.Spend(ctx, SpendQuestion{Dimension: r.Dimension, Value: r.Value, Cost: r.Cost, From: from, To: to, Label: label})
	if err != nil {
		return err
	}
	percent := spend.By[r.Currency].Mul(decimal.NewFromInt(100)).Div(r.Amount)
	seen := map[string]bool{}
	var changed []stored
	step := func(what string, fire bool) {
		s := find(known, Instance{Rule: r.Name, Kind: KindBudget, Subject: label.Format("2006-01") + " " + what, Channel: r.Channel})
		seen[s.Key()] = true
		if s.State == Firing { // once a month
			return
		}
		// A threshold that is not reached is nothing to remember: Clear forgets it.
		s.Instance = s.Step(Reading{Fire: fire, Clear: !fire, Hold: r.hold(spend, now)}, 0, now)
		if s.Fired != nil {
			s.Channel, s.Group = r.Channel, r.Name+"\x00"+label.Format("2006-01")
			s.Fired.Notice = s.stamp(r.notice(what, spend, label, e.rules.Zone, now), now)
		}
		changed = append(changed, s)
	}
	for _, t := range r.Thresholds {
		step(t.String()+" %", percent.GreaterThanOrEqual(t))
	}
	step(exceeded, spend.By[r.Currency].GreaterThan(r.Amount))
	for key, s := range known { // an earlier month, or a threshold no longer asked for, ends without a word
		if s.Rule == r.Name && s.Kind == KindBudget && !seen[key] {
			changed = append(changed, s.endQuietly(now))
		}
	}
	return e.store(ctx, changed, known)
}

// hold says why the rule decides nothing now.
func (r BudgetRule) hold(s Spend, now time.Time) string {
	if len(s.By) > 0 && !s.LastBill.IsZero() && now.Sub(s.LastBill) > r.MaxAge {
		return "the newest bill came " + s.LastBill.UTC().Format(time.RFC3339)
	}
	return ""
}

func (r BudgetRule) scope() string {
	if r.Dimension == "" {
		return "everything"
	}
	return strings.ReplaceAll(r.Dimension, "_", " ") + " " + r.Value
}

func (r BudgetRule) notice(what string, s Spend, label time.Time, zone *time.Location, now time.Time) Notice {
	spent := s.By[r.Currency]
	percent := spent.Mul(decimal.NewFromInt(100)).Div(r.Amount)
	word := what + " reached"
	if what == exceeded {
		word = exceeded
	}
	out := Notice{
		Heading: fmt.Sprintf("Budget %s: %s, %s of %s in %s", r.Name, word,
			money.Text(spent, ""), money.Text(r.Amount, r.Currency), label.Format("January 2006")),
		Amount: &spent, Currency: r.Currency, Since: now, Brief: fmt.Sprintf("%s: %s.", r.scope(), word),
		GroupTitle: fmt.Sprintf("notices of budget %s", r.Name),
	}
	fields := []notify.Field{
		{Name: "Scope", Value: r.scope()},
		{Name: "Month", Value: label.Format("2006-01") + " (" + zone.String() + ")"},
		{Name: "Spent so far", Value: fmt.Sprintf("%s (%s cost), %s %%", money.Text(spent, r.Currency), r.Cost, percent.RoundFloor(2))},
		{Name: "Left", Value: money.Text(r.Amount.Sub(spent), r.Currency)},
	}
	if e := s.Estimated[r.Currency]; !e.IsZero() {
		fields = append(fields, notify.Field{Name: "Of it estimated", Value: money.Text(e, r.Currency) + ", not billed yet"})
	}
	if !s.LastBill.IsZero() {
		fields = append(fields, notify.Field{Name: "Newest bill", Value: s.LastBill.In(zone).Format("Mon 2 Jan 15:04 MST")})
	}
	var text []string
	for currency, amount := range sorted(s.By) {
		if currency != r.Currency {
			text = append(text, "Not counted, for it is another currency: "+money.Text(amount, currency)+".")
		}
	}
	if s.Without > 0 {
		text = append(text, fmt.Sprintf("%d charges state no %s cost and count as nothing.", s.Without, r.Cost))
	}
	out.Sections = []notify.Section{{Text: strings.Join(text, " "), Fields: fields}}
	return out
}

// endQuietly ends an alert without a message; the event alert.resolved is still published.
// What it had to say before is still sent.
func (s stored) endQuietly(now time.Time) stored {
	switch {
	case s.State == Firing:
		s.State, s.Since = Resolved, now
		over := Notice{Heading: "Over: " + s.Subject, Since: now}
		if s.Fired != nil {
			over.Heading = "Over: " + s.Fired.Notice.Heading
		}
		s.Over = &Outgoing{Silent: true, Notice: s.stamp(over, now)}
	case s.State == Pending || s.settled():
		s.State = ""
	}
	return s
}
