package demo

import (
	"fmt"
	"time"
)

// Names that run through every file of the month.
const (
	issuer   = "Amazon Web Services, Inc."
	currency = "USD"
	region   = "us-east-2"
	zone     = "us-east-2b"

	payerMain, payerLabs = "471000000001", "885000000001"
	accountTrain         = "471000000010"
	accountServe         = "471000000020"
	accountPlatform      = "471000000030"

	projectTrain, projectVision, projectChat = "llm-train", "vision-research", "chat-serving"

	onDemand, spot, savingsPlan = "on_demand", "spot", "savings_plan"
)

// The month, and the days of it for which there is telemetry. Berlin is two hours ahead of
// UTC until the 25th.
var (
	monthStart = time.Date(2026, time.October, 1, 0, 0, 0, 0, time.UTC)
	monthEnd   = time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)

	scrapeStart = october(15, 6, 0)
	scrapeEnd   = october(19, 8, 0)

	weekendStart = october(16, 16, 5) // Friday 18:05 in Berlin
	weekendEnd   = october(19, 7, 0)  // Monday 09:00 in Berlin
)

const hoursOfMonth = 744

func october(day, hour, minute int) time.Time {
	return time.Date(2026, time.October, day, hour, minute, 0, 0, time.UTC)
}

func hour(h int) time.Time { return monthStart.Add(time.Duration(h) * time.Hour) }

// shape is an instance type with its prices per hour.
type shape struct {
	name, gpu       string
	gpus, vcpus     int
	price, planRate units
}

var (
	p5        = shape{"p5.48xlarge", "NVIDIA H100 80GB HBM3", 8, 192, 55_0400 * e4, 38_5280 * e4}
	g6Twelve  = shape{"g6.12xlarge", "NVIDIA L4", 4, 48, 4_6016 * e4, 3_2211 * e4}
	g6Single  = shape{"g6.xlarge", "NVIDIA L4", 1, 4, 8048 * e4, 0}
	g6Double  = shape{"g6.2xlarge", "NVIDIA L4", 1, 8, 9776 * e4, 0}
	m7Control = shape{"m7i.2xlarge", "", 0, 8, 4032 * e4, 0}
	m7Node    = shape{"m7i.xlarge", "", 0, 4, 2016 * e4, 0}
)

// span is a stretch of running time, in seconds since the month began.
type span struct{ from, to int }

func (s span) start() time.Time { return monthStart.Add(time.Duration(s.from) * time.Second) }
func (s span) end() time.Time   { return monthStart.Add(time.Duration(s.to) * time.Second) }

// machine is one instance of the bill.
type machine struct {
	host, id    string
	shape       shape
	pricing     string
	account     string
	accountName string
	project     string
	team        string
	environment string
	disk        units // GB
	runs        []span
}

func (m *machine) holder(resource string) *holder {
	h := &holder{account: m.account, name: m.accountName, zone: zone, resource: resource}
	for _, t := range []pair{{"user_environment", m.environment}, {"user_project", m.project}, {"user_team", m.team}} {
		if t.value != "" {
			h.tags = append(h.tags, t)
		}
	}
	return h
}

// secondsIn returns for how many seconds of hour h the machine ran.
func (m *machine) secondsIn(h int) int {
	total := 0
	for _, r := range m.runs {
		total += max(0, min(r.to, (h+1)*3600)-max(r.from, h*3600))
	}
	return total
}

// fleet returns every machine of the main organisation.
func fleet() []machine {
	whole := []span{{0, hoursOfMonth * 3600}}
	const day = 24 * 3600
	maintenance := []span{{0, 5*day + 8*3600}, {5*day + 20*3600, hoursOfMonth * 3600}}
	reserved := []span{{26*day + 12*3600, 28*day + 12*3600}}
	train := machine{account: accountTrain, accountName: "ml-train", project: projectTrain, team: "pretrain", environment: "prod"}
	vision := machine{account: accountTrain, accountName: "ml-train", project: projectVision, team: "perception", environment: "research"}
	chat := machine{account: accountServe, accountName: "ml-serve", project: projectChat, team: "assistants", environment: "prod"}
	shared := machine{account: accountPlatform, accountName: "platform", team: "platform", environment: "prod"}
	bare := machine{account: accountPlatform, accountName: "platform"}

	var out []machine
	add := func(base machine, host, id string, s shape, pricing string, disk units, runs []span) {
		base.host, base.id, base.shape, base.pricing, base.disk, base.runs = host, id, s, pricing, disk, runs
		out = append(out, base)
	}
	add(train, "trn-06", "i-0d6e41f0a3b206", p5, onDemand, 2000, reserved)
	add(train, "trn-07", "i-0d6e41f0a3b207", p5, onDemand, 2000, whole)
	add(train, "trn-08", "i-0d6e41f0a3b208", p5, savingsPlan, 2000, whole)
	add(vision, "trn-09", "i-0d6e41f0a3b209", p5, savingsPlan, 1000, maintenance)
	add(chat, "srv-01", "i-0c77a0be51c301", g6Twelve, savingsPlan, 500, whole)
	add(chat, "srv-02", "i-0c77a0be51c302", g6Twelve, onDemand, 500, whole)
	chat.environment = "staging"
	add(chat, "srv-03", "i-0c77a0be51c303", g6Single, onDemand, 200, whole)
	add(bare, "dev-01", "i-0a90c4d2e88401", g6Double, onDemand, 500, whole)
	add(shared, "ctl-01", "i-0a90c4d2e88501", m7Control, onDemand, 100, whole)
	add(shared, "eks-01", "i-0a90c4d2e88601", m7Node, onDemand, 100, whole)
	add(shared, "eks-02", "i-0a90c4d2e88602", m7Node, onDemand, 100, whole)
	return append(out, spotFleet(vision, chat)...)
}

// spotFleet returns the instances that came and went: every other night a p5 for the vision
// sweep, on weekdays a g6 for evaluation. A new instance has a new id.
func spotFleet(vision, chat machine) []machine {
	var out []machine
	tails := []int{1260, 360, 2232, 3240, 792} // seconds of the last hour: 0.35 h, 0.1 h ...
	for d := range 31 {
		if d%2 == 0 {
			from := d*86400 + 19*3600
			m := vision
			m.host, m.id, m.shape, m.pricing = fmt.Sprintf("trn-s%02d", d+1), fmt.Sprintf("i-0e5b77d1c9%02d00", d+1), p5, spot
			m.runs = []span{{from, from + (3+d%3)*3600 + tails[d%len(tails)]}}
			m.runs[0].to = min(m.runs[0].to, hoursOfMonth*3600)
			out = append(out, m)
		}
		if weekday := hour(24 * d).Weekday(); weekday != time.Saturday && weekday != time.Sunday {
			from := d*86400 + 8*3600
			m := chat
			m.host, m.id, m.shape, m.pricing = fmt.Sprintf("srv-s%02d", d+1), fmt.Sprintf("i-0f20b6aa41%02d00", d+1), g6Single, spot
			m.runs = []span{{from, from + 9*3600 + tails[(d+2)%len(tails)]}}
			out = append(out, m)
		}
	}
	return out
}
