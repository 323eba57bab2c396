package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/exp/api/remote"
	writev2 "github.com/prometheus/client_golang/exp/api/remote/genproto/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/idlewatt/idlewatt/connectors/prometheus"
	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

const writeToken = "secret-write-token"

// one is a series of a target with one sample.
type one struct {
	name, instance, uuid string
	at                   time.Time
	value                float64
}

func (o one) labels() []string {
	out := []string{"__name__", o.name}
	if o.uuid != "" {
		out = append(out, "UUID", o.uuid)
	}
	return append(out, "instance", o.instance, "job", "gpu")
}

// v1 is a prometheus.WriteRequest.
func v1(samples ...one) []byte {
	var b []byte
	for _, s := range samples {
		var series []byte
		l := s.labels()
		for i := 0; i < len(l); i += 2 {
			var label []byte
			label = protowire.AppendString(protowire.AppendTag(label, 1, protowire.BytesType), l[i])
			label = protowire.AppendString(protowire.AppendTag(label, 2, protowire.BytesType), l[i+1])
			series = protowire.AppendBytes(protowire.AppendTag(series, 1, protowire.BytesType), label)
		}
		var sample []byte
		sample = protowire.AppendFixed64(protowire.AppendTag(sample, 1, protowire.Fixed64Type), math.Float64bits(s.value))
		sample = protowire.AppendVarint(protowire.AppendTag(sample, 2, protowire.VarintType), uint64(s.at.UnixMilli()))
		series = protowire.AppendBytes(protowire.AppendTag(series, 2, protowire.BytesType), sample)
		series = protowire.AppendBytes(protowire.AppendTag(series, 4, protowire.BytesType), []byte{8, 1}) // a native histogram
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), series)
	}
	return b
}

func v2(samples ...one) *writev2.Request {
	table := writev2.NewSymbolTable()
	req := &writev2.Request{}
	for _, s := range samples {
		req.Timeseries = append(req.Timeseries, &writev2.TimeSeries{
			LabelsRefs: table.SymbolizeLabels(s.labels(), nil), Samples: []*writev2.Sample{{Value: s.value, Timestamp: s.at.UnixMilli()}},
		})
	}
	req.Symbols = table.Symbols()
	return req
}

// scrape is what eight series of two cards say at a time.
func scrape(instance string, at time.Time, work float64) []one {
	var out []one
	for _, uuid := range []string{"GPU-a", "GPU-b"} {
		for name, v := range map[string]float64{
			"DCGM_FI_DEV_GPU_UTIL": 90 * work, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": work, "DCGM_FI_DEV_POWER_USAGE": 70 + 500*work, "DCGM_FI_DEV_FB_USED": 4,
		} {
			out = append(out, one{name, instance, instance + uuid, at, v})
		}
	}
	slices.SortFunc(out, func(a, b one) int { return strings.Compare(a.name+a.uuid, b.name+b.uuid) })
	return out
}

func openBus(t testing.TB) jetstream.JetStream {
	t.Helper()
	nc, err := localtest.Fresh(t).ConnectNATS()
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, bus.Ensure(t.Context(), js, 1))
	return js
}

func writeDoor(t testing.TB, js jetstream.JetStream) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(WriteDoor{Publisher: Publisher{JS: js, Now: time.Now}, Token: writeToken})
	t.Cleanup(srv.Close)
	return srv
}

// post sends a body and returns the answer's status and how many samples it says it took.
func post(t testing.TB, url string, body []byte, header map[string]string) (status int, samples string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+writeToken)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	must(t, resp.Body.Close())
	return resp.StatusCode, resp.Header.Get("X-Prometheus-Remote-Write-Samples-Written")
}

func held(t testing.TB, js jetstream.JetStream, stream string) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	must(t, err)
	return s.CachedInfo().State.Msgs
}

func TestWriteDoorAnswersAsTheSpecificationSays(t *testing.T) {
	t.Parallel()
	js := openBus(t)
	srv := writeDoor(t, js)
	at := time.Now().Truncate(time.Second)
	good := snappy.Encode(nil, v1(scrape("n1:9400", at, 0)...))
	const two = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	raw2, err := v2(scrape("n2:9400", at, 0)...).MarshalVT()
	must(t, err)
	broken2, err := (&writev2.Request{Symbols: []string{""}, Timeseries: []*writev2.TimeSeries{{LabelsRefs: []uint32{7, 8}}}}).MarshalVT()
	must(t, err)
	bomb := protowire.AppendVarint(nil, 1<<31)
	for _, c := range []struct {
		name   string
		body   []byte
		header map[string]string
		status int
		stored uint64
	}{
		{"version 1", good, nil, 204, 1},
		{"the same again", good, nil, 204, 1},
		{"version 2", snappy.Encode(nil, raw2), map[string]string{"Content-Type": two}, 204, 2},
		{"password", good, map[string]string{"Authorization": "Basic cHJvbTpzZWNyZXQtd3JpdGUtdG9rZW4="}, 204, 2},
		{"nothing of a GPU", snappy.Encode(nil, v1(one{"up", "n1:9400", "", at, 1})), nil, 204, 2},
		{"nothing at all", snappy.Encode(nil, nil), nil, 204, 2},
		{"no token", good, map[string]string{"Authorization": ""}, 401, 2},
		{"wrong token", good, map[string]string{"Authorization": "Bearer x"}, 401, 2},
		{"wrong password", good, map[string]string{"Authorization": "Basic cHJvbTp4"}, 401, 2},
		{"not compressed", v1(scrape("n1:9400", at, 0)...), nil, 400, 2},
		{"a bomb", bomb, nil, 400, 2},
		{"not a message", snappy.Encode(nil, []byte("\xff\xff\xff")), nil, 400, 2},
		{"a series without a name", snappy.Encode(nil, v1(one{"", "n1:9400", "", at, 1})), nil, 400, 2},
		{"a label beyond the symbols", snappy.Encode(nil, broken2), map[string]string{"Content-Type": two}, 400, 2},
		{"another compression", good, map[string]string{"Content-Encoding": "zstd"}, 415, 2},
		{"another form", good, map[string]string{"Content-Type": "application/json"}, 415, 2},
		{"another message", good, map[string]string{"Content-Type": "application/x-protobuf;proto=x.Y"}, 415, 2},
		{"too long", make([]byte, prometheus.MaxBody+1), nil, 413, 2},
	} {
		status, got := post(t, srv.URL, c.body, c.header)
		if status != c.status || held(t, js, bus.RawWrite) != c.stored {
			t.Errorf("%s: status %d, want %d; %d messages, want %d", c.name, status, c.status, held(t, js, bus.RawWrite), c.stored)
		}
		want := map[bool]string{true: map[bool]string{true: "8", false: "0"}[c.status == 204]}[c.header["Content-Type"] == two]
		if got != want {
			t.Errorf("%s: %q samples written, want %q", c.name, got, want)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", resp.StatusCode)
	}
	// The bus is away: Prometheus has to send it again.
	must(t, js.DeleteStream(t.Context(), bus.RawWrite))
	if status, _ := post(t, srv.URL, good, nil); status != http.StatusServiceUnavailable {
		t.Errorf("without a stream: %d, want 503", status)
	}
}

// TestPrometheusOwnClientIsUnderstood sends version 2 with the reference sender, which checks
// the headers of the answer.
func TestPrometheusOwnClientIsUnderstood(t *testing.T) {
	t.Parallel()
	js := openBus(t)
	srv := writeDoor(t, js)
	client := &http.Client{Transport: bearer{}}
	api, err := remote.NewAPI(srv.URL, remote.WithAPIHTTPClient(client), remote.WithAPIPath("v1/write"))
	must(t, err)
	stats, err := api.Write(t.Context(), remote.WriteV2MessageType, v2(scrape("n1:9400", time.Now(), 1)...))
	if err != nil || stats.Samples != 8 || held(t, js, bus.RawWrite) != 1 {
		t.Errorf("%+v, %v, %d messages", stats, err, held(t, js, bus.RawWrite))
	}
}

type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+writeToken)
	return http.DefaultTransport.RoundTrip(r)
}

// hands are a clock that a test moves while others read it.
type hands struct{ ms atomic.Int64 }

func (c *hands) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// writes runs what puts scrapes together until stop is called.
func writes(t *testing.T, js jetstream.JetStream, c *hands) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	w := Writes{Publisher: Publisher{JS: js, Now: c.now}, Assembly: prometheus.DefaultAssembly(), Log: slog.New(slog.DiscardHandler)}
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		must(t, <-done)
	}
}

// told is the last word on each scrape: whole or not, and how many readings it has.
func told(t *testing.T, js jetstream.JetStream) map[string]string {
	t.Helper()
	s, err := js.Stream(t.Context(), bus.RawGPU)
	must(t, err)
	out := map[string]string{}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		must(t, err)
		var g event.GPUSamples
		must(t, json.Unmarshal(m.Data, &g))
		readings := 0
		for _, x := range g.GPUs {
			for _, v := range []*float64{x.Utilization, x.Engine, x.PowerW, x.FBUsedMiB} {
				if v != nil {
					readings++
				}
			}
		}
		out[fmt.Sprint(g.Target, " ", g.At.Unix())] = fmt.Sprint(g.Complete, " ", readings)
	}
	return out
}

// TestWhatWasThankedForOutlivesACrash: scrapes whose pieces were taken before the end of one
// process and after the start of the next are put together, none is lost, and none that was
// whole becomes less.
func TestWhatWasThankedForOutlivesACrash(t *testing.T) {
	t.Parallel()
	js := openBus(t)
	srv := writeDoor(t, js)
	c := &hands{}
	start := time.Now().Truncate(time.Second).Add(-time.Hour)
	c.ms.Store(start.UnixMilli())
	stop := writes(t, js, c)
	at := start
	send := func(samples []one) {
		t.Helper()
		if status, _ := post(t, srv.URL, snappy.Encode(nil, v1(samples...)), nil); status != http.StatusNoContent {
			t.Fatalf("status %d", status)
		}
	}
	wait := func(what, key, want string) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for told(t, js)[key] != want {
			c.ms.Add(1000)
			select {
			case <-deadline:
				t.Fatalf("%s: %v, want %s of %s", what, told(t, js), want, key)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	key := func() string { return fmt.Sprint("n1:9400 ", at.Unix()) }
	for range 5 {
		at = at.Add(30 * time.Second)
		s := scrape("n1:9400", at, 0)
		send(s[:3])
		send(s[3:])
	}
	wait("a scrape in two pieces", key(), "true 8")
	before := told(t, js)

	at = at.Add(30 * time.Second)
	s := scrape("n1:9400", at, 1)
	send(s[:5])
	stop() // with half a scrape in memory
	stop = writes(t, js, c)
	send(s[5:])
	wait("a scrape over two processes", key(), "true 8")
	stop()
	at = at.Add(30 * time.Second)
	s = scrape("n1:9400", at, 1)
	send(s[:4]) // nobody reads
	send(s[4:])
	stop = writes(t, js, c)
	defer func() { stop() }()
	wait("a scrape between two processes", key(), "true 8")
	after := told(t, js)
	for k, v := range before {
		if strings.HasPrefix(v, "true") && after[k] != v {
			t.Errorf("%s was %s and is %s", k, v, after[k])
		}
	}
	deadline := time.After(30 * time.Second)
	for held(t, js, bus.RawWrite) > 0 { // nothing is kept for ever
		c.ms.Add(60_000)
		select {
		case <-deadline:
			t.Fatalf("%d messages are left", held(t, js, bus.RawWrite))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
