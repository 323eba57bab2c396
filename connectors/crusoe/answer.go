package crusoe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/catalog"
	"github.com/idlewatt/idlewatt/schema/lines"
	"github.com/idlewatt/idlewatt/schema/money"
)

// answer is what /billing/costs says.
type answer struct {
	Data    []cost `json:"data"`
	Updated string `json:"last_updated"`
}

// cost is one metric of one resource type, project, region and day. Amounts are numbers in one
// route of the API and texts in another.
type cost struct {
	Metric    string `json:"billable_metric"`
	Cost      number `json:"cost"`
	Date      string `json:"date"`
	Project   string `json:"project_id"`
	Quantity  number `json:"quantity"`
	Region    string `json:"region"`
	Type      string `json:"resource_type"`
	UnitPrice number `json:"unit_price"`
}

// number is an amount as its text.
type number string

// UnmarshalJSON takes 1.5 and "1.5" alike, digit by digit.
func (n *number) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if text == "null" {
		text = ""
	}
	*n = number(text)
	return nil
}

func (n number) amount() (*money.Decimal, error) {
	if n == "" {
		return nil, nil
	}
	d, _, err := money.Parse(string(n))
	return &d, err
}

// days returns the days that the answer is whole for: from its first to its last, without the
// day on which it was made.
func (a answer) days() ([]string, error) {
	first, last := "", ""
	for i, c := range a.Data {
		if _, err := time.Parse(time.DateOnly, c.Date); err != nil {
			return nil, connectors.Permanent(fmt.Errorf("data[%d].date: %q is no day", i, c.Date))
		}
		if first == "" || c.Date < first {
			first = c.Date
		}
		last = max(last, c.Date)
	}
	if from, to, ok := span(first, last); ok && to.Sub(from) > longest {
		return nil, connectors.Permanent(fmt.Errorf("costs from %s to %s are more than %d days", first, last, int(longest.Hours()/24)))
	}
	made := a.Updated
	if len(made) >= len(time.DateOnly) {
		made = made[:len(time.DateOnly)]
	}
	var out []string
	for day := first; day != "" && day <= last && (made == "" || day < made); day = next(day) {
		out = append(out, day)
	}
	return out, nil
}

// longest is more than any answer has covered: costs exist since May 2025.
const longest = 4000 * 24 * time.Hour

func span(first, last string) (from, to time.Time, ok bool) {
	from, err1 := time.Parse(time.DateOnly, first)
	to, err2 := time.Parse(time.DateOnly, last)
	return from, to, err1 == nil && err2 == nil
}

func next(day string) string {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return ""
	}
	return t.AddDate(0, 0, 1).Format(time.DateOnly)
}

// write writes the costs of the days.
func (a answer) write(w *lines.Writer, organization string, projects map[string]string, file string, days []string) error {
	whole := map[string]bool{}
	for _, d := range days {
		whole[d] = true
	}
	for i, c := range a.Data {
		if !whole[c.Date] {
			continue
		}
		l, err := c.line(organization, projects)
		if err != nil {
			return connectors.Permanent(fmt.Errorf("%s: data[%d]: %w", file, i, err))
		}
		if err := w.Write(l); err != nil {
			return connectors.Permanent(fmt.Errorf("%s: data[%d]: %w", file, i, err))
		}
	}
	return nil
}

func (c cost) line(organization string, projects map[string]string) (lines.Line, error) {
	var errs []error
	read := func(name string, n number) *money.Decimal {
		d, err := n.amount()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return d
	}
	billed, quantity, price := read("cost", c.Cost), read("quantity", c.Quantity), read("unit_price", c.UnitPrice)
	if billed == nil {
		errs = append(errs, errors.New("cost: is missing"))
	}
	day, err := time.Parse(time.DateOnly, c.Date)
	if err := errors.Join(append(errs, err)...); err != nil {
		return lines.Line{}, err
	}
	l := lines.Line{
		BillingAccountID: organization, SubAccountID: c.Project, BillingCurrency: "USD", ChargePeriodStart: day, ChargePeriodEnd: day.AddDate(0, 0, 1),
		ChargeCategory: "Usage", ChargeFrequency: "Usage-Based", ChargeDescription: c.Type + " " + c.Metric,
		BilledCost: *billed, EffectiveCost: billed, ContractedCost: billed, ContractedUnitPrice: price,
		ConsumedQuantity: quantity, ConsumedUnit: c.Metric, PricingQuantity: quantity, PricingUnit: c.Metric,
		ServiceProviderName: "Crusoe", HostProviderName: "Crusoe", InvoiceIssuerName: "Crusoe", RegionID: c.Region, SkuID: c.Type,
		SkuMeter: c.Metric, ServiceName: "Crusoe Cloud", ServiceCategory: "Other", LineItemType: c.Metric, Tags: map[string]string{"project_id": c.Project},
	}
	if name := projects[c.Project]; name != "" {
		l.Tags["project"], l.SubAccountName = name, name
	}
	switch {
	case strings.HasPrefix(c.Metric, "instance-"):
		l.ServiceCategory, l.LineItemType, l.PricingModel, l.InstanceType = "Compute", "compute", "on_demand", c.Type
		if model, n, ok := gpus(c.Type); ok && c.Metric == "instance-hours" {
			l.GPUModel, l.GPUCount, l.MachineHours = model, &n, quantity
		}
	case strings.HasPrefix(c.Metric, "gib-"):
		l.ServiceCategory, l.LineItemType = "Storage", "storage_running"
	}
	return l, nil
}

// gpus reads a type such as h100-80gb-sxm-ib.8x or l40s-48gb.10x: model, then slice count. CPU
// types such as c1a.16x have no memory of a GPU in their name.
func gpus(kind string) (model string, n decimal.Decimal, ok bool) {
	head, size, found := strings.Cut(kind, ".")
	name, rest, _ := strings.Cut(head, "-")
	if !found || !strings.HasSuffix(size, "x") || !strings.Contains(rest, "gb") {
		return "", n, false
	}
	n, err := decimal.NewFromString(strings.TrimSuffix(size, "x"))
	if err != nil || !n.IsPositive() {
		return "", n, false
	}
	model = strings.ToUpper(name)
	if memory, _, _ := strings.Cut(rest, "-"); model == "A100" {
		model += " " + strings.ToUpper(memory)
	}
	return catalog.ShortModel(model), n, true
}

func sniff(head []byte) bool {
	return bytes.Contains(head, []byte(`"billable_metric"`)) && bytes.Contains(head, []byte(`"last_updated"`))
}

// fileLines reads saved answers; the files of one delivery must not overlap in days.
func fileLines(_ context.Context, files []connectors.File, w *lines.Writer) ([]string, error) {
	var covers []string
	seen := map[string]string{}
	for _, f := range files {
		raw, err := io.ReadAll(f.Body)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Name, err)
		}
		var a answer
		if err := json.Unmarshal(raw, &a); err != nil {
			return nil, fmt.Errorf("%s: no answer of /billing/costs: %w", f.Name, err)
		}
		days, err := a.days()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		for _, d := range days {
			if seen[d] != "" {
				return nil, fmt.Errorf("%s: day %s is in %s too; import them apart", f.Name, d, seen[d])
			}
			seen[d] = f.Name
		}
		if err := a.write(w, f.Account, nil, f.Name, days); err != nil {
			return nil, err
		}
		covers = append(covers, days...)
	}
	return covers, nil
}
