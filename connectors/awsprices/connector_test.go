package awsprices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi/awstest"
	"github.com/idlewatt/idlewatt/schema/event"
)

var noon = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func file(tb testing.TB, name string) string {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	must(tb, err)
	return string(b)
}

// products are the texts of testdata/products.json, as GetProducts wraps them.
func products(tb testing.TB) []string {
	tb.Helper()
	var all []json.RawMessage
	must(tb, json.Unmarshal([]byte(file(tb, "products.json")), &all))
	var out []string
	for _, p := range all {
		out = append(out, string(p))
	}
	return out
}

// market is the fake: it filters products as the price list does, one a page, and has the spot
// prices of the testdata in us-east-1.
type market struct {
	list   []string
	spot   map[string]string // by NextToken
	refuse map[string]awstest.Answer
}

func (m *market) answer(tb testing.TB) func(awstest.Call) awstest.Answer {
	tb.Helper()
	return func(c awstest.Call) awstest.Answer {
		if a, ok := m.refuse[c.Action+" "+c.Region]; ok {
			return a
		}
		switch {
		case c.Action == "GetProducts" && c.Region == "us-east-1":
			return m.products(tb, c.Body)
		case c.Action == "DescribeSpotPriceHistory" && c.Region == "us-east-1":
			return awstest.Answer{Body: m.spot[c.Form.Get("NextToken")]}
		case c.Action == "DescribeSpotPriceHistory":
			return awstest.Answer{Body: "<DescribeSpotPriceHistoryResponse/>"}
		}
		return awstest.EC2Error(400, "InvalidAction", c.Action+" in "+c.Region)
	}
}

func (m *market) products(tb testing.TB, body []byte) awstest.Answer {
	tb.Helper()
	var in struct {
		NextToken string
		Filters   []struct{ Field, Type, Value string }
	}
	must(tb, json.Unmarshal(body, &in))
	var found []string
	for _, text := range m.list {
		var p product
		if json.Unmarshal([]byte(text), &p) != nil {
			found = append(found, text)
			continue
		}
		fits := true
		for _, f := range in.Filters {
			fits = fits && p.Product.Attributes[f.Field] == f.Value && f.Type == "TERM_MATCH"
		}
		if fits {
			found = append(found, text)
		}
	}
	out := map[string]any{"FormatVersion": "aws_v1", "PriceList": []string{}}
	n := len(in.NextToken)
	if n < len(found) {
		out["PriceList"] = found[n : n+1]
	}
	if n+1 < len(found) {
		out["NextToken"] = strings.Repeat("x", n+1)
	}
	b, err := json.Marshal(out)
	must(tb, err)
	return awstest.Answer{Body: string(b)}
}

func sample(tb testing.TB) *market {
	tb.Helper()
	return &market{list: products(tb), spot: map[string]string{"": file(tb, "spot.1.xml"), "page-2": file(tb, "spot.2.xml")}, refuse: map[string]awstest.Answer{}}
}

func source(t *testing.T, s *awstest.Server, change func(*Config)) *connector {
	t.Helper()
	cfg := Factory().NewConfig().(*Config)
	cfg.Config = awsapi.Config{CredentialsFile: awstest.Credentials(t), Endpoint: s.URL}
	cfg.Regions, cfg.InstanceTypes, cfg.OperatingSystems = []string{"us-east-1", "eu-central-1"}, []string{"p5.48xlarge", "g5.12xlarge"}, []string{"Linux", "RHEL"}
	if change != nil {
		change(cfg)
	}
	must(t, cfg.Validate())
	built, err := Factory().New("aws", cfg)
	must(t, err)
	c := built.(*connector)
	c.tune, c.now = awstest.Hasty, func() time.Time { return noon }
	return c
}

// taker keeps what a pull emits, and the cursor that it keeps on its way.
type taker struct {
	events []event.Event
	kept   connectors.Cursor
	fail   error
}

func (k *taker) Event(_ context.Context, e event.Event) error {
	if k.fail != nil {
		return k.fail
	}
	k.events = append(k.events, e)
	return nil
}

func (k *taker) Archive(context.Context, string, io.Reader) (event.Object, error) {
	return event.Object{}, errors.New("there is nothing to archive")
}

func (k *taker) Save(_ context.Context, cur connectors.Cursor) error {
	k.kept = cur
	return nil
}

func (k *taker) Progress(context.Context, string) {}

func (k *taker) say(tb testing.TB) []string {
	tb.Helper()
	var out []string
	for _, e := range k.events {
		var p event.Price
		must(tb, e.Decode(&p))
		out = append(out, sayPrice(p))
	}
	return out
}

func sayPrice(p event.Price) string {
	place := p.Region
	if p.Zone != "" {
		place = p.Zone
	}
	return fmt.Sprintf("%s %s %s %s %s %s from %s", p.PricingModel, place, p.InstanceType, p.System, p.Rate, p.Currency, p.ValidFrom.Format("01-02 15:04"))
}

var whole = []string{
	"on_demand us-east-1 p5.48xlarge Linux 55.04 USD from 09-01 00:00",
	"spot us-east-1b p5.48xlarge Linux 20.1 USD from 09-30 02:11",
	"spot us-east-1c g5.12xlarge RHEL 2.2682 USD from 10-01 05:00",
	"spot us-east-1b p5.48xlarge Linux 21.3456 USD from 10-01 11:20",
	"on_demand eu-central-1 g5.12xlarge Linux 7.0936100001 USD from 10-01 00:00",
}

// Pages, both markets, exact amounts; no Capacity Block price, no reserved price, no system
// that was not asked for; nothing twice.
func TestPricesAreToldOnce(t *testing.T) {
	t.Parallel()
	m := sample(t)
	s := awstest.New(t, m.answer(t))
	c := source(t, s, nil)
	var first, again, same taker
	cur, err := c.Pull(t.Context(), nil, &first)
	must(t, err)
	if got := first.say(t); !slices.Equal(got, whole) {
		t.Errorf("told\n%s", strings.Join(got, "\n"))
	}
	for _, call := range s.Calls() {
		if call.Action == "DescribeSpotPriceHistory" && call.Form.Get("StartTime") != "2026-09-28T12:00:00Z" {
			t.Errorf("first asked from %s", call.Form.Get("StartTime"))
		}
	}
	_, err = c.Pull(t.Context(), nil, &again)
	must(t, err)
	for i, e := range again.events {
		if e.ID != first.events[i].ID {
			t.Errorf("%s has another id after a crash", e.Subject)
		}
	}
	s.Calls()
	next, err := c.Pull(t.Context(), cur, &same)
	must(t, err)
	if len(same.events) != 0 || string(next) != string(cur) {
		t.Errorf("nothing new, and yet %v", same.say(t))
	}
	for _, call := range s.Calls() {
		if call.Action == "GetProducts" || call.Region == "us-east-1" && call.Form.Get("StartTime") != "2026-10-01T05:20:03Z" {
			t.Errorf("asked %s from %s", call.Action, call.Form.Get("StartTime"))
		}
	}
}

// A day later the price list is read again, and told where it changed. A spot price of one zone
// that comes late is told although another zone's is newer.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	m := sample(t)
	c := source(t, awstest.New(t, m.answer(t)), nil)
	cur, err := c.Pull(t.Context(), nil, &taker{})
	must(t, err)
	c.now = func() time.Time { return noon.Add(24 * time.Hour) }
	m.list[0] = strings.NewReplacer("55.0400000000", "44.0320000000", "2026-09-01T00:00:00Z", "2026-10-02T00:00:00Z").Replace(m.list[0])
	m.spot["page-2"] = strings.ReplaceAll(m.spot["page-2"], "2026-10-01T05:00:00.000Z", "2026-10-01T06:00:00.000Z")
	var k taker
	_, err = c.Pull(t.Context(), cur, &k)
	must(t, err)
	want := []string{"on_demand us-east-1 p5.48xlarge Linux 44.032 USD from 10-02 00:00", "spot us-east-1c g5.12xlarge RHEL 2.2682 USD from 10-01 06:00"}
	if got := k.say(t); !slices.Equal(got, want) {
		t.Errorf("told\n%s", strings.Join(got, "\n"))
	}
}

func TestRegionThatFailsCostsItsRegion(t *testing.T) {
	t.Parallel()
	denied := awstest.EC2Error(403, "UnauthorizedOperation", "You are not authorized to perform this operation.")
	noPrices := awstest.Answer{Status: 400, Body: `{"__type":"AccessDeniedException","Message":"User is not authorized to perform: pricing:GetProducts"}`}
	for _, x := range []struct {
		name             string
		refuse           map[string]awstest.Answer
		told             int
		permanent, after bool
		want             string
	}{
		{"no spot in one", map[string]awstest.Answer{"DescribeSpotPriceHistory us-east-1": denied}, 2, false, false, "ec2:DescribeSpotPriceHistory in us-east-1"},
		{"no price list", map[string]awstest.Answer{"GetProducts us-east-1": noPrices}, 3, false, false, "pricing:GetProducts in us-east-1: AccessDeniedException"},
		{"too often", map[string]awstest.Answer{"GetProducts us-east-1": {Status: 400, Body: `{"__type":"ThrottlingException","message":"Rate exceeded"}`}}, 3, false, true, "ThrottlingException"},
		{"nothing", map[string]awstest.Answer{"GetProducts us-east-1": noPrices, "DescribeSpotPriceHistory us-east-1": denied, "DescribeSpotPriceHistory eu-central-1": denied}, 0, true, false, "policy.json"},
	} {
		m := sample(t)
		m.refuse = x.refuse
		var k taker
		_, err := source(t, awstest.New(t, m.answer(t)), nil).Pull(t.Context(), nil, &k)
		_, after := connectors.RetryAfter(err)
		if err == nil || !strings.Contains(err.Error(), x.want) || connectors.IsPermanent(err) != x.permanent || after != x.after || strings.Contains(err.Error(), awstest.SecretKey) {
			t.Errorf("%s: %v", x.name, err)
		}
		if len(k.events) != x.told || (k.kept != nil) != (x.told > 0) {
			t.Errorf("%s: told %v, kept %s", x.name, k.say(t), k.kept)
		}
	}
}

// Products that cannot be read, or that contradict each other, are reported by name; what else
// there is is told.
func TestOddProductsAreReportedAndNotTold(t *testing.T) {
	t.Parallel()
	m := sample(t)
	twin := strings.NewReplacer("EXAMPLESKU000001", "EXAMPLESKU000009", "55.0400000000", "50.0400000000").Replace(m.list[0])
	m.list = append(m.list, twin)
	c := source(t, awstest.New(t, m.answer(t)), func(c *Config) { c.Spot = false })
	var k taker
	_, err := c.Pull(t.Context(), nil, &k)
	if err == nil || !strings.Contains(err.Error(), "price of p5.48xlarge Linux in us-east-1: on 2026-09-01 two prices: 55.04 and 50.04 USD") {
		t.Errorf("got %v", err)
	}
	if got := k.say(t); len(got) != 1 || got[0] != whole[4] {
		t.Errorf("told %v", got)
	}
	if _, err := c.Pull(t.Context(), k.kept, &k); err != nil {
		t.Errorf("reported again on the same day: %v", err)
	}
}

func TestRefusedEventStopsThePull(t *testing.T) {
	t.Parallel()
	full := errors.New("the bus is full")
	k := taker{fail: full}
	cur, err := source(t, awstest.New(t, sample(t).answer(t)), nil).Pull(t.Context(), nil, &k)
	if !errors.Is(err, full) || cur != nil || k.kept != nil || connectors.IsPermanent(err) {
		t.Errorf("got %v, %s, %s", err, cur, k.kept)
	}
}

func TestDoctorSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	m := sample(t)
	c := source(t, awstest.New(t, m.answer(t)), nil)
	look := func() string {
		var b strings.Builder
		for _, f := range c.Doctor(t.Context()) {
			fmt.Fprintf(&b, "%s | %s | %s | %s\n", f.Level, f.What, f.Said, f.Fix)
		}
		return b.String()
	}
	has := func(got string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(got, p) {
				t.Errorf("%q is not in\n%s", p, got)
			}
		}
	}
	has(look(), "account 111122223333", "ok | pricing:GetProducts for us-east-1 | p5.48xlarge costs 55.04 USD an hour",
		"ok | ec2:DescribeSpotPriceHistory in us-east-1", "warn | ec2:DescribeSpotPriceHistory in eu-central-1")
	m.refuse["DescribeSpotPriceHistory us-east-1"] = awstest.EC2Error(403, "UnauthorizedOperation", "no")
	m.list = nil
	has(look(), "warn | pricing:GetProducts for us-east-1", "fail | ec2:DescribeSpotPriceHistory in us-east-1", "policy.json")
}

func TestConfigNamesItsFields(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"regions: is required":           func(c *Config) { c.Regions = nil },
		"regions[0]: ":                   func(c *Config) { c.Regions = []string{"Ohio"} },
		"regions[1]: us-east-1 stands":   func(c *Config) { c.Regions = []string{"us-east-1", "us-east-1"} },
		"regions: China":                 func(c *Config) { c.Regions = []string{"us-east-1", "cn-north-1"} },
		"instance_types[0]: ":            func(c *Config) { c.InstanceTypes = []string{"H100"} },
		"operating_systems: is required": func(c *Config) { c.OperatingSystems = nil },
		"operating_systems[0]: ":         func(c *Config) { c.OperatingSystems = []string{"linux"} },
		"history: ":                      func(c *Config) { c.History = 91 * 24 * time.Hour },
	} {
		c := Factory().NewConfig().(*Config)
		c.Regions = []string{"us-east-1"}
		must(t, c.Validate())
		change(c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if types, err := (&Config{}).types(); err != nil || len(types) < 90 || len(types) != len(slices.Compact(slices.Clone(types))) {
		t.Errorf("%d types, %v", len(types), err)
	}
}
