package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/eventfile"
	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/schema/archive"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

func TestMain(m *testing.M) { localtest.Main(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func clock() time.Time { return time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC) }

func publisher(t *testing.T) Publisher {
	t.Helper()
	nc, err := localtest.Fresh(t).ConnectNATS()
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, bus.Ensure(t.Context(), js, 1))
	return Publisher{JS: js, Archive: Archive{Root: t.TempDir()}, Now: clock}
}

func (p Publisher) stored(t *testing.T, stream string) uint64 {
	t.Helper()
	s, err := p.JS.Stream(t.Context(), stream)
	must(t, err)
	return s.CachedInfo().State.Msgs
}

func TestArchiveKeepsBytesOnce(t *testing.T) {
	t.Parallel()
	a := Archive{Root: t.TempDir()}
	dir := t.TempDir()
	for _, name := range []string{"a.csv", "b.csv"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("x,y\n1,2\n"), 0o600))
	}
	first, err := a.PutFile(t.Context(), "a.csv", filepath.Join(dir, "a.csv"))
	must(t, err)
	second, err := a.PutFile(t.Context(), "b.csv", filepath.Join(dir, "b.csv"))
	must(t, err)
	if first.SHA256 != second.SHA256 || first.Size != 8 || second.Name != "b.csv" || first.Encoding != "csv" || first.Compression != "none" {
		t.Errorf("%+v, %+v", first, second)
	}
	kept, err := os.ReadFile(archive.Path(a.Root, first.SHA256))
	if err != nil || string(kept) != "x,y\n1,2\n" {
		t.Errorf("the archive holds %q, %v", kept, err)
	}
	// A half-written object of a crash is mended.
	must(t, os.WriteFile(archive.Path(a.Root, first.SHA256), []byte("x,"), 0o600))
	_, err = a.PutFile(t.Context(), "a.csv", filepath.Join(dir, "a.csv"))
	must(t, err)
	if kept, _ := os.ReadFile(archive.Path(a.Root, first.SHA256)); string(kept) != "x,y\n1,2\n" {
		t.Errorf("the archive holds %q", kept)
	}
}

func TestArchiveTakesWholeStreamsOrNothing(t *testing.T) {
	t.Parallel()
	a := Archive{Root: t.TempDir()}
	_, err := a.Put(t.Context(), "cut.csv", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("a,b\n"))))
	if !errors.Is(err, iotest.ErrTimeout) || !strings.Contains(err.Error(), "cut.csv") {
		t.Errorf("a stream that breaks off: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Put(ctx, "late.csv", strings.NewReader("a,b\n")); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled one: %v", err)
	}
	err = filepath.WalkDir(a.Root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left over", path)
		}
		return err
	})
	must(t, err)
}

// The bytes say what a file is, and what is plainly not whole is refused by its name.
func TestArchiveTellsWhatAFileIs(t *testing.T) {
	t.Parallel()
	a := Archive{Root: t.TempDir()}
	for name, c := range map[string]struct{ text, want string }{
		"a.csv":         {"a,b\n", "csv none"},
		"b.csv.gz":      {"\x1f\x8b\x08", "csv gzip"},
		"c.csv.zst":     {"\x28\xb5\x2f\xfd\x00", "csv zstd"},
		"d.parquet":     {"PAR1....PAR1", "parquet none"},
		"noname":        {"PAR1....PAR1", "parquet none"},
		"zero.csv":      {"", "zero.csv: the file is empty"},
		"e.parquet":     {"PAR1....", "e.parquet: Parquet file without its footer"},
		"f.parquet":     {"a,b\n", "f.parquet: the name says .parquet"},
		"g.csv.gz":      {"a,b\n", "g.csv.gz: the name says .gz"},
		"h.zip":         {"PK\x03\x04", "h.zip: zip archives are not read"},
		"i.bin":         {"a\x00b", "i.bin: binary data"},
		"j.csv":         {"a\n\"b\n", "j.csv: the text ends inside a quoted field"},
		"k.csv":         {"a\n\"b \"\"c\"\" d\"\n", "csv none"},
		"l.csv.parquet": {"PAR1....PAR1", "parquet none"},
	} {
		o, err := a.Put(t.Context(), name, strings.NewReader(c.text))
		got := o.Encoding + " " + o.Compression
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestDoorTakesEventsOnce(t *testing.T) {
	t.Parallel()
	p := publisher(t)
	d := Door{Publisher: p, Token: "secret", Check: eventfile.Check}
	good := `{"specversion":"1.0","id":"1","source":"s","type":"job.started","data":{"scheduler":"slurm","id":"1"}}`
	other := strings.Replace(good, `"id":"1","source"`, `"id":"2","source"`, 1)
	bad := `{"specversion":"1.0","id":"3","source":"s","type":"ledger.job_cost","data":{}}`
	for _, c := range []struct {
		name, method, token, body string
		status                    int
		answer                    string
	}{
		{"no POST", http.MethodGet, "secret", "", http.StatusMethodNotAllowed, "only POST"},
		{"no token", http.MethodPost, "", good, http.StatusUnauthorized, "a write token is needed"},
		{"wrong token", http.MethodPost, "secreT", good, http.StatusUnauthorized, "a write token is needed"},
		{"one", http.MethodPost, "secret", good, http.StatusAccepted, `{"accepted":1,"refused":0}`},
		{"again", http.MethodPost, "secret", good, http.StatusAccepted, `{"accepted":1,"refused":0}`},
		{"lines", http.MethodPost, "secret", good + "\n" + other, http.StatusAccepted, `{"accepted":2,"refused":0}`},
		{"a batch", http.MethodPost, "secret", "[" + good + "," + bad + "]", http.StatusUnprocessableEntity, `{"accepted":1,"refused":1,"errors":["event 2: type \"ledger.job_cost\" is not taken from outside`},
		{"nothing", http.MethodPost, "secret", " ", http.StatusBadRequest, "the body holds no event"},
		{"cut", http.MethodPost, "secret", good[:20], http.StatusBadRequest, "reading CloudEvents JSON, event 1"},
		{"too large", http.MethodPost, "secret", strings.Repeat(" ", maxBody+1), http.StatusRequestEntityTooLarge, "at most"},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/v1/events", strings.NewReader(c.body))
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		d.ServeHTTP(w, r)
		if w.Code != c.status || !strings.HasPrefix(w.Body.String(), c.answer) && !strings.Contains(w.Body.String(), c.answer) {
			t.Errorf("%s: %d %s, want %d %s", c.name, w.Code, w.Body, c.status, c.answer)
		}
	}
	if n := p.stored(t, bus.RawJob); n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
	letters, err := p.Letters(t.Context(), 10)
	if err != nil || len(letters) != 1 || letters[0].Refused != "door" || !bytes.Contains(letters[0].Raw, []byte("ledger.job_cost")) {
		t.Errorf("dead letters: %+v, %v", letters, err)
	}
}

// stepper is a source that emits one event per pull and counts in its cursor.
type stepper struct {
	fail error
	n    int
}

func (s *stepper) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	n := 0
	if cur != nil {
		if err := json.Unmarshal(cur, &n); err != nil {
			return cur, err
		}
	}
	e, err := event.New(event.TypeJobStarted, "stepper", fmt.Sprint(n), "1", clock(), n)
	if err != nil {
		return cur, err
	}
	if err := emit.Event(ctx, e); err != nil {
		return cur, err
	}
	if s.n++; s.fail != nil {
		return cur, s.fail
	}
	return json.Marshal(n + 1)
}

// The cursor is saved after its facts; a pull that fails after emitting repeats them, and the
// bus keeps them once.
func TestCursorMovesOnlyBehindItsFacts(t *testing.T) {
	t.Parallel()
	p := Puller{Publisher: publisher(t), Log: slog.New(slog.DiscardHandler)}
	c := &stepper{fail: errors.New("died before the cursor was saved")}
	s := Source{Name: "odd name/ü", Connector: c, Every: time.Hour}
	for range 2 {
		if err := p.Once(t.Context(), s); !errors.Is(err, c.fail) {
			t.Fatal(err)
		}
	}
	if n := p.stored(t, bus.RawJob); n != 1 {
		t.Errorf("%d facts are stored, want 1", n)
	}
	c.fail = nil
	for range 3 {
		must(t, p.Once(t.Context(), s))
	}
	if n := p.stored(t, bus.RawJob); n != 3 {
		t.Errorf("%d facts are stored, want 3: the first again, and two new ones", n)
	}
}

func TestPausesAfterFailures(t *testing.T) {
	t.Parallel()
	p, s := Puller{}, Source{Every: time.Minute}
	for _, c := range []struct {
		failures int
		err      error
		want     time.Duration
	}{
		{1, errors.New("x"), 2 * time.Second}, {3, errors.New("x"), 8 * time.Second}, {50, errors.New("x"), 15 * time.Minute},
		{1, connectors.Permanent(errors.New("x")), 15 * time.Minute},
		{9, connectors.RetryAfterError{Err: errors.New("x"), After: 7 * time.Second}, 7 * time.Second},
	} {
		if got := p.pauseAfter(s, c.failures, c.err); got != c.want {
			t.Errorf("failure %d (%v): %v, want %v", c.failures, c.err, got, c.want)
		}
	}
}

// A delivery keeps its id however often it is announced; another claim is another delivery.
func TestDeliveriesAreTheirFiles(t *testing.T) {
	t.Parallel()
	p := publisher(t)
	o, err := p.Archive.Put(t.Context(), "a.csv", strings.NewReader("a\n1\n"))
	must(t, err)
	seen := map[string]bool{}
	for _, d := range []Delivery{
		{Source: "s", Format: "focus", Version: "1"}, {Source: "s", Format: "focus", Version: "2"}, {Source: "t", Format: "focus", Version: "1"},
		{Source: "s", Format: "focus", Version: "1", Replaces: []string{"t"}}, {Source: "s", Format: "focus", Version: "1", Attempt: "2"},
	} {
		d.Objects = []event.Object{o}
		first, err := p.Deliver(t.Context(), d)
		must(t, err)
		again, err := p.Deliver(t.Context(), d)
		must(t, err)
		if first.Delivery != again.Delivery || seen[first.Delivery] {
			t.Errorf("%+v: %s, then %s", d, first.Delivery, again.Delivery)
		}
		seen[first.Delivery] = true
	}
	if n := p.stored(t, bus.RawBilling); n != 7 { // five deliveries, the object for two sources
		t.Errorf("%d events are stored, want 7", n)
	}
	if _, err := p.Deliver(t.Context(), Delivery{Source: "s"}); err == nil {
		t.Error("a delivery of no files was announced")
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{`{"a":1}`, "{}\n{}", `[{"a":1},2]`, `[`, ``, `nul`, "{} x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		parts, err := split(body)
		if err != nil {
			return
		}
		for _, p := range parts {
			if !json.Valid(p) {
				t.Errorf("%q gave %q, which is no JSON", body, p)
			}
		}
	})
}
