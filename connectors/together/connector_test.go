package together

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/lines"
)

type answers func(w http.ResponseWriter, r *http.Request)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	a(rec, r)
	return rec.Result(), nil
}

// taker keeps what a pull emits.
type taker struct {
	deliveries []event.BillingDelivery
	files      map[string]string
}

func (k *taker) Event(_ context.Context, e event.Event) error {
	if e.Type != event.TypeBillingDelivery {
		return nil
	}
	var d event.BillingDelivery
	err := e.Decode(&d)
	k.deliveries = append(k.deliveries, d)
	return err
}

func (k *taker) Archive(_ context.Context, name string, r io.Reader) (event.Object, error) {
	b, err := io.ReadAll(r)
	k.files[name] = string(b)
	return event.Object{Name: name, SHA256: name, Encoding: "csv"}, err
}

func total(t *testing.T, text string) string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var sum decimal.Decimal
	for i, n := range rows[0] {
		for _, r := range rows[1:] {
			if n == "BilledCost" {
				sum = sum.Add(decimal.RequireFromString(r[i]))
			}
		}
	}
	return sum.String()
}

func TestPagesAreAddedUpAndDuplicatesCount(t *testing.T) {
	t.Setenv("TOGETHER_TEST", "not-a-key")
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 10, 5, 6, 0, 0, 0, time.UTC)))
		c := newConnector("together", Config{Key: rest.Key{Env: "TOGETHER_TEST"}, BaseURL: "https://x.invalid/v1"})
		c.api.HTTP = &http.Client{Transport: answers(func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			item := `{"product_name":"Tokens","quantity":"10","unit_price":"0.00000088","cost":"0.0000088","pricing_dimensions":{"model":"m"},"attributes":{"n":1}}`
			switch {
			case q.Get("month") == "2026-10":
				fmt.Fprint(w, `{"currency":"USD","data":[{"date":"2026-10-02","line_items":[`+item+`]}],"next_cursor":null}`)
			case q.Get("after") == "":
				fmt.Fprint(w, `{"currency":"USD","data":[{"date":"2026-09-01","line_items":[`+item+`,`+item+`]}],"next_cursor":"n"}`)
			default:
				fmt.Fprint(w, `{"currency":"USD","data":[{"date":"2026-09-03","line_items":[]}],"next_cursor":null}`)
			}
		})}
		k := taker{files: map[string]string{}}
		cur, err := c.Pull(t.Context(), nil, &k)
		if err != nil {
			t.Fatal(err)
		}
		if len(k.deliveries) != 2 || len(k.deliveries[0].Covers) != 30 || fmt.Sprint(k.deliveries[1].Covers) != "[2026-10-01 2026-10-02]" {
			t.Fatalf("deliveries %+v", k.deliveries)
		}
		again := taker{files: map[string]string{}}
		if _, err := c.Pull(t.Context(), cur, &again); err != nil || len(again.deliveries) != 0 {
			t.Errorf("the same answers again: %v, %d deliveries", err, len(again.deliveries))
		}
		if got := total(t, k.files["together 2026-09"]); got != "0.0000176" {
			t.Errorf("September is %s, want 0.0000176", got)
		}
	})
}

func TestSample(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/together_billing_usage.json")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := lines.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	days, err := fileLines(t.Context(), []connectors.File{{Name: "f", Source: "s", Account: "s", Body: bytes.NewReader(b)}}, w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil || fmt.Sprint(days) != "[2026-09-01]" || total(t, out.String()) != "574.96" {
		t.Errorf("%v %v %s", err, days, total(t, out.String()))
	}
}

func TestAMissingBetaSaysWhatToDo(t *testing.T) {
	t.Setenv("TOGETHER_TEST", "not-a-key")
	c := newConnector("together", Config{Key: rest.Key{Env: "TOGETHER_TEST"}, BaseURL: "https://x.invalid/v1"})
	c.api.HTTP = &http.Client{Transport: answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })}
	_, err := c.Pull(t.Context(), nil, &taker{files: map[string]string{}})
	if !connectors.IsPermanent(err) || !strings.Contains(err.Error(), "enable it") {
		t.Errorf("%v", err)
	}
	if f := c.Doctor(t.Context()); f[0].Level != connectors.Fail {
		t.Errorf("%+v", f)
	}
}

func FuzzPages(f *testing.F) {
	b, err := os.ReadFile("testdata/together_billing_usage.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) {
		w, err := lines.NewWriter(io.Discard)
		if err != nil {
			panic(err)
		}
		_, _ = fileLines(context.Background(), []connectors.File{{Name: "f", Source: "s", Account: "s", Body: bytes.NewReader(b)}}, w)
	})
}
