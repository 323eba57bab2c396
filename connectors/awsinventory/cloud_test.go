package awsinventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// machine is one instance of the fake cloud.
type machine struct {
	id, kind, state, reason string
	launch                  time.Time
}

func (m machine) xml() string {
	return fmt.Sprintf(`<item><instanceId>%s</instanceId><instanceState><name>%s</name></instanceState><reason>%s</reason><instanceType>%s</instanceType>`+
		`<launchTime>%s</launchTime><placement><availabilityZone>us-east-1a</availabilityZone></placement><platformDetails>Linux/UNIX</platformDetails></item>`,
		m.id, m.state, m.reason, m.kind, m.launch.UTC().Format(time.RFC3339))
}

func instances(owner string, all ...machine) awstest.Answer {
	var b strings.Builder
	for _, m := range all {
		b.WriteString(m.xml())
	}
	return awstest.Answer{Body: `<DescribeInstancesResponse><reservationSet><item><ownerId>` + owner + `</ownerId><instancesSet>` + b.String() +
		`</instancesSet></item></reservationSet></DescribeInstancesResponse>`}
}

func regions(names ...string) awstest.Answer {
	var b strings.Builder
	for _, n := range names {
		b.WriteString("<item><regionName>" + n + "</regionName><regionEndpoint>ec2." + n + ".amazonaws.com</regionEndpoint><optInStatus>opt-in-not-required</optInStatus></item>")
	}
	return awstest.Answer{Body: "<DescribeRegionsResponse><regionInfo>" + b.String() + "</regionInfo></DescribeRegionsResponse>"}
}

// recorded answers us-east-1 with the two pages of the testdata, and other regions with none.
func recorded(tb testing.TB) func(awstest.Call) awstest.Answer {
	tb.Helper()
	pages := map[string]string{"": file(tb, "us-east-1.1.xml"), "page-2": file(tb, "us-east-1.2.xml")}
	return func(c awstest.Call) awstest.Answer {
		switch {
		case c.Action == "DescribeRegions":
			return regions("us-east-1", "eu-central-1")
		case c.Action == "DescribeInstances" && c.Region == "us-east-1" && c.Account == awstest.Own:
			return awstest.Answer{Body: pages[c.Form.Get("NextToken")]}
		case c.Action == "DescribeInstances":
			return instances(c.Account)
		}
		return awstest.EC2Error(400, "InvalidAction", c.Action)
	}
}

// source builds the connector on a fake; it does not wait, and its clock stands at noon.
func source(t *testing.T, s *awstest.Server, change func(*Config)) *connector {
	t.Helper()
	cfg := &Config{Config: awsapi.Config{Region: "us-east-1", CredentialsFile: awstest.Credentials(t), Endpoint: s.URL}, OwnAccount: true}
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

func (k *taker) runs(tb testing.TB) []event.Instance {
	tb.Helper()
	var out []event.Instance
	for _, e := range k.events {
		if e.Type == event.TypeInventoryInstance {
			var i event.Instance
			must(tb, e.Decode(&i))
			out = append(out, i)
		}
	}
	return out
}

func (k *taker) polls(tb testing.TB) []string {
	tb.Helper()
	var out []string
	for _, e := range k.events {
		if e.Type == event.TypeInventoryPoll {
			var p event.Poll
			must(tb, e.Decode(&p))
			out = append(out, fmt.Sprintf("%s/%s %d", p.Account, p.Region, p.Running))
		}
	}
	return out
}

func (k *taker) ids() []string {
	var out []string
	for _, e := range k.events {
		out = append(out, e.ID)
	}
	return out
}

// say is a run in one line.
func say(i event.Instance) string {
	at := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.Format("15:04:05")
	}
	return fmt.Sprintf("%s %s %s..%s<%s", i.ResourceID, i.PricingModel, i.SeenFrom.Format("15:04:05"), at(i.SeenTo), at(i.EndedBefore))
}

func pretty(tb testing.TB, v any) string {
	tb.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	must(tb, err)
	return string(b) + "\n"
}
