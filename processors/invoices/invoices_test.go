package invoices

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/migrations"
	"github.com/idlewatt/idlewatt/schema/money"
)

func TestMain(m *testing.M) { localtest.Main(m) }

const patience = 30 * time.Second

type rig struct {
	*testing.T
	db *store.DB
	js jetstream.JetStream
	c  runtime.Consumer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	e := localtest.Fresh(t)
	db, err := store.Open(t.Context(), e.ClickHouseOptions)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, migrations.Apply(t.Context(), db.SQL, ""))
	nc, err := e.ConnectNATS()
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, bus.Ensure(t.Context(), js, 1))
	c := Consumer(db)
	c.Backoff = []time.Duration{20 * time.Millisecond}
	return &rig{t, db, js, c}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string, v any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	must(t, json.Unmarshal(text, v))
}

// invoice is an event that bills one line; id is its natural key with its version.
func (r *rig) invoice(id, line, cost string) event.Event {
	r.Helper()
	inv := map[string]any{
		"InvoiceIssuerName": "Example", "BillingAccountId": "1", "InvoiceId": line, "BillingPeriodStart": "2025-05-01T00:00:00Z",
		"BillingPeriodEnd": "2025-06-01T00:00:00Z", "BillingCurrency": "USD", "BilledCost": cost, "source": "test",
	}
	e, err := event.New(event.TypeBillingInvoice, "test", id, "1", time.Unix(1, 0), inv)
	must(r, err)
	return e
}

func (r *rig) publish(e event.Event) {
	r.Helper()
	must(r, bus.Publish(r.Context(), r.js, e))
}

func (r *rig) drain() {
	r.Helper()
	must(r, runtime.Drain(r.Context(), r.js, r.c, slog.New(slog.DiscardHandler)))
}

// stored is how many invoices there are and what they add up to.
func (r *rig) stored() string {
	r.Helper()
	var n uint64
	var sum money.Decimal
	must(r, r.db.QueryRow(r.Context(), "SELECT count(), sum(BilledCost) FROM idlewatt.invoices").Scan(&n, &sum))
	return fmt.Sprintf("%d, %s", n, sum.StringFixed(2))
}

func (r *rig) want(stored string) {
	r.Helper()
	if got := r.stored(); got != stored {
		r.Errorf("stored %s, want %s", got, stored)
	}
	c, err := r.js.Consumer(r.Context(), bus.RawBilling, r.c.Durable)
	must(r, err)
	if i := c.CachedInfo(); i.NumPending != 0 || i.NumAckPending != 0 {
		r.Errorf("left: %d pending, %d unacknowledged", i.NumPending, i.NumAckPending)
	}
}

func (r *rig) letters() []bus.DeadLetter {
	r.Helper()
	s, err := r.js.Stream(r.Context(), bus.Dead)
	must(r, err)
	var out []bus.DeadLetter
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(r.Context(), seq)
		must(r, err)
		var l bus.DeadLetter
		must(r, json.Unmarshal(m.Data, &l))
		out = append(out, l)
	}
	return out
}

// Handed case 042, its window of 120 s made 0.6 s: a refused duplicate does not renew the
// window, so the same event is stored by the stream again and again, and in the table once.
func TestDuplicateWindowRunsOut(t *testing.T) {
	t.Parallel()
	var in struct {
		Publishes []struct{ T int }
		Each      map[string]string
	}
	read(t, "042.json", &in)
	r := newRig(t)
	s, err := r.js.Stream(t.Context(), bus.RawBilling)
	must(t, err)
	cfg := s.CachedInfo().Config
	cfg.Duplicates = 600 * time.Millisecond
	_, err = r.js.UpdateStream(t.Context(), cfg)
	must(t, err)
	msg, err := bus.Message(r.invoice(in.Each["Nats-Msg-Id"], "line-1", in.Each["cost"]))
	must(t, err)
	// Sent without a pause until the server has taken it as often as the case says.
	stored, refused := 0, 0
	for deadline := time.Now().Add(patience); stored < 3; {
		ack, err := r.js.PublishMsg(t.Context(), msg)
		must(t, err)
		if ack.Duplicate {
			refused++
		} else if stored++; ack.Sequence != uint64(stored) {
			t.Fatalf("stored as %d, want %d", ack.Sequence, stored)
		}
		if time.Now().After(deadline) {
			t.Fatal("the window did not run out")
		}
	}
	if refused < 2 {
		t.Errorf("only %d copies were refused", refused)
	}
	r.drain()
	r.want("1, 5.00")
}

// Handed case 044: events that come again in a batch cut in another way are stored once.
func TestDeliveredTwiceIsStoredOnce(t *testing.T) {
	t.Parallel()
	var in struct {
		Deliveries []struct {
			Batch, Line, Cost string
			Seq               uint64
		}
	}
	read(t, "044.json", &in)
	r := newRig(t)
	for seq := range uint64(5) { // so that sequences are the case's own
		r.publish(r.invoice(fmt.Sprint("before", seq), "before", "0"))
	}
	seen := map[uint64]bool{}
	for _, d := range in.Deliveries {
		if !seen[d.Seq] {
			r.publish(r.invoice(d.Line, d.Line, d.Cost))
		}
		seen[d.Seq] = true
	}
	// The first answer to 6 and 7 is lost after they are stored; 7 comes again beside 8.
	handle, batches := r.c.Handle, [][]uint64{}
	r.c.Batch = 2
	r.c.Handle = func(ctx context.Context, batch []runtime.Delivered) []error {
		errs := handle(ctx, batch)
		var seqs []uint64
		for i, d := range batch {
			seqs = append(seqs, d.Sequence)
			if (d.Sequence == 6 || d.Sequence == 7) && d.Tries == 1 && errs[i] == nil {
				errs[i] = context.DeadlineExceeded
			}
		}
		batches = append(batches, seqs)
		return errs
	}
	r.drain()
	t.Log("batches:", batches)
	r.want("4, 9.00") // "before" and the case's three
}

// Handed case 058: an event is acknowledged when its row is stored; one bad row neither
// loses nor blocks the others.
func TestBadRowIsPutAside(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text, err := os.ReadFile(filepath.Join("testdata", "058.jsonl"))
	must(t, err)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var l struct{ Line, Cost string }
		must(t, json.Unmarshal(lines.Bytes(), &l))
		r.publish(r.invoice(l.Line, l.Line, l.Cost))
	}
	// First the store is away: nothing is acknowledged, nothing is put aside.
	away, err := store.Open(t.Context(), localtest.Start(t).ClickHouseOptions)
	must(t, err)
	must(t, away.Close())
	down, whole := Consumer(away), Consumer(r.db)
	r.c.Backoff = []time.Duration{20 * time.Millisecond}
	tries := 0
	r.c.Handle = func(ctx context.Context, batch []runtime.Delivered) []error {
		if tries++; tries <= 2 {
			return down.Handle(ctx, batch)
		}
		return whole.Handle(ctx, batch)
	}
	r.drain()
	if tries < 3 {
		t.Errorf("the store was asked %d times", tries)
	}
	r.want("3, 6.00")
	letters := r.letters()
	if len(letters) != 1 || letters[0].Sequence != 3 || !bytes.Contains(letters[0].Data, []byte(`"not-a-number"`)) {
		t.Errorf("put aside: %+v", letters)
	}
}

// Handed case 057, part a: an insert that the store refuses for too many parts is tried again
// later, in one batch, without loss and without doubles.
func TestTooManyPartsIsTriedAgain(t *testing.T) {
	t.Parallel()
	var in struct {
		A struct {
			Settings map[string]int `json:"table_settings"`
			Rows     []int          `json:"single_row_inserts"`
		} `json:"part_a"`
	}
	read(t, "057.json", &in)
	r := newRig(t)
	ctx := t.Context()
	must(t, r.db.Exec(ctx, fmt.Sprintf("ALTER TABLE idlewatt_store.invoices MODIFY SETTING parts_to_throw_insert = %d, parts_to_delay_insert = 0", in.A.Settings["parts_to_throw_insert"])))
	must(t, r.db.Exec(ctx, "SYSTEM STOP MERGES idlewatt_store.invoices"))
	handle, refused := r.c.Handle, 0
	r.c.Batch, r.c.MaxDeliver = 1, 100
	r.c.Handle = func(ctx context.Context, b []runtime.Delivered) []error {
		errs := handle(ctx, b)
		if errs[0] != nil {
			if !store.Temporary(errs[0]) {
				t.Errorf("refused for good: %v", errs[0])
			}
			if refused++; refused >= 3 {
				must(t, r.db.Exec(ctx, "SYSTEM START MERGES idlewatt_store.invoices"))
				must(t, r.db.Exec(ctx, "OPTIMIZE TABLE idlewatt_store.invoices FINAL"))
			}
		}
		return errs
	}
	for _, n := range in.A.Rows {
		r.publish(r.invoice(fmt.Sprint(n), fmt.Sprint("row", n), "1"))
	}
	r.drain()
	if refused < 3 {
		t.Errorf("%d inserts were refused, want at least 3", refused)
	}
	r.want("6, 6.00")
	if len(r.letters()) != 0 {
		t.Errorf("put aside: %+v", r.letters())
	}
}

// The same six events as one batch are one insert and one part.
func TestBatchIsOnePart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for n := range 6 {
		r.publish(r.invoice(fmt.Sprint(n), fmt.Sprint("row", n), "1"))
	}
	must(t, r.db.Exec(t.Context(), "SYSTEM STOP MERGES idlewatt_store.invoices"))
	r.drain()
	r.want("6, 6.00")
	var parts uint64
	must(t, r.db.QueryRow(t.Context(), "SELECT count() FROM system.parts WHERE database = 'idlewatt_store' AND table = 'invoices' AND active").Scan(&parts))
	if parts != 1 {
		t.Errorf("%d parts", parts)
	}
}

// The newest total of an invoice replaces the earlier one, and an old one that comes again
// does not win.
func TestNewestTotalWins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(r.invoice("v1", "INV-1", "10.00"))
	r.publish(r.invoice("v2", "INV-1", "12.00"))
	first := true
	handle := r.c.Handle
	r.c.Batch = 1
	r.c.Handle = func(ctx context.Context, b []runtime.Delivered) []error {
		errs := handle(ctx, b)
		if b[0].Sequence == 1 && first { // stored, but the answer is lost: it comes after v2
			first = false
			errs[0] = nats.ErrTimeout
		}
		return errs
	}
	r.drain()
	r.want("1, 12.00")
}

func TestInvoicesThatCannotBe(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, change := range []func(map[string]any){
		func(m map[string]any) { m["BillingAccountId"] = "" },
		func(m map[string]any) { m["BillingCurrency"] = "DOLLARS" },
		func(m map[string]any) { delete(m, "BillingPeriodStart") },
		func(m map[string]any) { m["BilledCost"] = "1e30" },
		func(m map[string]any) { m["BilledCost"] = "0.1234567890123456789" },
	} {
		var m map[string]any
		must(t, json.Unmarshal(r.invoice("x", "x", "1").Data, &m))
		change(m)
		e, err := event.New(event.TypeBillingInvoice, "test", fmt.Sprint("bad", i), "1", time.Unix(1, 0), m)
		must(t, err)
		r.publish(e)
	}
	r.drain()
	r.want("0, 0.00")
	if n := len(r.letters()); n != 5 {
		t.Errorf("%d letters, want 5", n)
	}
}
