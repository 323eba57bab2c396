package alert

import (
	"regexp"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/money"
)

// Rules are the checked rules of one configuration.
type Rules struct {
	Zone     *time.Location // of texts and of months
	Interval time.Duration
	Channels map[string]ChannelConfig
	Idle     []IdleRule
	Budgets  []BudgetRule
}

// Kinds of rules.
const (
	KindIdle   = "idle_gpu"
	KindBudget = "budget"
)

// IdleRule watches nodes whose GPUs do nothing.
type IdleRule struct {
	Name    string
	Channel string
	// For is how long a node must be known to be idle before it is looked at, MinIdle and
	// MinWaste what it takes to tell people.
	For, MinIdle time.Duration
	// MinWaste holds the least cost by currency. A node whose cost is unknown, or is in a
	// currency that is not named, is held unless no amount is asked for.
	MinWaste map[string]money.Decimal
	// ClearAfter is how long the node must be busy before the alert is over.
	ClearAfter time.Duration
	Calendar   *Calendar
	Exempt     []Exemption
}

// BudgetRule watches the cost of one calendar month.
type BudgetRule struct {
	Name      string
	Channel   string
	Dimension string // empty: everything
	Value     string
	Amount    money.Decimal
	Currency  string
	Cost      Cost
	// Thresholds are percents of the amount. Above 100 % there is one more notice, 'exceeded'.
	Thresholds []money.Decimal
	// MaxAge is how old the newest bill may be before the rule holds.
	MaxAge time.Duration
}

// Cost names one of the costs of a charge.
type Cost string

// The costs a budget can watch.
const (
	CostEffective Cost = "effective"
	CostBilled    Cost = "billed"
	CostList      Cost = "list"
)

// Calendar says when a rule may fire. An alert that fires already goes on outside it.
type Calendar struct {
	Zone *time.Location
	Days [7]bool // by time.Weekday
	// From and To are minutes of the day; To is exclusive. From after To goes past midnight,
	// and the day that counts is the one it began on.
	From, To int
}

// Contains reports whether the calendar covers an instant.
func (c *Calendar) Contains(at time.Time) bool {
	if c == nil {
		return true
	}
	t := at.In(c.Zone)
	minute, day := t.Hour()*60+t.Minute(), t.Weekday()
	if c.From < c.To {
		return c.Days[day] && c.From <= minute && minute < c.To
	}
	yesterday := (day + 6) % 7
	return c.Days[day] && minute >= c.From || c.Days[yesterday] && minute < c.To
}

// Exemption leaves out nodes for which every given pattern matches.
type Exemption struct{ Node, Owner, Project *regexp.Regexp }

// Matches reports whether the node is left out.
func (e Exemption) Matches(node, owner, project string) bool {
	for _, p := range []struct {
		pattern *regexp.Regexp
		text    string
	}{{e.Node, node}, {e.Owner, owner}, {e.Project, project}} {
		if p.pattern != nil && !p.pattern.MatchString(p.text) {
			return false
		}
	}
	return true
}

// glob turns a pattern with * and ? into an expression for the whole text.
func glob(pattern string) *regexp.Regexp {
	if pattern == "" {
		return nil
	}
	text := regexp.QuoteMeta(pattern)
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\*`, ".*"), `\?`, ".")
	return regexp.MustCompile("(?s)^" + text + "$") // quoted: it always compiles
}
