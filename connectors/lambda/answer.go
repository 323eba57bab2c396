package lambda

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

const (
	provider = "lambda"
	vendor   = "Lambda"
	currency = "USD"

	onDemand = "on_demand"
	cluster  = "cluster"
)

// Billed are the statuses from the first health check that passed to the end; booting is free.
const (
	statusBooting   = "booting"
	statusActive    = "active"
	statusUnhealthy = "unhealthy"
)

// billingStep: by the minute; that a minute begun counts whole is an assumption.
const billingStep = 60

// instance is one row of GET /instances. Tokens, keys and the public address have no place here.
type instance struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	Hostname  string       `json:"hostname"`
	PrivateIP string       `json:"private_ip"`
	Status    string       `json:"status"`
	Region    region       `json:"region"`
	Type      instanceType `json:"instance_type"`
	Cluster   string       `json:"cluster_id"` // not in the document; of nodes of 1-Click Clusters
	Tags      []tag        `json:"tags"`
}

type region struct {
	Name string `json:"name"`
}

type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type instanceType struct {
	Name  string      `json:"name"`
	GPU   string      `json:"gpu_description"`      // "H100 (80 GB SXM5)"
	Cents json.Number `json:"price_cents_per_hour"` // US cents, whole machine
	Specs struct {
		GPUs json.Number `json:"gpus"`
	} `json:"specs"`
}

// filesystem is one row of GET /file-systems. Who made it is personal and stays out.
type filesystem struct {
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	Created string      `json:"created"` // ISO 8601
	Region  region      `json:"region"`
	Bytes   json.Number `json:"bytes_used"` // refreshed every few hours
}

// auditEvent is one row of GET /audit-events.
type auditEvent struct {
	Resource string   `json:"resource_name"`
	Action   string   `json:"action"`
	Time     string   `json:"event_time"` // UTC, microseconds
	LRNs     []string `json:"resource_lrns"`
	KeyLRN   string   `json:"request_api_key_lrn"`
	Details  struct {
		LRN    string `json:"instance_lrn"`
		Type   string `json:"instance_type"`
		Region string `json:"region"`
	} `json:"additional_details"`
}

// billed reports whether a machine costs money in its status.
func (i instance) billed() bool { return i.Status == statusActive || i.Status == statusUnhealthy }

// run is a machine as it runs now.
func (i instance) run(account string) (event.Instance, error) {
	out := event.Instance{
		ResourceID: i.ID, Name: i.Name, Kind: event.KindMachine, Provider: provider, Account: account, Region: i.Region.Name,
		InstanceType: i.Type.Name, Hosts: hosts(i.ID, i.Hostname, i.Name, i.PrivateIP), PricingModel: onDemand, Step: billingStep,
	}
	if i.ID == "" {
		return out, errors.New("field id is missing")
	}
	for _, t := range i.Tags {
		if out.Tags == nil {
			out.Tags = map[string]string{}
		}
		out.Tags[t.Key] = masked(t.Value)
	}
	out.Name = masked(out.Name)
	if err := i.Type.describe(&out); err != nil {
		return out, err
	}
	if i.Cluster != "" {
		out.PricingModel, out.Rate, out.Currency, out.Step = cluster, nil, "", 0 // paid by the week, up front
	}
	return out, nil
}

// describe adds GPUs and price of a type; what it does not say stays absent.
func (t instanceType) describe(out *event.Instance) error {
	n, err := number("gpus", t.Specs.GPUs)
	if err != nil {
		return err
	}
	if n != nil && n.IsPositive() {
		out.GPUCount, out.GPUModel = n, model(t.GPU)
	}
	rate, err := t.rate()
	if rate != nil {
		out.Rate, out.Currency = rate, currency
	}
	return err
}

// rate is the price of the whole machine in USD per hour.
func (t instanceType) rate() (*money.Decimal, error) {
	cents, err := number("price_cents_per_hour", t.Cents)
	if cents == nil || err != nil {
		return nil, err
	}
	if cents.IsNegative() {
		return nil, fmt.Errorf("field price_cents_per_hour: %s is negative", t.Cents)
	}
	rate := cents.Shift(-2)
	return &rate, money.Check(rate)
}

// run is a file system as it is now: what is in it, by the hour. How much was in it before is
// not known: it is sure from this poll on.
func (f filesystem) run(account string, s storage) (event.Instance, error) {
	out := event.Instance{
		ResourceID: f.ID, Name: masked(f.Name), Kind: event.KindVolume, Provider: provider, Account: account, Region: f.Region.Name,
		InstanceType: "filesystem", PricingModel: onDemand, Currency: currency,
	}
	if f.ID == "" {
		return out, errors.New("field id is missing")
	}
	used, err := number("bytes_used", f.Bytes)
	if err != nil {
		return out, err
	}
	if used != nil {
		rate := used.Mul(s.price).DivRound(decimal.NewFromInt(1<<30).Mul(decimal.NewFromInt(int64(s.hours))), money.Scale)
		out.Rate = &rate
		if err := money.Check(rate); err != nil || rate.IsNegative() {
			return out, fmt.Errorf("field bytes_used: %s is no size", f.Bytes)
		}
	}
	if f.Created != "" {
		t, err := stamp("created", f.Created)
		if err != nil {
			return out, err
		}
		out.StartedAfter = &t
	}
	return out, nil
}

// number reads a JSON number exactly; nil if absent.
func number(field string, n json.Number) (*money.Decimal, error) {
	if n == "" {
		return nil, nil //nolint:nilnil // absent is not zero
	}
	d, _, err := money.Parse(n.String())
	if err != nil {
		return nil, fmt.Errorf("field %s: %w", field, err)
	}
	return &d, nil
}

func stamp(field, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() < 2015 || t.Year() > 2100 {
		return time.Time{}, fmt.Errorf("field %s: %q is no time such as 2026-09-01T03:12:44Z", field, short(text))
	}
	return t.UTC(), nil
}

func short(s string) string {
	if len(s) > 40 {
		s = s[:40] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}

func hosts(names ...string) []string {
	var out []string
	seen := map[string]bool{"": true}
	for _, n := range names {
		if !seen[n] && !mail.MatchString(n) {
			out = append(out, n)
		}
		seen[n] = true
	}
	return out
}

var mail = regexp.MustCompile(`[^\s"@<>]+@[^\s"@<>]+`)

// masked hides e-mail addresses.
func masked(s string) string { return mail.ReplaceAllString(s, "[e-mail]") }

var described = regexp.MustCompile(`^([A-Za-z0-9 ]+?) \((\d+) ?GB(?: [A-Za-z0-9]+)?\)$`)

// model is a GPU description in catalogue words: "H100 (80 GB SXM5)" is an H100, and memory
// stays where one name has two sizes.
func model(description string) string {
	m := described.FindStringSubmatch(description)
	if m == nil {
		return description
	}
	switch name := strings.TrimPrefix(m[1], "Tesla "); name {
	case "A100", "V100":
		return name + " " + m[2] + "GB"
	default:
		return name
	}
}
