package prometheus

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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"go.uber.org/goleak"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/gpuseries"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// taker keeps what a pull emits and saves.
type taker struct {
	scrapes []event.GPUSamples
	saved   []connectors.Cursor
}

func (k *taker) Event(_ context.Context, e event.Event) error {
	var s event.GPUSamples
	err := e.Decode(&s)
	k.scrapes = append(k.scrapes, s)
	return err
}

func (k *taker) Archive(context.Context, string, io.Reader) (event.Object, error) {
	return event.Object{}, errors.New("nothing to archive")
}

func (k *taker) Save(_ context.Context, c connectors.Cursor) error {
	k.saved = append(k.saved, c)
	return nil
}

func (k *taker) Progress(context.Context, string) {}

// server answers range queries with f and says which jobs rename labels.
func server(t *testing.T, renaming string, f func(from, to float64, w http.ResponseWriter)) *Config {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, length, ranged := strings.Cut(r.FormValue("query"), "}[")
		if !ranged {
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, renaming)
			return
		}
		ms, _ := strconv.ParseFloat(strings.TrimSuffix(length, "ms]"), 64)
		to, _ := strconv.ParseFloat(r.FormValue("time"), 64)
		f(to-ms/1000, to, w)
	}))
	t.Cleanup(srv.Close)
	c := defaults()
	c.URL = srv.URL
	return c
}

func build(t *testing.T, c *Config, now time.Time) *connector {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	x, err := factory(func() time.Time { return now }).New("prom", c)
	if err != nil {
		t.Fatal(err)
	}
	con := x.(*connector)
	t.Cleanup(con.client.http.CloseIdleConnections)
	return con
}

func matrix(series ...string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(series, ",") + `]}}`
}

// TestStoredSamplesOnly: samples keep their own times, what was not scraped stays a gap, and a
// chunk neither loses nor repeats a sample at its edge.
func TestStoredSamplesOnly(t *testing.T) {
	t.Parallel()
	now := start().Add(time.Hour)
	var asked []string
	c := server(t, "", func(from, to float64, w http.ResponseWriter) {
		asked = append(asked, fmt.Sprint((to-from)/60))
		var values []string
		for i := range 120 {
			if at := float64(start().Unix() + int64(i)*30); at >= from && at <= to && (i < 40 || i > 60) { // both ends, as Prometheus 2 does
				values = append(values, fmt.Sprintf(`[%v,"%d"]`, at, i%2*50))
			}
		}
		fmt.Fprint(w, matrix(`{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"G","instance":"n1:9400","job":"gpu","node":"k8s-1","Hostname":"pod-x"},"values":[`+strings.Join(values, ",")+`]}`))
	})
	c.Since, c.Chunk, c.Lag, c.NodeLabels = start().Add(-time.Second).Format(time.RFC3339), 20*time.Minute, 0, []string{"node"}
	var got taker
	cur, err := build(t, c, now).Pull(t.Context(), nil, &got)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for _, s := range got.scrapes {
		i := (s.At.Unix() - start().Unix()) / 30
		if seen[i] || i >= 40 && i <= 60 || !s.Complete || !s.ReceivedAt.Equal(s.At) || s.Node != "k8s-1" || s.Target != "n1:9400" {
			t.Errorf("scrape %d: %+v", i, s)
		}
		seen[i] = true
	}
	if len(seen) != 99 || len(asked) != 4 || len(got.saved) != 3 {
		t.Errorf("%d scrapes, asked for %v minutes, saved %d times", len(seen), asked, len(got.saved))
	}
	var at cursor
	// The last second has nothing yet: what comes late is found by the next pull.
	if err := json.Unmarshal(cur, &at); err != nil || !at.Until.Equal(now.Add(-time.Second)) {
		t.Errorf("cursor %s, %v", cur, err)
	}
}

// TestQueryIsMadeSmaller: a server that refuses so much is asked for less.
func TestQueryIsMadeSmaller(t *testing.T) {
	t.Parallel()
	c := server(t, "", func(from, to float64, w http.ResponseWriter) {
		if to-from > 600 {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`)
			return
		}
		fmt.Fprint(w, matrix(fmt.Sprintf(`{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"G","instance":"n1:9400"},"values":[[%v,"1"]]}`, to)))
	})
	c.Lag = 0
	var got taker
	if _, err := build(t, c, start()).Pull(t.Context(), nil, &got); err != nil || len(got.scrapes) != 8 {
		t.Errorf("%d scrapes, %v", len(got.scrapes), err)
	}
}

func TestAnswersThatAreNotWholeAreRefused(t *testing.T) {
	t.Parallel()
	good := `{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"G","instance":"n1:9400"},"values":[[1788264000,"0"]]}`
	for name, answer := range map[string]string{
		"a store is away": strings.TrimSuffix(matrix(good), "}") + `,"warnings":["store x: unavailable"]}`,
		"cut":             matrix(good)[:120],
		"an error":        `{"status":"error","error":"bad"}`,
		"a vector":        `{"status":"success","data":{"resultType":"vector","result":[]}}`,
		"no JSON":         `<html>`,
		"no sample":       matrix(`{"metric":{},"values":[[1]]}`),
		"a number":        matrix(`{"metric":{},"values":[[1,2]]}`),
	} {
		c := server(t, "", func(_, _ float64, w http.ResponseWriter) { fmt.Fprint(w, answer) })
		var got taker
		cur, err := build(t, c, start()).Pull(t.Context(), nil, &got)
		if err == nil || cur != nil || len(got.scrapes) != 0 || connectors.IsPermanent(err) {
			t.Errorf("%s: %v, cursor %s, %d scrapes", name, err, cur, len(got.scrapes))
		}
	}
}

// TestIdleFleetIsNotHeldByItsExporters: where nobody holds a GPU no series shows that the job
// renames labels; the server was asked.
func TestIdleFleetIsNotHeldByItsExporters(t *testing.T) {
	t.Parallel()
	series := `{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"G","instance":"n1:9400","job":"gpu","pod":"telemetry-7x","namespace":"gpu"},"values":[[1788263990,"0"]]}`
	for renaming, owners := range map[string]int{"": 1, `{"metric":{"job":"gpu"},"value":[1,"8"]}`: 0} {
		c := server(t, renaming, func(_, _ float64, w http.ResponseWriter) { fmt.Fprint(w, matrix(series)) })
		c.Lag = 0
		var got taker
		cur, err := build(t, c, start()).Pull(t.Context(), nil, &got)
		if err != nil || len(got.scrapes) != 1 || len(got.scrapes[0].GPUs[0].Owners) != owners || strings.Contains(string(cur), "renaming") != (owners == 0) {
			t.Errorf("renaming %q: %+v, cursor %s, %v", renaming, got.scrapes, cur, err)
		}
	}
}

func TestSecretsAreSentAndNotTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var header string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(srv.Close)
	for want, set := range map[string]func(c *Config){
		"Bearer s3cret":          func(c *Config) { c.BearerTokenFile = file },
		"Basic bWFyYTpzM2NyZXQ=": func(c *Config) { c.BasicAuth = BasicAuth{"mara", file} },
		"":                       func(*Config) {},
	} {
		c := defaults()
		c.URL = srv.URL
		set(c)
		con := build(t, c, start())
		_, err := con.Pull(t.Context(), nil, &taker{})
		if header != want || !connectors.IsPermanent(err) || strings.Contains(fmt.Sprint(err), "s3cret") {
			t.Errorf("sent %q, want %q: %v", header, want, err)
		}
		if f := con.Doctor(t.Context()); len(f) != 1 || f[0].Level != connectors.Fail || strings.Contains(fmt.Sprint(f), "s3cret") {
			t.Errorf("the doctor says %+v", f)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	c := defaults()
	text, err := os.ReadFile("testdata/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalWithOptions(text, c, yaml.Strict()); err != nil || c.Validate() != nil || c.Chunk != 30*time.Minute {
		t.Errorf("%+v %v %v", c, err, c.Validate())
	}
	bad := &Config{
		URL: "http://u:p@h", BearerTokenFile: "x", BasicAuth: BasicAuth{Username: "u"}, TLS: rest.TLS{KeyFile: "k"},
		Selector: `{job="x"}`, Since: "last week", Chunk: time.Second, Lag: -1,
	}
	err = bad.Validate()
	for _, want := range []string{"url: must not", "basic_auth: only", "basic_auth: username", "tls: ", "selector: ", "since: ", "chunk: ", "lag: ", "timeout: ", "max_body: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint %q in: %v", want, err)
		}
	}
	for _, u := range []string{"", "prometheus:9090", "ftp://x", "http://", "http://x?y"} {
		c := defaults()
		c.URL = u
		if c.Validate() == nil {
			t.Errorf("%q passes as url", u)
		}
	}
}

// TestPatternFindsEveryWantedName holds the query's pattern against the name table.
func TestPatternFindsEveryWantedName(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile("^(?:" + gpuseries.Pattern + ")$")
	text, err := os.ReadFile(filepath.Join("..", "gpuseries", "names.go"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range regexp.MustCompile(`"([A-Za-z_]+)"`).FindAllStringSubmatch(string(text), -1) {
		for _, name := range []string{"DCGM_FI_" + m[1], "dcgm_" + m[1]} {
			wanted, _ := gpuseries.Wanted(name)
			if wanted != pattern.MatchString(name) {
				t.Errorf("%s: wanted %t, matched %t", name, wanted, pattern.MatchString(name))
			}
			if wanted {
				n++
			}
		}
	}
	if n != 31 {
		t.Errorf("%d wanted names", n)
	}
}

func FuzzReadMatrix(f *testing.F) {
	f.Add(matrix(`{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"G","instance":"n1:9400"},"values":[[1788264000.5,"0"],[1788264030,"NaN"]]}`))
	f.Add(`{"status":"success","data":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := readMatrix(strings.NewReader(text), gpuseries.NewReader(nil, nil), minTime, maxTime)
		if err != nil {
			return
		}
		for _, s := range got {
			if s.At <= minTime || s.At >= maxTime {
				t.Errorf("a sample at %d", s.At)
			}
		}
		gpuseries.Fold(got, gpuseries.Options{Target: "t"}, gpuseries.NewMemory(nil))
	})
}
