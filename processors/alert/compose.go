package alert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

func compareText(a, b string) int { return cmp.Compare(a, b) }

// compose makes one message of the notices of a group, or of several groups (a digest).
func compose(items []item, zone *time.Location) notify.Message {
	var incidents []string
	for _, it := range items {
		incidents = append(incidents, fmt.Sprint(it.over, it.Notice.Incident))
	}
	m := notify.Message{ID: event.ID(source, strings.Join(incidents, " "), "message")}
	first := items[0].Notice
	m.Footer = fmt.Sprintf("Rule %s at %s.", first.Rule, first.At.In(zone).Format("Mon 2 Jan 15:04 MST"))
	if len(items) == 1 {
		m.Heading, m.Sections = first.Heading, first.Sections
		return m
	}
	m.Heading = fmt.Sprintf("%s: %s", commonTitle(items), totals(items))
	for _, it := range items {
		m.Sections = append(m.Sections, notify.Section{Title: it.Notice.Heading, Text: it.Notice.Brief})
	}
	// One group shares an owner; its commands can follow. A digest is to be read, not run.
	if sameGroup(items) {
		for _, it := range items {
			for _, s := range it.Notice.Sections {
				if s.Code != "" {
					m.Sections = append(m.Sections, s)
				}
			}
		}
	}
	return m
}

func sameGroup(items []item) bool {
	return !slices.ContainsFunc(items, func(it item) bool { return it.group != items[0].group || it.over != items[0].over })
}

func commonTitle(items []item) string {
	if sameGroup(items) && items[0].Notice.GroupTitle != "" {
		return fmt.Sprintf("%d %s", len(items), items[0].Notice.GroupTitle)
	}
	return fmt.Sprintf("Digest of %d alerts", len(items))
}

// totals adds up the idle cost of a message by currency; budgets overlap and are not added.
func totals(items []item) string {
	sums := map[string]money.Decimal{}
	unknown := 0
	for _, it := range items {
		switch n := it.Notice; {
		case n.Kind != KindIdle:
		case n.Amount == nil:
			unknown++
		default:
			sums[n.Currency] = sums[n.Currency].Add(*n.Amount)
		}
	}
	var parts []string
	for currency, sum := range sorted(sums) {
		parts = append(parts, wholeMoney(sum, currency)+" so far")
	}
	if unknown > 0 {
		parts = append(parts, fmt.Sprintf("%d of unknown cost", unknown))
	}
	if len(parts) == 0 {
		return items[len(items)-1].Notice.Heading
	}
	return strings.Join(parts, ", ")
}
