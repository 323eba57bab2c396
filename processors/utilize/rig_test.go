package utilize

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/migrations"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// rig is a processor on real engines.
type rig struct {
	testing.TB
	db *store.DB
	js jetstream.JetStream
	p  *Processor
}

func newRig(t testing.TB) rig {
	t.Helper()
	engines := localtest.Fresh(t)
	db, err := store.Open(t.Context(), engines.ClickHouseOptions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := migrations.Apply(t.Context(), db.SQL, ""); err != nil {
		t.Fatal(err)
	}
	nc, err := engines.ConnectNATS()
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
	now := time.Now
	p, err := New(Options{
		DB: db, JS: js, Loads: store.NewLoads(now), Now: now, Log: slog.New(slog.DiscardHandler), Pause: -1,
		Every: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return rig{t, db, js, p}
}

func (r rig) publish(events ...event.GPUSamples) {
	r.Helper()
	for _, s := range events {
		e, err := event.New(event.TypeGPUSamples, "test", s.Target+s.At.Format(time.RFC3339Nano)+fmt.Sprint(s.Part), "", s.At, s)
		if err != nil {
			r.Fatal(err)
		}
		if err := bus.Publish(r.Context(), r.js, e); err != nil {
			r.Fatal(err)
		}
	}
}

func (r rig) drain() {
	r.Helper()
	if _, err := r.js.CreateOrUpdateConsumer(r.Context(), bus.RawGPU, jetstream.ConsumerConfig{
		Durable: "utilize", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: 1000, MaxDeliver: -1,
	}); err != nil {
		r.Fatal(err)
	}
	if err := runtime.Drain(r.Context(), r.js, r.p.Consumer(), r.p.Log); err != nil {
		r.Fatal(err)
	}
}

func (r rig) derive() Stats {
	r.Helper()
	s, err := r.p.Derive(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return s
}

func (r rig) exec(query string, args ...any) {
	r.Helper()
	if err := r.db.Exec(r.Context(), query, args...); err != nil {
		r.Fatal(err)
	}
}

// lines runs a query of one string column.
func (r rig) lines(query string, args ...any) []string {
	r.Helper()
	rows, err := r.db.Query(r.Context(), query, args...)
	if err != nil {
		r.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // read only
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			r.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		r.Fatal(err)
	}
	return out
}
