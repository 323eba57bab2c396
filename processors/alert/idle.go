package alert

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/money"
)

// forgetAfter is how long an alert waits for a node that has gone silent. A stopped machine
// sends nothing, so silence must end an alert some day.
const forgetAfter = 24 * time.Hour

// freshFor is how old the newest known minute of a node may be for its alert to change.
const freshFor = 20 * time.Minute

// judgeIdle moves every alert of the rule by what is idle at this moment.
func (e *Evaluator) judgeIdle(ctx context.Context, r IdleRule, facts IdleFacts, known map[string]stored, now time.Time) error {
	seen := map[string]bool{}
	var changed []stored
	for _, n := range mergeNodes(facts.Nodes) {
		s := find(known, Instance{Rule: r.Name, Kind: KindIdle, Subject: n.subject(), Channel: r.Channel})
		seen[s.Key()] = true
		switch {
		case r.exempts(n) && s.revision != 0:
			changed = append(changed, s.endQuietly(now))
			continue
		case r.exempts(n), s.revision == 0 && n.SeenUntil.Sub(n.IdleSince) < r.For:
			continue
		}
		s.Instance = s.Step(r.read(n, now), r.ClearAfter, now)
		if s.Node == nil || s.State != Pending {
			s.Node = s.Node.refresh(n)
		}
		s.Channel, s.Group = r.Channel, groupOf(r, n)
		changed = append(changed, s)
	}
	for key, s := range known {
		if s.Rule != r.Name || s.Kind != KindIdle || seen[key] || s.Node == nil {
			continue
		}
		s.Instance = s.Step(gone(*s.Node, facts, now), r.ClearAfter, now)
		changed = append(changed, s)
	}
	if err := e.describe(ctx, changed, now); err != nil {
		return err
	}
	return e.store(ctx, changed, known)
}

// describe fills in the notices of the alerts that changed just now.
func (e *Evaluator) describe(ctx context.Context, changed []stored, now time.Time) error {
	var nodes []IdleNode
	var fresh []int
	for i, s := range changed {
		if s.Fired != nil && s.Fired.Notice.Incident == "" {
			nodes, fresh = append(nodes, *s.Node), append(fresh, i)
		}
	}
	if len(nodes) > 0 {
		if err := e.facts.Describe(ctx, nodes); err != nil {
			return err
		}
	}
	for i, at := range fresh {
		s := &changed[at]
		s.Node = &nodes[i]
		s.Fired.Notice = s.stamp(idleNotice(nodes[i], e.rules.Zone, now), now)
	}
	for i := range changed {
		if s := &changed[i]; s.Over != nil && s.Over.Notice.Incident == "" {
			s.Over.Notice = s.stamp(resolvedNotice(*s.Node, s.Why, now), now)
			s.Over.Silent = s.Fired != nil && s.Fired.Failed // nobody heard the first part
		}
	}
	return nil
}

// stamp completes a notice with what every notice of the instance says.
func (i Instance) stamp(n Notice, now time.Time) Notice {
	n.Incident, n.Rule, n.Kind, n.Subject, n.State, n.At = i.Incident(), i.Rule, i.Kind, i.Subject, i.State, now
	return n
}

// read judges one idle node.
func (r IdleRule) read(n IdleNode, now time.Time) Reading {
	idle := n.SeenUntil.Sub(n.IdleSince)
	switch {
	case now.Sub(n.SeenUntil) > freshFor:
		return Reading{Hold: "no sample since " + n.SeenUntil.UTC().Format(time.RFC3339)}
	case idle < r.MinIdle:
		return Reading{}
	case !r.Calendar.Contains(now):
		return Reading{Hold: "outside the rule's calendar"}
	case len(r.MinWaste) == 0:
		return Reading{Fire: true}
	case n.CostSoFar == nil:
		return Reading{Hold: "the cost of this machine is unknown"}
	}
	least, ok := r.MinWaste[n.Currency]
	if !ok {
		return Reading{Hold: "min_waste names no amount in " + n.Currency}
	}
	return Reading{Fire: n.CostSoFar.GreaterThanOrEqual(least)}
}

// gone judges a node that is not idle at this moment: it works again, or nothing is known.
func gone(n IdleNode, facts IdleFacts, now time.Time) Reading {
	silent := now.Sub(n.SeenUntil)
	switch k, ok := facts.Known[n.Node]; {
	case ok && now.Sub(k.Until) <= freshFor && k.Until.After(n.SeenUntil):
		if k.State == "unavailable" {
			return Reading{Clear: true, Why: "The node is drained, in maintenance or failed now."}
		}
		return Reading{Clear: true, Why: "The GPUs work again."}
	case silent >= forgetAfter:
		return Reading{Clear: true, Why: fmt.Sprintf("No telemetry for %s: stopped, or its exporter is down.", spanText(silent))}
	}
	return Reading{Hold: "no sample since " + n.SeenUntil.UTC().Format(time.RFC3339)}
}

func (r IdleRule) exempts(n IdleNode) bool {
	if n.State == "unavailable" { // drained or cordoned: evidence for a claim, not waste
		return true
	}
	return slices.ContainsFunc(r.Exempt, func(e Exemption) bool { return e.Matches(n.name(), n.Owner, n.Project) })
}

// groupOf is what alerts must share to go out in one message: owner (or node) and cause.
func groupOf(r IdleRule, n IdleNode) string {
	who := n.Owner
	if who == "" {
		who = n.subject()
	}
	return strings.Join([]string{r.Name, who, n.Cause}, "\x00")
}

// refresh takes the figures of this pass and keeps what only Describe knows.
func (n *IdleNode) refresh(now IdleNode) *IdleNode {
	if n != nil && n.LastJobID == now.LastJobID {
		now.Zone, now.Name, now.Scheduler = n.Zone, n.Name, n.Scheduler
		now.JobOutcome, now.JobEnded, now.JobUser = n.JobOutcome, n.JobEnded, n.JobUser
	}
	return &now
}

// mergeNodes folds the rows of one node, which differ in state or owner, into one: the first
// row, with the most GPUs, speaks for the node. Costs of different currencies are not added.
func mergeNodes(rows []IdleNode) []IdleNode {
	at := map[string]int{}
	var out []IdleNode
	for _, r := range rows {
		i, ok := at[r.subject()]
		if !ok {
			at[r.subject()] = len(out)
			out = append(out, r)
			continue
		}
		n := &out[i]
		n.GPUCount += r.GPUCount
		n.Coverage = min(n.Coverage, r.Coverage)
		n.Estimated = n.Estimated || r.Estimated
		if r.IdleSince.Before(n.IdleSince) {
			n.IdleSince = r.IdleSince
		}
		if r.SeenUntil.After(n.SeenUntil) {
			n.SeenUntil = r.SeenUntil
		}
		same := n.Currency == r.Currency
		n.CostSoFar, n.CostPerHour = plus(n.CostSoFar, r.CostSoFar, same), plus(n.CostPerHour, r.CostPerHour, same)
		n.Avoidable = plus(n.Avoidable, r.Avoidable, same)
	}
	return out
}

// plus adds two amounts; one unknown makes the sum unknown.
func plus(a, b *money.Decimal, same bool) *money.Decimal {
	if a == nil || b == nil || !same {
		return nil
	}
	sum := a.Add(*b)
	return &sum
}
