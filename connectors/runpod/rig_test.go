package runpod

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
)

// store is the emitter of a test: bus, archive, kept cursor, and the live lines of each day.
type store struct {
	t       testing.TB
	events  []event.Event
	archive map[string][]byte
	kept    connectors.Cursor
	failAt  int // the n-th event from now is refused; 0 takes all
	live    map[string]delivered
}

type delivered struct {
	version string
	lines   []charge
}

var errRefused = errors.New("the bus does not take it")

func newStore(t testing.TB) *store {
	t.Helper()
	return &store{t: t, archive: map[string][]byte{}, live: map[string]delivered{}}
}

func (s *store) Event(_ context.Context, e event.Event) error {
	if s.failAt > 0 {
		if s.failAt--; s.failAt == 0 {
			return errRefused
		}
	}
	if err := e.Validate(); err != nil {
		s.t.Fatal(err)
	}
	s.events = append(s.events, e)
	if e.Type != event.TypeBillingDelivery {
		return nil
	}
	var d event.BillingDelivery
	must(s.t, e.Decode(&d))
	all := charges(s.t, string(s.archive[d.Objects[0].SHA256]))
	if int64(len(all)) != *d.Controls.Rows {
		s.t.Fatalf("%d lines, promised %d", len(all), *d.Controls.Rows)
	}
	for _, day := range d.Covers {
		if was, ok := s.live[day]; ok && was.version > d.Version {
			continue
		}
		x := delivered{version: d.Version}
		for _, c := range all {
			if strings.HasPrefix(c["ChargePeriodStart"], day) {
				x.lines = append(x.lines, c)
			}
		}
		s.live[day] = x
	}
	for _, c := range all {
		if !slices.Contains(d.Covers, c["ChargePeriodStart"][:10]) {
			s.t.Fatalf("a line of %s in a delivery of %v", c["ChargePeriodStart"], d.Covers)
		}
	}
	return nil
}

func (s *store) Archive(_ context.Context, name string, r io.Reader) (event.Object, error) {
	b, err := io.ReadAll(r)
	sum := sha256.Sum256(b)
	id := hex.EncodeToString(sum[:])
	s.archive[id] = b
	return event.Object{SHA256: id, Size: int64(len(b)), Name: name}, err
}

func (s *store) Save(_ context.Context, cur connectors.Cursor) error {
	s.kept = cur
	return nil
}

func (s *store) Progress(context.Context, string) {}

// lines are the live lines of all days.
func (s *store) lines() []charge {
	var out []charge
	for _, d := range s.live {
		out = append(out, d.lines...)
	}
	return out
}

// told are the payloads of one type, in order.
func told[T any](s *store, typ string) []T {
	s.t.Helper()
	var out []T
	for _, e := range s.events {
		if e.Type == typ {
			var v T
			must(s.t, e.Decode(&v))
			out = append(out, v)
		}
	}
	return out
}

// source builds a connector for the fake.
func source(t testing.TB, f *fake, change func(c *Config)) *connector {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(key, []byte(testKey+"\n"), 0o600))
	c := defaults()
	c.Key, c.BaseURL, c.GraphURL, c.Now = rest.Key{File: key}, f.srv.URL, f.srv.URL+"/graphql", f.clock
	c.Account, c.EnvTags, c.ProjectFromName = "acme", []string{"PROJECT"}, "^(?P<project>[a-z]+)--"
	if change != nil {
		change(c)
	}
	made, err := Factory().New("pods", c)
	must(t, err)
	out, ok := made.(*connector)
	if !ok {
		t.Fatal("another connector")
	}
	return out
}

// pull pulls once as ingest does: a failed pull goes on from what was kept.
func pull(t testing.TB, c *connector, s *store) error {
	t.Helper()
	next, err := c.Pull(context.Background(), s.kept, s)
	if err == nil {
		s.kept = next
	}
	if !json.Valid(s.kept) && s.kept != nil {
		t.Fatalf("cursor %s", s.kept)
	}
	return err
}

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// since is a life of a pod: pairs of a moment and a status.
func since(pairs ...string) []fakeState {
	var out []fakeState
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, fakeState{at(pairs[i]), pairs[i+1]})
	}
	return out
}

func gpuPod(id, name, rate string, states []fakeState) *fakePod {
	return &fakePod{
		id: id, name: name, gpu: "NVIDIA GeForce RTX 4090", cloud: "SECURE", count: 1, rate: rate, disk: 50, volume: 100,
		util: []int{0}, states: states,
	}
}
