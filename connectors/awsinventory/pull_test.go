package awsinventory

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi/awstest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// All of a recorded answer, over two pages: a host with its names and tags, spot, a Capacity
// Block, a Local Zone, one that has ended, one that has not begun.
func TestRecordedAnswer(t *testing.T) {
	t.Parallel()
	s := awstest.New(t, recorded(t))
	c := source(t, s, nil)
	var k, again taker
	cur, err := c.Pull(t.Context(), nil, &k)
	must(t, err)
	got := pretty(t, k.runs(t))
	if *update {
		must(t, os.WriteFile("testdata/runs.golden.json", []byte(got), 0o600))
	}
	if want := file(t, "runs.golden.json"); got != want {
		t.Errorf("runs differ from testdata/runs.golden.json:\n%s", got)
	}
	if got := fmt.Sprint(k.polls(t)); got != "[111122223333/eu-central-1 0 111122223333/us-east-1 4]" {
		t.Errorf("polls %s", got)
	}
	for _, call := range s.Calls() {
		if call.Action == "DescribeInstances" && (call.Form.Get("Filter.1.Name") != "instance-type" || !strings.Contains(call.Form.Encode(), "p5.%2A")) {
			t.Errorf("asked for %s", call.Form.Encode())
		}
	}
	if _, err := c.Pull(t.Context(), nil, &again); err != nil || !slices.Equal(k.ids(), again.ids()) {
		t.Errorf("after a crash %v, %v", again.ids(), err)
	}
	for _, e := range k.events {
		if strings.Contains(string(e.Data), awstest.SecretKey) {
			t.Errorf("%s holds the secret", e.Type)
		}
	}
	c.now = func() time.Time { return noon.Add(time.Minute) }
	var later taker
	_, err = c.Pull(t.Context(), cur, &later)
	must(t, err)
	if got := fmt.Sprint(len(later.runs(t)), later.polls(t)); got != "0 [111122223333/us-east-1 4]" {
		t.Errorf("a minute later, with nothing new and the empty region at rest: %s", got)
	}
}

func TestAllInstancesAreNotFiltered(t *testing.T) {
	t.Parallel()
	s := awstest.New(t, recorded(t))
	c := source(t, s, func(c *Config) { c.AllInstances, c.Regions = true, []string{"us-east-1"} })
	_, err := c.Pull(t.Context(), nil, &taker{})
	must(t, err)
	for _, call := range s.Calls() {
		if call.Form.Has("Filter.1.Name") || call.Action == "DescribeRegions" {
			t.Errorf("asked %s", call.Form.Encode())
		}
	}
}

func TestAccountsAreAskedByTheirRoles(t *testing.T) {
	t.Parallel()
	other := Account{RoleARN: "arn:aws:iam::222233334444:role/idlewatt", ExternalID: "ext"}
	s := awstest.New(t, func(c awstest.Call) awstest.Answer {
		if c.Action == "DescribeRegions" {
			return regions("us-east-1")
		}
		return instances(c.Account, machine{id: "i-" + c.Account, kind: "p5.48xlarge", state: "running", launch: noon})
	})
	s.Roles[other.RoleARN] = "ext"
	own := Account{RoleARN: "arn:aws:iam::" + awstest.Own + ":role/self"}
	for _, x := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Accounts = []Account{other, own} }, "[111122223333/us-east-1 1 222233334444/us-east-1 1]"},
		{func(c *Config) { c.Accounts, c.OwnAccount = []Account{other}, false }, "[222233334444/us-east-1 1]"},
	} {
		var k taker
		_, err := source(t, s, x.change).Pull(t.Context(), nil, &k)
		must(t, err)
		if got := fmt.Sprint(k.polls(t)); got != x.want {
			t.Errorf("polls %s, want %s", got, x.want)
		}
		for _, r := range k.runs(t) {
			if r.ResourceID != "i-"+r.Account {
				t.Errorf("%s told of account %s", r.ResourceID, r.Account)
			}
		}
	}
	// A role that is refused costs its account only, and is tried again after an hour.
	s.Roles[other.RoleARN] = "changed"
	c := source(t, s, func(c *Config) { c.Accounts = []Account{other} })
	var k taker
	_, err := c.Pull(t.Context(), nil, &k)
	if err == nil || connectors.IsPermanent(err) || !strings.Contains(err.Error(), "sts:AssumeRole on "+other.RoleARN) {
		t.Errorf("got %v", err)
	}
	for minutes, failing := range map[int]bool{1: false, 61: true} {
		c.now = func() time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
		if _, err := c.Pull(t.Context(), k.kept, &taker{}); (err != nil) != failing {
			t.Errorf("after %d minutes: %v", minutes, err)
		}
	}
}

func TestRegionThatFailsCostsItsRegion(t *testing.T) {
	t.Parallel()
	var refuse map[string]awstest.Answer
	s := awstest.New(t, func(c awstest.Call) awstest.Answer {
		if c.Action == "DescribeRegions" {
			return regions("us-east-1", "eu-west-1", "ap-south-1")
		}
		if a, ok := refuse[c.Region]; ok {
			return a
		}
		return instances(c.Account, machine{id: "i-" + c.Region, kind: "p5.48xlarge", state: "running", launch: noon})
	})
	denied := awstest.EC2Error(403, "UnauthorizedOperation", "with an explicit deny in a service control policy")
	busy := awstest.EC2Error(503, "RequestLimitExceeded", "Request limit exceeded.")
	for _, x := range []struct {
		name             string
		refuse           map[string]awstest.Answer
		polls            int
		permanent, after bool
		want             string // empty: no error
	}{
		{"one is denied", map[string]awstest.Answer{"eu-west-1": denied}, 2, false, false, "ec2:DescribeInstances in account 111122223333, eu-west-1"},
		{"one is busy", map[string]awstest.Answer{"eu-west-1": busy}, 2, false, true, "RequestLimitExceeded"},
		{"one is broken", map[string]awstest.Answer{"eu-west-1": {Status: 200, Body: "<html"}}, 2, false, false, "eu-west-1"},
		{"one is not enabled", map[string]awstest.Answer{"eu-west-1": awstest.EC2Error(400, "OptInRequired", "no")}, 2, false, false, ""},
		{"all are denied", map[string]awstest.Answer{"eu-west-1": denied, "us-east-1": denied, "ap-south-1": denied}, 0, true, false, "policy.json"},
	} {
		refuse = x.refuse
		c := source(t, s, nil)
		var k taker
		_, err := c.Pull(t.Context(), nil, &k)
		_, after := connectors.RetryAfter(err)
		if (err != nil) != (x.want != "") || err != nil && !strings.Contains(err.Error(), x.want) || connectors.IsPermanent(err) != x.permanent || after != x.after {
			t.Errorf("%s: %v", x.name, err)
		}
		if len(k.polls(t)) != x.polls || len(k.runs(t)) != x.polls {
			t.Errorf("%s: polls %v", x.name, k.polls(t))
		}
		if (k.kept != nil) != (err != nil && x.polls > 0) {
			t.Errorf("%s: kept %s", x.name, k.kept)
		}
		if k.kept == nil {
			continue
		}
		refuse = nil // what succeeded is not told again; what was denied rests
		var next taker
		c.now = func() time.Time { return noon.Add(time.Minute) }
		if _, err := c.Pull(t.Context(), k.kept, &next); err != nil {
			t.Errorf("%s: then %v", x.name, err)
		}
		want := 1
		if x.name == "one is denied" {
			want = 0
		}
		if got := len(next.runs(t)); got != want {
			t.Errorf("%s: then %d runs", x.name, got)
		}
	}
}

func TestPagesThatTurnInACircleEnd(t *testing.T) {
	t.Parallel()
	s := awstest.New(t, func(awstest.Call) awstest.Answer {
		return awstest.Answer{Body: "<DescribeInstancesResponse><nextToken>same</nextToken></DescribeInstancesResponse>"}
	})
	var k taker
	_, err := source(t, s, func(c *Config) { c.Regions = []string{"us-east-1"} }).Pull(t.Context(), nil, &k)
	if err == nil || !strings.Contains(err.Error(), "circle") || len(k.events) != 0 {
		t.Errorf("got %v and %d events", err, len(k.events))
	}
}

// What the bus refuses stops the pull; the next one tells it.
func TestRefusedEventStopsThePull(t *testing.T) {
	t.Parallel()
	c := source(t, awstest.New(t, recorded(t)), nil)
	full := errors.New("the bus is full")
	k := taker{fail: full}
	if cur, err := c.Pull(t.Context(), nil, &k); !errors.Is(err, full) || cur != nil || k.kept != nil {
		t.Errorf("got %v, %s, %s", err, cur, k.kept)
	}
}

func TestDoctorSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	answers := map[string]awstest.Answer{}
	s := awstest.New(t, func(c awstest.Call) awstest.Answer {
		if a, ok := answers[c.Action+" "+c.Region]; ok {
			return a
		}
		if c.Action == "DescribeCapacityReservations" {
			return awstest.Answer{Body: `<DescribeCapacityReservationsResponse><capacityReservationSet><item><capacityReservationId>cr-1</capacityReservationId><instanceType>p5.48xlarge</instanceType>` +
				`<totalInstanceCount>4</totalInstanceCount><availableInstanceCount>3</availableInstanceCount></item></capacityReservationSet></DescribeCapacityReservationsResponse>`}
		}
		return recorded(t)(c)
	})
	look := func() string {
		var b strings.Builder
		for _, f := range source(t, s, func(c *Config) { c.Accounts = []Account{{RoleARN: "arn:aws:iam::222233334444:role/x"}} }).Doctor(t.Context()) {
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
		if strings.Contains(got, awstest.SecretKey) {
			t.Errorf("the secret is in\n%s", got)
		}
	}
	has(look(), "ok | identity for account 111122223333", "us-east-1 4", "fail | identity for account 222233334444", "external id",
		"us-east-1: 3 of 4 p5.48xlarge stand empty (cr-1)")
	denied := awstest.EC2Error(403, "UnauthorizedOperation", "no")
	answers["DescribeInstances eu-central-1"], answers["DescribeCapacityReservations us-east-1"] = denied, denied
	has(look(), "warn | ec2:DescribeInstances in account 111122223333: eu-central-1", "us-east-1 4", "warn | ec2:DescribeCapacityReservations")
	answers["DescribeInstances us-east-1"] = denied
	has(look(), "fail | ec2:DescribeInstances in account 111122223333: eu-central-1, us-east-1", "policy.json")
	answers["DescribeRegions us-east-1"] = denied
	has(look(), "fail | ec2:DescribeRegions", "list `regions:`")
}

func TestConfigNamesItsFields(t *testing.T) {
	t.Parallel()
	a := Account{RoleARN: "arn:aws:iam::222233334444:role/x"}
	for want, c := range map[string]Config{
		"regions[1]: us-east-1 stands": {Regions: []string{"us-east-1", "us-east-1"}, OwnAccount: true},
		"regions[0]: ":                 {Regions: []string{"Ohio"}, OwnAccount: true},
		"accounts[0].role_arn: ":       {Accounts: []Account{{RoleARN: "x"}}, OwnAccount: true},
		"accounts[1].role_arn: ":       {Accounts: []Account{a, a}, OwnAccount: true},
		"own_account: ":                {},
	} {
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
