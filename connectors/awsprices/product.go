package awsprices

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

// product is one text of a GetProducts answer. The fields are those of the public offer files
// (formatVersion aws_v1); their types are checked on what came, since AWS publishes no schema.
type product struct {
	Product struct {
		SKU        string            `json:"sku"`
		Attributes map[string]string `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]term `json:"OnDemand"`
	} `json:"terms"`
}

type term struct {
	EffectiveDate   string               `json:"effectiveDate"`
	PriceDimensions map[string]dimension `json:"priceDimensions"`
}

type dimension struct {
	Unit         string            `json:"unit"`
	BeginRange   string            `json:"beginRange"`
	EndRange     string            `json:"endRange"`
	PricePerUnit map[string]string `json:"pricePerUnit"` // currency to amount, as text
}

// wanted is a machine whose price is asked for.
type wanted struct{ region, instanceType, system string }

// attributes are what a product must say of itself to be the price of a plain machine, in the
// price list's words. They are asked for, and looked at again in the answer.
func (w wanted) attributes() map[string]string {
	return map[string]string{
		"instanceType": w.instanceType, "regionCode": w.region, "operatingSystem": w.system,
		"tenancy": "Shared", "capacitystatus": "Used", "preInstalledSw": "NA",
	}
}

// parse returns the on-demand prices of a product, or none if it is not the plain machine that
// was asked for: a Capacity Block, or a licence that one brings. A price of zero is none: such
// products exist beside the one that costs.
func parse(text string, w wanted) ([]event.Price, error) {
	var p product
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("reading a product of %s: %w", w.instanceType, err)
	}
	has := p.Product.Attributes
	for name, want := range w.attributes() {
		if has[name] != want {
			return nil, nil
		}
	}
	if m := has["marketoption"]; m != "" && m != "OnDemand" || has["licenseModel"] == "Bring your own license" {
		return nil, nil
	}
	var out []event.Price
	for _, code := range slices.Sorted(maps.Keys(p.Terms.OnDemand)) {
		prices, err := p.Terms.OnDemand[code].prices(w)
		if err != nil {
			return nil, fmt.Errorf("product %s of %s, term %s: %w", p.Product.SKU, w.instanceType, code, err)
		}
		out = append(out, prices...)
	}
	return out, nil
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// prices reads one term. A machine's has one dimension, by the hour and the same for all hours.
func (t term) prices(w wanted) ([]event.Price, error) {
	from, err := time.Parse(time.RFC3339, t.EffectiveDate)
	if err != nil || from.Year() < 2006 || from.Year() > 2200 { // EC2 began in 2006
		return nil, fmt.Errorf("effectiveDate: %q is no time of a price", t.EffectiveDate)
	}
	if len(t.PriceDimensions) != 1 {
		return nil, fmt.Errorf("priceDimensions: %d of them; a price by the hour has one", len(t.PriceDimensions))
	}
	var out []event.Price
	for _, d := range t.PriceDimensions {
		if d.Unit != "Hrs" {
			return nil, fmt.Errorf("unit: %q is not Hrs", d.Unit)
		}
		if d.BeginRange != "" && d.BeginRange != "0" || d.EndRange != "" && d.EndRange != "Inf" {
			return nil, fmt.Errorf("beginRange, endRange: %q to %q is a tier; a price by the hour has none", d.BeginRange, d.EndRange)
		}
		for _, unit := range slices.Sorted(maps.Keys(d.PricePerUnit)) {
			rate, err := amount(d.PricePerUnit[unit])
			if err != nil {
				return nil, fmt.Errorf("pricePerUnit.%s: %w", unit, err)
			}
			if !currency.MatchString(unit) {
				return nil, fmt.Errorf("pricePerUnit: %q is no currency", unit)
			}
			if rate.IsZero() {
				continue
			}
			out = append(out, event.Price{
				Provider: "aws", Region: w.region, InstanceType: w.instanceType, Kind: event.KindMachine, System: w.system,
				PricingModel: "on_demand", Per: event.PerMachine, Rate: rate, Currency: unit, ValidFrom: from.UTC(),
			})
		}
	}
	return out, nil
}

// amount reads a price to its last digit. One with more digits than can be kept is refused
// rather than rounded.
func amount(text string) (money.Decimal, error) {
	d, rounded, err := money.Parse(text)
	switch {
	case err != nil:
		return d, err
	case rounded:
		return d, fmt.Errorf("%q has more digits than can be kept", text)
	case d.IsNegative():
		return d, fmt.Errorf("%q is negative", text)
	}
	return d, nil
}

// single refuses products that contradict each other about the same moment: which is right
// cannot be told, and a wrong price is worse than none.
func single(prices []event.Price) ([]event.Price, error) {
	seen := map[string]event.Price{}
	var out []event.Price
	for _, p := range prices {
		key := p.Currency + p.ValidFrom.Format(time.RFC3339)
		was, again := seen[key]
		if again && !was.Rate.Equal(p.Rate) {
			return nil, errors.New("on " + p.ValidFrom.Format(time.DateOnly) + " two prices: " + was.Rate.String() + " and " + p.Rate.String() + " " + p.Currency)
		}
		if !again {
			out = append(out, p)
		}
		seen[key] = p
	}
	return out, nil
}
