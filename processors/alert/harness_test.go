package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/processors/alert"
	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// world is a bus of its own, facts and channels that the test sets.
type world struct {
	t     *testing.T
	js    jetstream.JetStream
	facts *fakeFacts
	sent  map[string]*fakeNotifier
	rules alert.Rules
	*alert.Evaluator
}

func newWorld(t *testing.T, rules string) *world {
	t.Helper()
	compiled, err := alert.Parse([]byte(rules))
	if err != nil {
		t.Fatalf("rules: %v", err)
	}
	w := &world{t: t, facts: &fakeFacts{}, sent: map[string]*fakeNotifier{}, rules: compiled}
	for name := range compiled.Channels {
		w.sent[name] = &fakeNotifier{}
	}
	w.js = newBus(t)
	if err := bus.Ensure(t.Context(), w.js, 1); err != nil {
		t.Fatal(err)
	}
	w.restart()
	return w
}

// newBus starts a NATS server of the test's own: the evaluator's bucket has one name.
func newBus(t *testing.T) jetstream.JetStream {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// restart replaces the evaluator by one that knows only what the bus keeps.
func (w *world) restart() {
	w.t.Helper()
	notifiers := map[string]notify.Notifier{}
	for name, n := range w.sent {
		notifiers[name] = n
	}
	e, err := alert.New(w.t.Context(), alert.Options{
		JS: w.js, Facts: w.facts, Rules: w.rules, Notifiers: notifiers, Now: func() time.Time { return friday.Add(3 * time.Hour) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Evaluator = e
}

func (w *world) pass(now time.Time) {
	w.t.Helper()
	if err := w.Evaluate(w.t.Context(), now); err != nil {
		w.t.Fatalf("at %s: %v", now.Format(time.RFC3339), err)
	}
}

// events returns the types of what is on the ALERT stream, in order.
func (w *world) events() []event.Event {
	w.t.Helper()
	c, err := w.js.OrderedConsumer(w.t.Context(), bus.Alert, jetstream.OrderedConsumerConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []event.Event
	for {
		batch, err := c.FetchNoWait(100)
		if err != nil {
			w.t.Fatal(err)
		}
		n := 0
		for m := range batch.Messages() {
			e, err := event.FromMessage(m.Headers(), m.Data())
			if err != nil {
				w.t.Fatal(err)
			}
			out, n = append(out, e), n+1
		}
		if n == 0 {
			return out
		}
	}
}

type fakeFacts struct {
	idle  alert.IdleFacts
	spend func(alert.SpendQuestion) alert.Spend
	fail  error
}

func (f *fakeFacts) set(nodes ...alert.IdleNode) { f.idle.Nodes = nodes }

func (f *fakeFacts) know(node string, until time.Time, state string) {
	if f.idle.Known == nil {
		f.idle.Known = map[string]alert.Known{}
	}
	f.idle.Known[node] = alert.Known{Until: until, State: state}
}

func (f *fakeFacts) Idle(context.Context, time.Time) (alert.IdleFacts, error) { return f.idle, f.fail }
func (f *fakeFacts) Describe(_ context.Context, nodes []alert.IdleNode) error {
	for i := range nodes {
		nodes[i].JobOutcome, nodes[i].JobEnded, nodes[i].JobUser = "COMPLETED", friday, "alice"
	}
	return f.fail
}
func (f *fakeFacts) Spend(_ context.Context, q alert.SpendQuestion) (alert.Spend, error) {
	return f.spend(q), f.fail
}

type fakeNotifier struct {
	mu       sync.Mutex
	messages []notify.Message
	answers  []error
	onSend   func()
}

func (n *fakeNotifier) Send(_ context.Context, m notify.Message) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.answers) > 0 {
		err := n.answers[0]
		n.answers = n.answers[1:]
		if err != nil {
			return err
		}
	}
	n.messages = append(n.messages, m)
	if n.onSend != nil {
		n.onSend()
	}
	return nil
}

func (n *fakeNotifier) headings() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := []string{}
	for _, m := range n.messages {
		out = append(out, m.Heading)
	}
	return out
}

var (
	// friday is 18:05 in Berlin.
	friday   = time.Date(2026, 5, 8, 16, 5, 0, 0, time.UTC)
	errLater = &notify.RetryError{Err: errors.New("busy")}
)

const channels = `
time_zone: Europe/Berlin
channels:
  gpu: {slack: {webhook_url_env: HOOK}}
rules:
`

func amount(s string) *money.Decimal {
	d, _, err := money.Parse(s)
	if err != nil {
		panic(err)
	}
	return &d
}

// idleNode is an on-demand machine, idle since Friday evening, as a pass at now sees it.
func idleNode(name string, now time.Time, cost string) alert.IdleNode {
	engine, power := 0.0, 71.0
	return alert.IdleNode{
		ResourceID: "i-" + name, Node: name, GPUModel: "H100", GPUCount: 8, IdleSince: friday, SeenUntil: now,
		State: "unallocated_idle", Cause: "no_job", CostSoFar: amount(cost), CostPerHour: amount("34.40"), Avoidable: amount("34.40"),
		Currency: "USD", Estimated: true, PricingModel: "on_demand", Project: "llm-train", LastJobID: "4711", Coverage: 0.99,
		EngineMax: &engine, MeanPowerW: &power, Provider: "AWS", Account: "123456789012", Region: "us-east-1",
	}
}

func readJSON(t *testing.T, file string, v any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}
