package alert_test

import (
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/processors/alert"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	r, err := alert.Parse([]byte(idleRule))
	if err != nil {
		t.Fatal(err)
	}
	i := r.Idle[0]
	if i.For != 30*time.Minute || i.MinIdle != 2*time.Hour || i.ClearAfter != 15*time.Minute || i.MinWaste["USD"].String() != "50" || r.Interval != time.Minute {
		t.Errorf("defaults: %+v, interval %s", i, r.Interval)
	}
	r, err = alert.Parse([]byte(channels + "\n  - {name: i, kind: idle_gpu, channel: gpu, for: 45m}"))
	if err != nil || r.Idle[0].MinIdle != 45*time.Minute {
		t.Errorf("a given for is not what counts: %+v, %v", r.Idle, err)
	}
}

func TestConfigInsideALargerFile(t *testing.T) {
	t.Parallel()
	var whole struct {
		Name   string       `yaml:"name"`
		Alerts alert.Config `yaml:"alerts"`
	}
	text := "name: x\nalerts:" + strings.ReplaceAll(idleRule, "\n", "\n  ")
	if err := yaml.UnmarshalWithOptions([]byte(text), &whole, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	r, err := whole.Alerts.Compile(nil)
	if err != nil || len(r.Idle) != 1 || r.Channels["gpu"].Slack.WebhookURLEnv != "HOOK" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := (alert.Config{}).Compile(nil); err != nil || len(r.Idle) != 0 {
		t.Errorf("no alert part: %+v, %v", r, err)
	}
}

const wrongConfig = `time_zone: Europe/Berln
intervall: 5s
channels:
  gpu: {slack: {webhook_url: x}}
  mail: {smtp: {}}
rules:
  - name: a
    kind: idle_gpu
    channel: gpus
    for: soon
    min_waste: 50 dollars
    calender: {days: [sat]}
    calendar: {days: [sat, caturday], from: "25:00", time_zone: Mars}
    exempt: [{}, {nod: x}]
  - {name: a, kind: budget, channel: gpu, scope: {proj: x}, amount: -3, currency: usd, period: week, cost: net, thresholds: [0, 50, 50, x]}
  - {kind: budgets}
  - {name: c, kind: budget, channel: gpu, amount: 1_000, currency: USD, thresholds: }
`

var wrongConfigSays = []string{
	"line 2: intervall: unknown field",
	`time_zone: unknown time zone "Europe/Berln"`,
	"line 4: channels.gpu.slack.webhook_url: unknown field",
	"channels.gpu.slack: webhook_url_env or webhook_url_file is required",
	"line 5: channels.mail.smtp: unknown field",
	"channels.mail: slack is required",
	"line 12: rules[0].calender: unknown field",
	`rules[0].channel: "gpus" is none of the channels (gpu)`,
	`line 10: rules[0].for: "soon" is no duration`,
	`rules[0].min_waste: "50 dollars" names no currency`,
	`rules[0].calendar.days: unknown day "caturday"`,
	"rules[0].calendar.from: want a time",
	`rules[0].calendar.time_zone: unknown time zone "Mars"`,
	"line 14: rules[0].exempt[0]: want a pattern",
	"line 14: rules[0].exempt[1].nod: unknown field",
	`rules[1].name: "a" is used by another rule`,
	"rules[1].scope.proj: unknown dimension",
	`rules[1].amount: want a number above zero, got "-3"`,
	`rules[1].currency: want a code such as USD, got "usd"`,
	`rules[1].period: unknown period "week"`,
	`rules[1].cost: unknown cost "net"`,
	`rules[1].thresholds: "0" is no percent`,
	"rules[1].thresholds: 50 stands twice",
	`rules[1].thresholds: "x" is no percent`,
	`rules[2].kind: unknown kind "budgets"`,
	"rules[3].scope: is required",
	"rules[3].thresholds: has no value",
	`rules[3].amount: want a number above zero, got "1_000"`,
}

// Every mistake is named with its field and line, all at once.
func TestEveryMistakeIsNamed(t *testing.T) {
	t.Parallel()
	_, err := alert.Parse([]byte(wrongConfig))
	if err == nil {
		t.Fatal("no error")
	}
	var missing []string
	for _, w := range wrongConfigSays {
		if !strings.Contains(err.Error(), w) {
			missing = append(missing, w)
		}
	}
	if len(missing) > 0 {
		t.Errorf("not named:\n%s\n\ngot:\n%v", strings.Join(missing, "\n"), err)
	}
}

func TestCalendar(t *testing.T) {
	t.Parallel()
	r, err := alert.Parse([]byte(channels + `
  - {name: weekends, kind: idle_gpu, channel: gpu, calendar: {days: weekends}}
  - {name: nights, kind: idle_gpu, channel: gpu, calendar: {time_zone: America/New_York, days: weekdays, from: "20:00", to: "06:00"}}`))
	if err != nil {
		t.Fatal(err)
	}
	weekends, nights := r.Idle[0].Calendar, r.Idle[1].Calendar
	got := map[string]bool{}
	for _, s := range []string{"2026-05-08T21:59:00Z", "2026-05-08T22:00:00Z", "2026-05-10T21:59:00Z", "2026-05-10T22:00:00Z"} {
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		got["weekends "+s] = weekends.Contains(at)
	}
	for _, s := range []string{"2026-05-08T23:59:00Z", "2026-05-09T00:00:00Z", "2026-05-09T09:59:00Z", "2026-05-09T10:00:00Z", "2026-05-11T03:00:00Z"} {
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		got["nights "+s] = nights.Contains(at)
	}
	want := map[string]bool{
		"weekends 2026-05-08T21:59:00Z": false, "weekends 2026-05-08T22:00:00Z": true,
		"weekends 2026-05-10T21:59:00Z": true, "weekends 2026-05-10T22:00:00Z": false,
		"nights 2026-05-08T23:59:00Z": false, "nights 2026-05-09T00:00:00Z": true, "nights 2026-05-09T09:59:00Z": true,
		"nights 2026-05-09T10:00:00Z": false, "nights 2026-05-11T03:00:00Z": false, // Sunday night began on a Sunday
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
