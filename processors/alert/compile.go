package alert

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/idlewatt/idlewatt/schema/money"
)

// Defaults keep people reading: see the design's section on alerts.
const (
	defaultFor        = 30 * time.Minute
	defaultMinIdle    = 2 * time.Hour
	defaultClearAfter = 15 * time.Minute
	defaultMaxAge     = 48 * time.Hour
	defaultMinWaste   = "50 USD"
)

// compiler gathers the rules and everything that is wrong with them.
type compiler struct {
	rules *Rules
	names map[string]bool
	errs  []error
}

func (k *compiler) add(err error) {
	if err != nil {
		k.errs = append(k.errs, err)
	}
}

func (k *compiler) wrong(n ast.Node, field, format string, args ...any) {
	k.errs = append(k.errs, wrong(n, field, format, args...))
}

func (k *compiler) header(f file) {
	if f.TimeZone != "" {
		k.rules.Zone = k.zone(nil, "time_zone", f.TimeZone)
	}
	k.rules.Interval = k.duration(nil, "interval", f.Interval, time.Minute)
	if k.rules.Interval < time.Second {
		k.wrong(nil, "interval", "%s is too short, want at least 1s", k.rules.Interval)
	}
}

func (k *compiler) channels(n ast.Node) {
	if n == nil {
		return
	}
	entries, ok := values(n)
	if !ok {
		k.wrong(n, "channels", "want a mapping of channel names")
		return
	}
	for _, e := range entries {
		name := e.Key.GetToken().Value
		path := join("channels", name)
		var c struct {
			Slack node `yaml:"slack"`
		}
		k.add(fill(e.Value, path, &c))
		if c.Slack.Node == nil {
			k.wrong(e.Key, path, "slack is required: no other service is known")
			continue
		}
		var out ChannelConfig
		k.add(fill(c.Slack.Node, path+".slack", &out.Slack))
		if err := out.Slack.Validate(); err != nil {
			k.wrong(c.Slack.Node, path+".slack", "%w", err)
		}
		k.rules.Channels[name] = out
	}
}

func (k *compiler) rule(path string, n ast.Node) {
	var kind string
	entries, _ := values(n)
	for _, e := range entries {
		if e.Key.GetToken().Value == "kind" {
			kind = e.Value.GetToken().Value
		}
	}
	switch kind {
	case KindIdle:
		k.idle(path, n)
	case KindBudget:
		k.budget(path, n)
	case "":
		k.wrong(n, path+".kind", "is required: idle_gpu or budget")
	default:
		k.wrong(n, path+".kind", "unknown kind %q, want idle_gpu or budget", kind)
	}
}

// named checks what every rule has and returns the rule's path with its name in it.
func (k *compiler) named(n ast.Node, path, name, channel string) {
	switch {
	case strings.TrimSpace(name) == "":
		k.wrong(n, path+".name", "is required")
	case k.names[name]:
		k.wrong(n, path+".name", "%q is used by another rule", name)
	}
	k.names[name] = true
	if _, ok := k.rules.Channels[channel]; !ok {
		known := slices.Sorted(maps.Keys(k.rules.Channels))
		k.wrong(n, path+".channel", "%q is none of the channels (%s)", channel, strings.Join(known, ", "))
	}
}

func (k *compiler) idle(path string, n ast.Node) {
	var f idleFile
	k.add(fill(n, path, &f))
	k.named(n, path, f.Name, f.Channel)
	r := IdleRule{Name: f.Name, Channel: f.Channel, MinWaste: map[string]money.Decimal{}}
	r.For = k.duration(n, path+".for", f.For, defaultFor)
	minIdle := defaultMinIdle
	if f.For != "" { // who writes how long means it
		minIdle = r.For
	}
	r.MinIdle = max(r.For, k.duration(n, path+".min_idle", f.MinIdle, minIdle))
	r.ClearAfter = k.duration(n, path+".clear_after", f.ClearAfter, defaultClearAfter)
	if len(f.MinWaste) == 0 {
		f.MinWaste = []string{defaultMinWaste}
	}
	for _, s := range f.MinWaste {
		amount, currency, err := parseAmount(s)
		if err != nil {
			k.wrong(n, path+".min_waste", "%w", err)
			continue
		}
		if !amount.IsZero() {
			r.MinWaste[currency] = amount
		}
	}
	r.Calendar = k.calendar(n, path+".calendar", f.Calendar)
	for i, e := range f.Exempt {
		if e == (exemptFile{}) {
			k.wrong(n, fmt.Sprintf("%s.exempt[%d]", path, i), "want a pattern for node, owner or project")
			continue
		}
		r.Exempt = append(r.Exempt, Exemption{Node: glob(e.Node), Owner: glob(e.Owner), Project: glob(e.Project)})
	}
	k.rules.Idle = append(k.rules.Idle, r)
}

var currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)

// parseAmount reads "50 USD"; "0" needs no currency.
func parseAmount(s string) (money.Decimal, string, error) {
	number, currency, _ := strings.Cut(strings.TrimSpace(s), " ")
	amount, _, err := money.Parse(number)
	if err != nil {
		return amount, "", fmt.Errorf("%q is no amount such as 50 USD", s)
	}
	if amount.IsNegative() {
		return amount, "", fmt.Errorf("%q is negative", s)
	}
	if currency = strings.TrimSpace(currency); !amount.IsZero() && !currencyCode.MatchString(currency) {
		return amount, "", fmt.Errorf("%q names no currency such as USD", s)
	}
	return amount, currency, nil
}

func (k *compiler) budget(path string, n ast.Node) {
	var f budgetFile
	k.add(fill(n, path, &f))
	k.named(n, path, f.Name, f.Channel)
	r := BudgetRule{Name: f.Name, Channel: f.Channel, Currency: f.Currency}
	r.Dimension, r.Value = k.scope(n, path+".scope", f.Scope.Node)
	amount, _, err := money.Parse(f.Amount)
	if err != nil || !amount.IsPositive() {
		k.wrong(n, path+".amount", "want a number above zero, got %q", f.Amount)
	}
	r.Amount = amount
	if !currencyCode.MatchString(f.Currency) {
		k.wrong(n, path+".currency", "want a code such as USD, got %q", f.Currency)
	}
	if f.Period != "" && f.Period != "month" {
		k.wrong(n, path+".period", "unknown period %q, want month", f.Period)
	}
	switch r.Cost = Cost(f.Cost); r.Cost {
	case "":
		r.Cost = CostEffective
	case CostEffective, CostBilled, CostList:
	default:
		k.wrong(n, path+".cost", "unknown cost %q, want effective, billed or list", f.Cost)
	}
	r.Thresholds = k.thresholds(n, path+".thresholds", f.Thresholds)
	r.MaxAge = k.duration(n, path+".max_age", f.MaxAge, defaultMaxAge)
	k.rules.Budgets = append(k.rules.Budgets, r)
}

// dimensions maps what a scope may name to the column of idlewatt.allocations.
func dimensions() map[string]string {
	return map[string]string{
		"project": "x_Project", "team": "x_Team", "environment": "x_Environment", "provider": "ServiceProviderName",
		"account": "BillingAccountId", "sub_account": "SubAccountId", "region": "RegionId", "gpu_model": "x_GpuModel",
	}
}

func (k *compiler) scope(n ast.Node, path string, scope ast.Node) (dimension, value string) {
	known := "all, or one of " + strings.Join(slices.Sorted(maps.Keys(dimensions())), ", ") + " with its value"
	if scope == nil {
		k.wrong(n, path, "is required: %s", known)
		return "", ""
	}
	entries, ok := values(scope)
	if !ok {
		if text, _ := scalar(scope); text != "all" {
			k.wrong(scope, path, "want %s", known)
		}
		return "", ""
	}
	if len(entries) != 1 {
		k.wrong(scope, path, "want exactly one dimension")
		return "", ""
	}
	dimension = entries[0].Key.GetToken().Value
	if _, ok := dimensions()[dimension]; !ok {
		k.wrong(scope, join(path, dimension), "unknown dimension, want %s", known)
	}
	value, ok = scalar(entries[0].Value)
	if !ok {
		k.wrong(scope, join(path, dimension), "want a plain value")
	}
	return dimension, value
}

func (k *compiler) thresholds(n ast.Node, path string, texts []string) []money.Decimal {
	if len(texts) == 0 {
		k.wrong(n, path, "is required: percents such as [50, 80, 100]")
	}
	var out []money.Decimal
	for _, s := range texts {
		d, _, err := money.Parse(strings.TrimSuffix(strings.TrimSpace(s), "%"))
		if err != nil || !d.IsPositive() {
			k.wrong(n, path, "%q is no percent above zero", s)
			continue
		}
		if slices.ContainsFunc(out, d.Equal) {
			k.wrong(n, path, "%s stands twice", d)
			continue
		}
		out = append(out, d)
	}
	slices.SortFunc(out, money.Decimal.Cmp)
	return out
}

func (k *compiler) duration(n ast.Node, path, text string, unset time.Duration) time.Duration {
	if text == "" {
		return unset
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		k.wrong(n, path, "%q is no duration such as 30m or 2h", text)
		return unset
	}
	return d
}

func (k *compiler) zone(n ast.Node, path, name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		k.wrong(n, path, "unknown time zone %q, want a name such as Europe/Berlin", name)
		return time.UTC
	}
	return z
}

// calendar reads days and hours; none of it means always.
func (k *compiler) calendar(n ast.Node, path string, f calendarFile) *Calendar {
	if f.TimeZone == "" && len(f.Days) == 0 && f.From == "" && f.To == "" {
		return nil
	}
	c := &Calendar{Zone: k.rules.Zone, To: 24 * 60}
	if f.TimeZone != "" {
		c.Zone = k.zone(n, path+".time_zone", f.TimeZone)
	}
	for _, d := range f.Days {
		days, ok := weekdays()[strings.ToLower(d)]
		if !ok {
			k.wrong(n, path+".days", "unknown day %q, want mon to sun, weekends or weekdays", d)
		}
		for _, day := range days {
			c.Days[day] = true
		}
	}
	if len(f.Days) == 0 {
		c.Days = [7]bool{true, true, true, true, true, true, true}
	}
	var err error
	if f.From != "" {
		if c.From, err = minuteOfDay(f.From); err != nil {
			k.wrong(n, path+".from", "%w", err)
		}
	}
	if f.To != "" {
		if c.To, err = minuteOfDay(f.To); err != nil {
			k.wrong(n, path+".to", "%w", err)
		}
	}
	return c
}

func weekdays() map[string][]time.Weekday {
	out := map[string][]time.Weekday{"weekends": {time.Saturday, time.Sunday}}
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := strings.ToLower(d.String())
		out[name], out[name[:3]] = []time.Weekday{d}, []time.Weekday{d}
		if d != time.Saturday && d != time.Sunday {
			out["weekdays"] = append(out["weekdays"], d)
		}
	}
	return out
}

func minuteOfDay(s string) (int, error) {
	if s == "24:00" {
		return 24 * 60, nil
	}
	t, err := time.Parse("15:04", s)
	if err != nil {
		return 0, errors.New("want a time such as 18:00")
	}
	return t.Hour()*60 + t.Minute(), nil
}
