package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

func TestMain(m *testing.M) { localtest.Main(m) }

const patience = 30 * time.Second

type rig struct {
	*testing.T
	nc *nats.Conn
	js jetstream.JetStream
}

func newRig(t *testing.T) rig {
	t.Helper()
	nc, err := localtest.Fresh(t).ConnectNATS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), js, 1); err != nil {
		t.Fatal(err)
	}
	return rig{t, nc, js}
}

// publish puts a body on the stream of invoices under the headers of a right event.
func (r rig) publish(name, body string) {
	r.Helper()
	e, err := event.New(event.TypeBillingInvoice, "test", name, "1", time.Unix(1, 0), nil)
	if err != nil {
		r.Fatal(err)
	}
	if _, err := r.js.PublishMsg(r.Context(), &nats.Msg{Subject: "raw.billing.invoice", Header: e.Headers(), Data: []byte(body)}); err != nil {
		r.Fatal(err)
	}
}

func (r rig) letters() []bus.DeadLetter {
	r.Helper()
	s, err := r.js.Stream(r.Context(), bus.Dead)
	if err != nil {
		r.Fatal(err)
	}
	var out []bus.DeadLetter
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(r.Context(), seq)
		if err != nil {
			r.Fatal(err)
		}
		var l bus.DeadLetter
		if err := json.Unmarshal(m.Data, &l); err != nil {
			r.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// left is what the consumer has not settled.
func (r rig) left(durable string) (pending uint64, unacknowledged int) {
	r.Helper()
	c, err := r.js.Consumer(r.Context(), bus.RawBilling, durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 1, 0 // nobody has begun
	}
	if err != nil {
		r.Fatal(err)
	}
	return c.CachedInfo().NumPending, c.CachedInfo().NumAckPending
}

// count counts the server's notices of one kind about this stream's consumers.
func (r rig) count(notice string) *atomic.Int64 {
	r.Helper()
	n := new(atomic.Int64)
	_, err := r.nc.Subscribe("$JS.EVENT.ADVISORY.CONSUMER."+notice+"."+bus.RawBilling+".*", func(*nats.Msg) { n.Add(1) })
	if err != nil {
		r.Fatal(err)
	}
	return n
}

func (r rig) eventually(what string, done func() bool) {
	r.Helper()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-deadline:
			r.Fatalf("it never came to pass that %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// book stores lines as a processor would, and notes which messages it was given.
type book struct {
	mu    sync.Mutex
	lines map[string]money.Decimal
	given []uint64
	fail  func(d Delivered) error
}

func (b *book) handle(_ context.Context, batch []Delivered) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := make([]error, len(batch))
	for i, d := range batch {
		b.given = append(b.given, d.Sequence)
		var line struct {
			Line string
			Cost money.Decimal
		}
		if errs[i] = Permanent(d.Decode(&line)); errs[i] != nil {
			continue
		}
		if b.fail != nil {
			if errs[i] = b.fail(d); errs[i] != nil {
				continue
			}
		}
		b.lines[line.Line] = line.Cost
	}
	return errs
}

func (b *book) total() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sum money.Decimal
	for _, c := range b.lines {
		sum = sum.Add(c)
	}
	return fmt.Sprintf("%d lines, %s", len(b.lines), sum.StringFixed(2))
}

func (b *book) order() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Trim(fmt.Sprint(b.given), "[]")
}

func case046(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "046.json"))
	if err != nil {
		t.Fatal(err)
	}
	var in struct{ Messages []struct{ Body string } }
	if err := json.Unmarshal(text, &in); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range in.Messages {
		out = append(out, m.Body)
	}
	return out
}

// Handed case 046: content that can never parse is put aside at its first try, with its
// content; what is behind it goes on.
func TestPoisonIsPutAside(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	terminated, exhausted := r.count("MSG_TERMINATED"), r.count("MAX_DELIVERIES")
	bodies := case046(t)
	for i, b := range bodies {
		r.publish(fmt.Sprint(i), b)
	}
	b := &book{lines: map[string]money.Decimal{}}
	c := Consumer{Stream: bus.RawBilling, Durable: "d", Subjects: []string{"raw.billing.invoice"}, Handle: b.handle}
	if err := Drain(t.Context(), r.js, c, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got, want := b.total(), "3 lines, 8.00"; got != want {
		t.Errorf("stored %s, want %s", got, want)
	}
	if got, want := b.order(), "1 3 4"; got != want { // 2 is no event: the handler never sees it
		t.Errorf("handled %s, want %s", got, want)
	}
	letters := r.letters()
	if len(letters) != 1 || letters[0].Sequence != 2 || string(letters[0].Raw) != bodies[1] || letters[0].Tries != 1 || letters[0].Refused != "d" {
		t.Errorf("put aside: %+v", letters)
	}
	r.eventually("the server says it was terminated", func() bool { return terminated.Load() == 1 })
	if n := exhausted.Load(); n != 0 {
		t.Errorf("%d notices of exhausted tries", n)
	}
	if pending, open := r.left("d"); pending != 0 || open != 0 {
		t.Errorf("left: %d pending, %d unacknowledged", pending, open)
	}
}

// The other way: an event that might succeed later is tried a set number of times.
func TestFailingEventIsTriedAndThenPutAside(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, body := range []string{`{"line":"A","cost":"1.00"}`, `{"line":"B","cost":"2.00"}`, `{"line":"C","cost":"3.00"}`, `{"line":"D","cost":"4.00"}`} {
		r.publish(fmt.Sprint(i), body)
	}
	b := &book{lines: map[string]money.Decimal{}, fail: func(d Delivered) error {
		if d.Sequence == 2 {
			return fmt.Errorf("try %d: the store is full", d.Tries)
		}
		return nil
	}}
	c := Consumer{
		Stream: bus.RawBilling, Durable: "d", Subjects: []string{"raw.billing.invoice"}, Handle: b.handle, MaxDeliver: 3,
		Backoff: []time.Duration{10 * time.Millisecond},
	}
	if err := Drain(t.Context(), r.js, c, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got, want := b.total(), "3 lines, 8.00"; got != want {
		t.Errorf("stored %s, want %s", got, want)
	}
	if n := strings.Count(b.order(), "2"); n != 3 {
		t.Errorf("message 2 was tried %d times (%s), want 3", n, b.order())
	}
	letters := r.letters()
	if len(letters) != 1 || letters[0].Tries != 3 || letters[0].Reason != "try 3: the store is full" || string(letters[0].Data) != `{"line":"B","cost":"2.00"}` {
		t.Errorf("put aside: %+v", letters)
	}
}

// A processor that dies between storing and acknowledging gets the events again; none is lost.
func TestUnsettledEventsComeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 10 {
		r.publish(fmt.Sprint(i), fmt.Sprintf(`{"line":"L%d","cost":"1.00"}`, i))
	}
	b := &book{lines: map[string]money.Decimal{}}
	ctx, cancel := context.WithCancel(t.Context())
	var died atomic.Bool
	c := Consumer{
		Stream: bus.RawBilling, Durable: "d", Subjects: []string{"raw.billing.invoice"}, Batch: 4,
		Handle: func(ctx context.Context, batch []Delivered) []error {
			errs := b.handle(ctx, batch)
			if !died.Swap(true) {
				cancel()
				for i := range errs {
					errs[i] = errors.New("died after storing")
				}
			}
			return errs
		},
	}
	if err := Run(ctx, r.js, c, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatalf("stopping is no error: %v", err)
	}
	if err := Drain(t.Context(), r.js, c, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got, want := b.total(), "10 lines, 10.00"; got != want {
		t.Errorf("stored %s, want %s", got, want)
	}
	if n := len(strings.Fields(b.order())); n != 14 {
		t.Errorf("handled %d events (%s), want the first four twice", n, b.order())
	}
	if len(r.letters()) != 0 {
		t.Errorf("nothing is to be put aside: %+v", r.letters())
	}
}

// Starting and stopping leaves nothing running.
func TestRunStopsClean(t *testing.T) {
	r := newRig(t)
	c := Consumer{Stream: bus.RawBilling, Durable: "d", Handle: func(context.Context, []Delivered) []error { return nil }}
	before := goleak.IgnoreCurrent()
	for i := range 5 {
		r.publish(fmt.Sprint(i), `{}`)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Run(ctx, r.js, c, slog.New(slog.DiscardHandler)) }()
		if i%2 == 0 {
			r.eventually("the event is handled", func() bool { p, open := r.left("d"); return p == 0 && open == 0 })
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	// The bus in this process has goroutines of its own.
	if err := goleak.Find(before); err != nil && strings.Contains(err.Error(), "processors/runtime.") {
		t.Error(err)
	}
}

func TestBackoffGrowsAndEnds(t *testing.T) {
	t.Parallel()
	got := []time.Duration{Consumer{}.backoff(1), Consumer{}.backoff(2), Consumer{}.backoff(100), Consumer{Backoff: []time.Duration{1, 2}}.backoff(1), Consumer{Backoff: []time.Duration{1, 2}}.backoff(9)}
	if diff := cmp.Diff([]time.Duration{2 * time.Second, 4 * time.Second, time.Minute, 1, 2}, got); diff != "" {
		t.Error(diff)
	}
	if Permanent(nil) != nil {
		t.Error("no error became one")
	}
}
