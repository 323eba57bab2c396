package crusoe

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/lines"
)

// secret is base64url without padding, as Crusoe hands keys out.
const secret = "c2VjcmV0LWtleQ"

// fake serves the sample to a request that is signed as documented.
func fake(t *testing.T, at time.Time) *httptest.Server {
	t.Helper()
	body, err := os.ReadFile("testdata/crusoe_billing_costs.json")
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://x"+r.URL.String(), nil)
		sign(want, "id", secret, at)
		if r.Header.Get("Authorization") != want.Header.Get("Authorization") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// taker keeps what a pull emits.
type taker struct {
	events []event.Event
	files  map[string]string
}

func (k *taker) Event(_ context.Context, e event.Event) error {
	k.events = append(k.events, e)
	return nil
}

func (k *taker) Archive(_ context.Context, name string, r io.Reader) (event.Object, error) {
	b, err := io.ReadAll(r)
	k.files[name] = string(b)
	return event.Object{Name: name, SHA256: fmt.Sprintf("%x", len(b)), Encoding: "csv"}, err
}

func TestCompleteDaysAreDelivered(t *testing.T) {
	at := time.Date(2026, 9, 2, 1, 0, 0, 0, time.UTC)
	srv := fake(t, at)
	t.Setenv("CRUSOE_TEST", secret)
	c := newConnector("crusoe", Config{
		Key: rest.Key{Env: "CRUSOE_TEST"}, KeyID: "id", Organization: "org", BaseURL: srv.URL + "/v1",
		Projects: map[string]string{"6a0d3f5e-1c2b-4d7a-9e8f-0b1a2c3d4e5f": "llm"},
	})
	c.now = func() time.Time { return at }
	k := taker{files: map[string]string{}}
	cur, err := c.Pull(t.Context(), nil, &k)
	if err != nil {
		t.Fatal(err)
	}
	var d event.BillingDelivery
	if err := k.events[len(k.events)-1].Decode(&d); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(d.Covers) != "[2026-09-01]" || *d.Controls.Rows != 2 || !strings.HasPrefix(d.Version, "2026-09-02T00:14:00") {
		t.Errorf("delivery %+v", d)
	}
	billed, gpuHours := sums(t, k.files["crusoe 2026-09-02T00:14:00Z"])
	if billed != "750.32" || gpuHours != "192" {
		t.Errorf("billed %s for %s GPU-hours, want 750.32 for 192", billed, gpuHours)
	}
	again := taker{files: map[string]string{}}
	if _, err := c.Pull(t.Context(), cur, &again); err != nil || len(again.events) != 0 {
		t.Errorf("the same answer again: %v, %d events", err, len(again.events))
	}
	if f := c.Doctor(t.Context()); f[0].Level != connectors.OK {
		t.Errorf("doctor: %+v", f)
	}
	c.now = func() time.Time { return at.Add(time.Hour) }
	if f := c.Doctor(t.Context()); f[0].Level != connectors.Fail || strings.Contains(fmt.Sprint(f), secret) {
		t.Errorf("doctor with a wrong clock: %+v", f)
	}
}

// sums adds up a lines file: money, and machine-hours times GPUs.
func sums(t *testing.T, text string) (billed, gpuHours string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatal(err, text)
	}
	at := map[string]int{}
	for i, n := range rows[0] {
		at[n] = i
	}
	var b, h decimal.Decimal
	for _, r := range rows[1:] {
		b = b.Add(decimal.RequireFromString(r[at["BilledCost"]]))
		if r[at["x_MachineHours"]] != "" {
			h = h.Add(decimal.RequireFromString(r[at["x_MachineHours"]]).Mul(decimal.RequireFromString(r[at["x_GpuCount"]])))
		}
	}
	return b.String(), h.String()
}

func TestTypesNameTheirGPUs(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"h100-80gb-sxm-ib.8x": "H100 8", "a100-80gb.1x": "A100 80GB 1", "l40s-48gb.10x": "L40S 10", "c1a.16x": "", "persistent-ssd": "", "h100-80gb.0x": "",
	} {
		got := ""
		if m, n, ok := gpus(kind); ok {
			got = m + " " + n.String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	for _, p := range []string{"crusoe_billing_costs.json", "crusoe_usage.json"} {
		b, err := os.ReadFile(filepath.Join("testdata", p))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		w, err := lines.NewWriter(io.Discard)
		if err != nil {
			panic(err)
		}
		_, _ = fileLines(context.Background(), []connectors.File{{Name: "f", Source: "s", Account: "s", Body: bytes.NewReader(b)}}, w)
	})
}
