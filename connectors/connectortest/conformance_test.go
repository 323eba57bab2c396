package connectortest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"go.uber.org/goleak"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/all"
	"github.com/idlewatt/idlewatt/connectors/dcgm"
	"github.com/idlewatt/idlewatt/connectors/files"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

// waivers are the exceptions from the suite, each with its reason. The list may only shrink.
func waivers() map[string]string {
	return map[string]string{
		"dcgm repeats": "a scrape is a fact of its own moment: what was not scraped then is gone",
		"dcgm fails":   "a target that is down is a fact, told by an event, and no error",

		"dcgmhost repeats": "a reading is a fact of its own moment",

		"together repeats": "what is asked at another moment is another version of the answer",
	}
}

func waived(t *testing.T, f connectors.Factory, rule string) bool {
	t.Helper()
	reason, ok := waivers()[f.Type+" "+rule]
	if ok {
		t.Logf("%s is excepted: %s", f.Type, reason)
	}
	return ok
}

// fixtures make a source that has something to fetch, one for every connector that pulls.
func fixtures() map[string]func(t *testing.T) connectors.Config {
	return map[string]func(t *testing.T) connectors.Config{
		"files": func(t *testing.T) connectors.Config {
			t.Helper()
			dir := t.TempDir()
			for _, name := range []string{"a.csv", "b.csv"} {
				write(t, filepath.Join(dir, name), "BilledCost,ChargePeriodStart\n1,2026-10-01\n"+name+",2026-10-01\n")
			}
			return &files.Config{Path: filepath.Join(dir, "*.csv"), Format: "focus"}
		},
		"dcgm": func(t *testing.T) connectors.Config {
			t.Helper()
			text := read(t, filepath.Join("..", "dcgm", "testdata", "k8s-8xh100-pods.prom"))
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
			t.Cleanup(srv.Close)
			return &dcgm.Config{Targets: []string{srv.URL}, Timeout: 5 * time.Second, Parallel: 2, MaxBody: 1 << 20}
		},
		"dcgmhost":   dcgmhostFixture,
		"prometheus": prometheusFixture,
		"runpod":     runpodFixture, "vast": vastFixture, "lambda": lambdaFixture, "crusoe": crusoeFixture, "together": togetherFixture,
		"slurm": slurmFixture, "kubernetes": kubernetesFixture,
		"awsinventory": awsinventoryFixture, "awsprices": awspricesFixture, "awscur": awscurFixture,
	}
}

func pulling(t *testing.T) []connectors.Factory {
	t.Helper()
	var out []connectors.Factory
	for _, f := range all.Factories() {
		if f.New == nil {
			continue
		}
		if fixtures()[f.Type] == nil {
			t.Errorf("%s has no fixture in this suite: add one, so that its pulls are tested", f.Type)
			continue
		}
		out = append(out, f)
	}
	return out
}

func build(t *testing.T, f connectors.Factory) connectors.Connector {
	t.Helper()
	c, err := f.New("src", fixtures()[f.Type](t))
	must(t, err)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// taker is the emitter of a test: it remembers, and fails or cancels where it is told to.
type taker struct {
	events []event.Event
	failAt int // the event that is refused, from 1; 0 takes all
	taken  func()
}

var errRefused = errors.New("the bus does not take it")

func (k *taker) Event(ctx context.Context, e event.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if k.failAt == len(k.events)+1 {
		return errRefused
	}
	k.events = append(k.events, e)
	if k.taken != nil {
		k.taken()
	}
	return nil
}

func (k *taker) Archive(ctx context.Context, name string, r io.Reader) (event.Object, error) {
	b, err := io.ReadAll(r)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return event.Object{}, err
	}
	return event.Object{SHA256: event.ID(string(b), "", ""), Size: int64(len(b)), Name: name, Encoding: "csv", Compression: "none"}, nil
}

func (k *taker) ids() []string {
	var out []string
	for _, e := range k.events {
		out = append(out, e.ID)
	}
	slices.Sort(out)
	return out
}

// A connector is one folder with the name of its type, and one line in the list.
func TestFactoriesAndFoldersAgree(t *testing.T) {
	t.Parallel()
	var types, folders []string
	for _, f := range all.Factories() {
		types = append(types, f.Type)
		if f.Summary == "" || strings.Contains(f.Summary, "\n") {
			t.Errorf("%s: its summary %q is not one line", f.Type, f.Summary)
		}
		if (f.New == nil) != (f.NewConfig == nil) || f.New != nil && f.Every <= 0 || f.New == nil && len(f.Formats) == 0 {
			t.Errorf("%s: wants New, NewConfig and Every together, or at least a format", f.Type)
		}
	}
	entries, err := os.ReadDir("..")
	must(t, err)
	for _, e := range entries {
		if e.IsDir() && !slices.Contains([]string{"all", "connectortest", "rest", "gpuseries"}, e.Name()) {
			folders = append(folders, e.Name())
		}
	}
	slices.Sort(types)
	if !slices.Equal(types, folders) {
		t.Errorf("types %v, folders %v: add the line in connectors/all, or the folder", types, folders)
	}
}

var field = regexp.MustCompile(`^[a-z_.\[\]0-9]+: `)

func TestDefaultsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, f := range pulling(t) {
		if err := f.NewConfig().Validate(); err != nil {
			for l := range strings.SplitSeq(err.Error(), "\n") {
				if !field.MatchString(l) {
					t.Errorf("%s: %q does not name its field", f.Type, l)
				}
			}
		}
		if err := fixtures()[f.Type](t).Validate(); err != nil {
			t.Errorf("%s: the fixture's configuration is refused: %v", f.Type, err)
		}
		if f.NewConfig() == f.NewConfig() {
			t.Errorf("%s: two sources would share one configuration", f.Type)
		}
	}
}

// testdata/config.yaml is right; testdata/typo.yaml has one key that does not exist.
func TestTyposFail(t *testing.T) {
	t.Parallel()
	for _, f := range pulling(t) {
		cfg := f.NewConfig()
		must(t, yaml.UnmarshalWithOptions(read(t, filepath.Join("..", f.Type, "testdata", "config.yaml")), cfg, yaml.Strict()))
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: testdata/config.yaml: %v", f.Type, err)
		}
		err := yaml.UnmarshalWithOptions(read(t, filepath.Join("..", f.Type, "testdata", "typo.yaml")), f.NewConfig(), yaml.Strict())
		if err == nil || !strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: testdata/typo.yaml passes: %v", f.Type, err)
		}
	}
}

// Everything that is emitted is an event the bus takes, from the source it was built for.
func TestEventsAreWellFormed(t *testing.T) {
	t.Parallel()
	for _, f := range pulling(t) {
		var k taker
		_, err := build(t, f).Pull(t.Context(), nil, &k)
		must(t, err)
		if len(k.events) == 0 {
			t.Errorf("%s: the fixture has nothing to fetch", f.Type)
		}
		for _, e := range k.events {
			if _, err := bus.Message(e); errors.Join(err, e.Validate()) != nil || !strings.Contains(e.Source, "src") || e.Time.IsZero() {
				t.Errorf("%s: %v from %q at %v: %v", f.Type, e.Type, e.Source, e.Time, err)
			}
		}
	}
}

// The same cursor brings the same ids, on another machine too: after a crash between emitting
// and saving nothing is skipped and nothing is new. With the new cursor nothing comes again.
func TestSameCursorSameFacts(t *testing.T) {
	t.Parallel()
	for _, f := range pulling(t) {
		if waived(t, f, "repeats") {
			continue
		}
		c := build(t, f)
		var first, again, after taker
		next, err := c.Pull(t.Context(), nil, &first)
		must(t, err)
		if !json.Valid(next) {
			t.Errorf("%s: its cursor %q is no JSON", f.Type, next)
		}
		_, err = c.Pull(t.Context(), nil, &again)
		must(t, err)
		if !slices.Equal(first.ids(), again.ids()) {
			t.Errorf("%s: %v, then %v", f.Type, first.ids(), again.ids())
		}
		same, err := c.Pull(t.Context(), next, &after)
		must(t, err)
		if len(after.events) != 0 || string(same) != string(next) {
			t.Errorf("%s: nothing new, and yet %v with cursor %s after %s", f.Type, after.ids(), same, next)
		}
	}
}

// An event that is refused fails the pull; the cursor does not move past it.
func TestRefusedEventsAreNotSkipped(t *testing.T) {
	t.Parallel()
	for _, f := range pulling(t) {
		c := build(t, f)
		k := taker{failAt: 1}
		cur, err := c.Pull(t.Context(), nil, &k)
		if !errors.Is(err, errRefused) || len(cur) != 0 {
			t.Errorf("%s: a refused event gave %v and cursor %s", f.Type, err, cur)
		}
		if connectors.IsPermanent(err) {
			t.Errorf("%s: what the bus refuses now it may take later: %v", f.Type, err)
		}
		var whole taker
		_, err = c.Pull(t.Context(), cur, &whole)
		must(t, err)
		if len(whole.events) == 0 {
			t.Errorf("%s: the refused event did not come again", f.Type)
		}
	}
}

func TestBrokenCursorsArePermanentErrors(t *testing.T) {
	t.Parallel()
	for _, f := range pulling(t) {
		var k taker
		_, err := build(t, f).Pull(t.Context(), connectors.Cursor(`{"seen":`), &k)
		if err != nil && !connectors.IsPermanent(err) {
			t.Errorf("%s: a broken cursor is tried for ever: %v", f.Type, err)
		}
	}
}

// Cancelling ends a pull at once and leaves no goroutine behind.
func TestCancelledPullsEnd(t *testing.T) { //nolint:paralleltest // it counts goroutines
	for _, f := range pulling(t) {
		before := goleak.IgnoreCurrent()
		t.Run(f.Type, func(t *testing.T) { //nolint:paralleltest // the same
			c := build(t, f)
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			_, err := c.Pull(ctx, nil, &taker{taken: cancel})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled after the first event: %v", err)
			}
			_, err = c.Pull(ctx, nil, &taker{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled before it began: %v", err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %v", took)
			}
			http.DefaultClient.CloseIdleConnections()
		})
		goleak.VerifyNone(t, before)
	}
}

// A target that is down is a gap, told by an event; the pull itself is no failure.
func TestTargetThatIsDownIsAFact(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	c, err := dcgm.Factory().New("src", &dcgm.Config{Targets: []string{srv.URL}, Timeout: time.Second, Parallel: 1, MaxBody: 1 << 20})
	must(t, err)
	var k taker
	_, err = c.Pull(t.Context(), nil, &k)
	must(t, err)
	var s event.GPUSamples
	if len(k.events) != 1 {
		t.Fatalf("%d events", len(k.events))
	}
	must(t, k.events[0].Decode(&s))
	if s.OK || s.Error == "" || len(s.GPUs) != 0 {
		t.Errorf("a scrape that failed says %+v", s)
	}
}

// A file that vanishes or cannot be read while it is fetched is tried again.
func TestUnreadableFilesAreTriedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "a.csv")))
	c, err := files.Factory().New("src", &files.Config{Path: filepath.Join(dir, "*.csv"), Format: "focus"})
	must(t, err)
	cur, err := c.Pull(t.Context(), nil, &taker{})
	if err == nil || connectors.IsPermanent(err) || cur != nil || !strings.Contains(err.Error(), "a.csv") {
		t.Errorf("got %v and cursor %s", err, cur)
	}
}

// Files are delivered again when one of them changes, and never half-written.
func TestChangedFolderIsANewDelivery(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.csv"), "x\n1\n")
	cfg := &files.Config{Path: filepath.Join(dir, "*.csv"), Format: "focus", Settle: time.Hour}
	c, err := files.Factory().New("src", cfg)
	must(t, err)
	var early taker
	cur, err := c.Pull(t.Context(), nil, &early)
	must(t, err)
	if len(early.events) != 0 || cur != nil {
		t.Errorf("a file of this second was taken: %v", early.ids())
	}
	old := time.Now().Add(-2 * time.Hour)
	must(t, os.Chtimes(filepath.Join(dir, "a.csv"), old, old))
	versions := []string{}
	for i := range 2 {
		var k taker
		cur, err = c.Pull(t.Context(), cur, &k)
		must(t, err)
		if len(k.events) != 1 {
			t.Fatalf("pull %d: %d events", i, len(k.events))
		}
		var d event.BillingDelivery
		must(t, k.events[0].Decode(&d))
		if len(d.Objects) != i+1 {
			t.Errorf("pull %d: %d files, want all of the folder", i, len(d.Objects))
		}
		versions = append(versions, d.Version)
		newer := old.Add(time.Hour / 2)
		write(t, filepath.Join(dir, "b.csv"), fmt.Sprint("x\n", i, "\n"))
		must(t, os.Chtimes(filepath.Join(dir, "b.csv"), newer, newer))
	}
	if versions[0] >= versions[1] {
		t.Errorf("versions %v do not grow", versions)
	}
}
