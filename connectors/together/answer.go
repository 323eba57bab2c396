package together

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/lines"
	"github.com/idlewatt/idlewatt/schema/money"
)

// answer is a page of /billing/usage, or several put together.
type answer struct {
	Currency string   `json:"currency"`
	Data     []window `json:"data"`
	Next     *string  `json:"next_cursor"`
}

type window struct {
	Date  string `json:"date"`
	Items []item `json:"line_items"`
}

// item is one line; amounts are decimal texts. The same line may come twice in a window: both count.
type item struct {
	Product    string            `json:"product_name"`
	Quantity   *string           `json:"quantity"`
	UnitPrice  *string           `json:"unit_price"`
	Cost       *string           `json:"cost"`
	Dimensions map[string]string `json:"pricing_dimensions"`
	Attributes map[string]any    `json:"attributes"`
}

func (a *answer) add(page answer) error {
	if page.Currency == "" {
		return errors.New("field currency is missing")
	}
	if a.Currency != "" && a.Currency != page.Currency {
		return fmt.Errorf("field currency: %q after %q", page.Currency, a.Currency)
	}
	a.Currency, a.Data = page.Currency, append(a.Data, page.Data...)
	return nil
}

// days returns the days with a window, sorted.
func (a answer) days() ([]string, error) {
	var out []string
	for i, w := range a.Data {
		if _, err := time.Parse(time.DateOnly, w.Date); err != nil {
			return nil, connectors.Permanent(fmt.Errorf("data[%d].date: %q is no day; was granularity day asked for?", i, w.Date))
		}
		if !slices.Contains(out, w.Date) {
			out = append(out, w.Date)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (a answer) write(w *lines.Writer, account, file string) error {
	for i, win := range a.Data {
		for k, it := range win.Items {
			l, err := it.line(account, a.Currency, win.Date)
			if err == nil {
				err = w.Write(l)
			}
			if err != nil {
				return connectors.Permanent(fmt.Errorf("%s: data[%d].line_items[%d]: %w", file, i, k, err))
			}
		}
	}
	return nil
}

func (it item) line(account, currency, date string) (lines.Line, error) {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return lines.Line{}, err
	}
	var errs []error
	read := func(name string, s *string) *money.Decimal {
		if s == nil || *s == "" {
			return nil
		}
		d, _, err := money.Parse(*s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return &d
	}
	cost, quantity, price := read("cost", it.Cost), read("quantity", it.Quantity), read("unit_price", it.UnitPrice)
	if cost == nil {
		errs = append(errs, errors.New("cost: is missing"))
	}
	if err := errors.Join(errs...); err != nil {
		return lines.Line{}, err
	}
	l := lines.Line{
		BillingAccountID: account, BillingCurrency: currency, ChargePeriodStart: day, ChargePeriodEnd: day.AddDate(0, 0, 1),
		ChargeCategory: "Usage", ChargeFrequency: "Usage-Based", ChargeDescription: it.Product, BilledCost: *cost, EffectiveCost: cost,
		ContractedCost: cost, ContractedUnitPrice: price, ConsumedQuantity: quantity, PricingQuantity: quantity,
		ServiceProviderName: "Together AI", HostProviderName: "Together AI", InvoiceIssuerName: "Together AI",
		ServiceCategory: "AI and Machine Learning", ServiceName: it.Product, SkuMeter: it.Product, LineItemType: "product", PricingModel: "on_demand",
		Tags: map[string]string{},
	}
	if model := it.Dimensions["model"]; model != "" {
		// Paid by the token or request. What names no model, such as a cluster, may stand idle.
		l.SkuID, l.PricingModel, l.LineItemType, l.Tags["model"] = model, "serverless", "metered", model
	}
	for k, v := range it.Attributes {
		if s, ok := v.(string); ok && s != "" {
			l.Tags[k] = s
		}
	}
	if id := l.Tags["project_id"]; id != "" {
		l.SubAccountID = id
	}
	return l, nil
}

func sniff(head []byte) bool {
	return bytes.Contains(head, []byte(`"line_items"`)) && bytes.Contains(head, []byte(`"product_name"`))
}

// fileLines reads saved pages; they cover the days that have a window.
func fileLines(_ context.Context, files []connectors.File, w *lines.Writer) ([]string, error) {
	var all answer
	account := ""
	for _, f := range files {
		raw, err := io.ReadAll(f.Body)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Name, err)
		}
		var a answer
		if err := json.Unmarshal(raw, &a); err != nil {
			return nil, fmt.Errorf("%s: no answer of /billing/usage: %w", f.Name, err)
		}
		if err := all.add(a); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		account = f.Account
	}
	days, err := all.days()
	if err != nil {
		return nil, err
	}
	return days, all.write(w, account, "usage")
}
