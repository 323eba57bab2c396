package bus_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

func TestMain(m *testing.M) { localtest.Main(m) }

func open(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := localtest.Fresh(t).ConnectNATS()
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, bus.Ensure(t.Context(), js, 1))
	must(t, bus.Ensure(t.Context(), js, 1)) // every start does it again
	return nc, js
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sized is an event whose message has just so many bytes, headers counted.
func sized(t *testing.T, size int) event.Event {
	t.Helper()
	filled := func(n int) event.Event {
		e, err := event.New(event.TypeGPUSamples, "test", "natural key", "1", time.Unix(1, 0), strings.Repeat("x", n))
		must(t, err)
		return e
	}
	e := filled(0)
	head := (&nats.Msg{Subject: "raw.gpu.samples", Header: e.Headers(), Data: e.Data}).Size()
	return filled(size - head)
}

// Handed case 047: the server's limit covers payload and headers; ours keeps below it, and
// what is over it is refused by us, before the server sees it.
func TestMessagesKeepBelowTheServersLimit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "047.json"))
	must(t, err)
	var in struct {
		Max int64 `json:"max_payload_bytes"`
	}
	must(t, json.Unmarshal(text, &in))
	nc, js := open(t)
	if got := nc.MaxPayload(); got != in.Max {
		t.Fatalf("the server takes %d bytes, the case says %d", got, in.Max)
	}
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: "raw.gpu.samples", Data: make([]byte, in.Max)})
	if err != nil {
		t.Errorf("a payload of exactly the limit, without headers: %v", err)
	}
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: "raw.gpu.samples", Data: make([]byte, in.Max), Header: nats.Header{"Nats-Msg-Id": {"1"}}})
	if !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("the same with a header: %v, want %v", err, nats.ErrMaxPayload)
	}
	if err := bus.Publish(t.Context(), js, sized(t, bus.MaxMessage)); err != nil {
		t.Errorf("our own limit: %v", err)
	}
	if err := bus.Publish(t.Context(), js, sized(t, bus.MaxMessage+1)); !errors.Is(err, bus.ErrNeverAccepted) {
		t.Errorf("one byte more: %v, want %v", err, bus.ErrNeverAccepted)
	}
	if bus.MaxMessage >= in.Max {
		t.Errorf("our limit %d leaves no room below the server's %d", bus.MaxMessage, in.Max)
	}
}

func TestUnknownTypesAreRefused(t *testing.T) {
	t.Parallel()
	e, err := event.New("weather.report", "test", "k", "1", time.Unix(1, 0), 1)
	must(t, err)
	if _, err := bus.Message(e); !errors.Is(err, bus.ErrNeverAccepted) || !strings.Contains(err.Error(), `"weather.report"`) {
		t.Errorf("got %v", err)
	}
}

// Every type has a stream that takes it, and comes back as it was sent.
func TestEventsTravelUnchanged(t *testing.T) {
	t.Parallel()
	_, js := open(t)
	for _, typ := range []string{
		event.TypeBillingObject, event.TypeBillingDelivery, event.TypeBillingInvoice, event.TypeInventoryInstance, event.TypeInventoryPrice,
		event.TypeGPUWrite, event.TypeGPUSamples, event.TypeJobStarted, event.TypeJobPlaced, event.TypeJobCheckpointed, event.TypeJobFinished,
		event.TypeLedgerJobCost, event.TypeLedgerIdleWaste, event.TypeLedgerRestated, event.TypeAlertFiring, event.TypeAlertResolved, event.TypeDead,
	} {
		e, err := event.New(typ, "idlewatt/ü", typ+" a key/with. dots>", "1", time.Unix(1, 2).UTC(), map[string]string{"k": "v"})
		must(t, err)
		must(t, bus.Publish(t.Context(), js, e))
		must(t, bus.Publish(t.Context(), js, e)) // a retry: stored once
		subject, _ := bus.Subject(typ)
		name, err := js.StreamNameBySubject(t.Context(), subject)
		must(t, err)
		s, err := js.Stream(t.Context(), name)
		must(t, err)
		m, err := s.GetLastMsgForSubject(t.Context(), subject)
		must(t, err)
		got, err := event.FromMessage(m.Header, m.Data)
		must(t, err)
		if fmt.Sprint(got) != fmt.Sprint(e) {
			t.Errorf("%s: sent %v, got %v", typ, e, got)
		}
	}
	s, err := js.Stream(t.Context(), bus.RawJob)
	must(t, err)
	if n := s.CachedInfo().State.Msgs; n != 4 {
		t.Errorf("%d job events are stored, want 4", n)
	}
}

// A dead letter of whatever size fits a message, says what was cut and is stored once.
func TestDeadLettersFit(t *testing.T) {
	t.Parallel()
	_, js := open(t)
	big := []byte(`"` + strings.Repeat("x", 900_000) + `"`)
	for _, l := range []bus.DeadLetter{
		{Refused: "import", Reason: "json", At: time.Unix(1, 0), Data: json.RawMessage(`{"a":1}`)},
		{Refused: "import", Reason: "raw", At: time.Unix(1, 0), Raw: []byte{0, 1, 2}},
		{Refused: "import", Reason: "big json", At: time.Unix(1, 0), Data: big},
		{Refused: "import", Reason: "big raw", At: time.Unix(1, 0), Raw: big},
	} {
		must(t, bus.PutAside(t.Context(), js, l))
		must(t, bus.PutAside(t.Context(), js, l))
	}
	s, err := js.Stream(t.Context(), bus.Dead)
	must(t, err)
	if n := s.CachedInfo().State.Msgs; n != 4 {
		t.Fatalf("%d letters, want 4", n)
	}
	for seq := uint64(3); seq <= 4; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		must(t, err)
		var l bus.DeadLetter
		must(t, json.Unmarshal(m.Data, &l))
		if len(l.Raw)+l.Cut != len(big) || l.Cut == 0 {
			t.Errorf("letter %d keeps %d bytes and says %d were cut, of %d", seq, len(l.Raw), l.Cut, len(big))
		}
	}
}
