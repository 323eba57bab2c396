package vast

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/event"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dec(s string) decimal.Decimal { return decimal.RequireFromString(s) }

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	return b
}

const secret = "k3y-of-the-test-0815"

// span is a time in which a contract ran; a zero to is not over.
type span struct{ from, to time.Time }

func (s span) until(end time.Time) time.Time {
	if s.to.IsZero() || s.to.After(end) {
		return end
	}
	return s.to
}

// rental is a contract of the fake.
type rental struct {
	id         int
	label, gpu string
	gpus       int
	bid        bool
	gpuRate    string
	diskRate   string
	exists     span
	ran        []span
	util       string
}

// fake is a Vast.ai with a clock.
type fake struct {
	t        testing.TB
	now      func() time.Time
	rentals  []rental
	pageSize int // of charges
	late     time.Duration
	asked    []request
	answer   map[string]func(w http.ResponseWriter, r *http.Request)
}

// request is one that was asked.
type request struct {
	path string
	at   time.Time
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	w.Header().Set("Date", f.now().UTC().Format(http.TimeFormat))
	f.asked = append(f.asked, request{path: r.URL.Path, at: f.now()})
	switch special := f.answer[r.URL.Path]; {
	case r.Header.Get("Authorization") != "Bearer "+secret:
		w.WriteHeader(http.StatusUnauthorized)
	case special != nil:
		special(w, r)
	case r.URL.Path == "/api/v1/instances/":
		f.instances(w, r)
	case r.URL.Path == "/api/v0/charges/":
		f.charges(w, r)
	case r.URL.Path == "/api/v0/volumes/":
		_, _ = w.Write(read(f.t, "vast_v0_volumes.json"))
	case r.URL.Path == "/api/v0/users/current/":
		_, _ = w.Write(read(f.t, "vast_v0_users_current.json"))
	case r.URL.Path == "/api/v0/metrics/gpu/current/":
		_, _ = w.Write(read(f.t, "vast_v0_metrics_gpu_current.json"))
	case r.URL.Path == "/api/v0/bundles/":
		_, _ = w.Write(read(f.t, "vast_v0_bundles_offers.json"))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

func (s span) holds(at time.Time) bool {
	return !at.Before(s.from) && (s.to.IsZero() || at.Before(s.to))
}

func (c rental) running(at time.Time) bool {
	return slices.ContainsFunc(c.ran, func(s span) bool { return s.holds(at) })
}

// instances answers pages of 25, secrets included: the connector has to leave them out.
func (f *fake) instances(w http.ResponseWriter, r *http.Request) {
	if n, err := strconv.Atoi(r.URL.Query().Get("limit")); err != nil || n > 25 || strings.Contains(r.URL.Query().Get("select_cols"), "token") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	now := f.now()
	rows := []map[string]any{}
	for _, c := range f.rentals {
		if !c.exists.holds(now) {
			continue
		}
		status := "exited"
		if c.running(now) {
			status = statusRunning
		}
		row := map[string]any{
			"id": c.id, "actual_status": status, "num_gpus": c.gpus, "gpu_name": c.gpu, "gpu_ram": 24576, "is_bid": c.bid,
			"dph_base": json.Number(c.gpuRate), "storage_total_cost": json.Number(c.diskRate), "geolocation": "Norway, NO",
			"start_date": float64(c.exists.from.UnixMilli()) / 1000, "credit_balance": nil, "label": nil, "gpu_util": nil,
			"jupyter_token": "SECRET-jupyter", "extra_env": []any{[]string{"HF_TOKEN", "SECRET-env"}}, "onstart": "SECRET-onstart",
			"ssh_host": "SECRET-ssh", "public_ipaddr": "203.0.113.7",
		}
		if c.label != "" {
			row["label"] = c.label
		}
		if c.util != "" {
			row["gpu_util"] = json.Number(c.util)
		}
		rows = append(rows, row)
	}
	from, token := window(r, len(rows), 25)
	answer(w, map[string]any{
		"success": true, "instances_found": len(rows), "total_instances": len(rows), "next_token": token, "instances": rows[from:min(from+25, len(rows))],
	})
}

func answer(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(b)
}

func window(r *http.Request, rows, size int) (from int, next any) {
	from, _ = strconv.Atoi(strings.TrimPrefix(r.URL.Query().Get("after_token"), "t"))
	if from+size < rows {
		return from, fmt.Sprint("t", from+size)
	}
	return from, nil
}

// overlap is how long a span lies in a day.
func overlap(s span, day time.Time, now time.Time) time.Duration {
	from, to := s.from, s.until(now)
	if from.Before(day) {
		from = day
	}
	if end := day.Add(24 * time.Hour); to.After(end) {
		to = end
	}
	return max(0, to.Sub(from))
}

func (f *fake) item(kind string, d time.Duration, rate string, day time.Time) (map[string]any, decimal.Decimal) {
	hours := decimal.NewFromInt(d.Milliseconds()).DivRound(decimal.NewFromInt(3600_000), 3)
	amount := hours.Mul(dec(rate)).Round(3)
	return map[string]any{
		"start": day.Unix(), "end": day.Unix(), "type": kind, "source": nil, "amount": json.Number(amount.String()), "metadata": map[string]any{},
		"items": []any{}, "description": fmt.Sprintf("%s hours at $%s/hour", hours.StringFixed(3), rate),
	}, amount
}

// rows are the charges of a day, as far as they are known now.
func (f *fake) rows(day time.Time) (rows []map[string]any, sum decimal.Decimal) {
	now := f.now().Add(-f.late)
	for _, c := range f.rentals {
		exists := overlap(c.exists, day, now)
		if exists == 0 {
			continue
		}
		var ran time.Duration
		for _, s := range c.ran {
			ran += overlap(s, day, now)
		}
		items, total := []any{}, dec("0.001") // rows are rounded apart from their items
		if ran > 0 {
			i, a := f.item("gpu", ran, c.gpuRate, day)
			items, total = append(items, i), total.Add(a)
		}
		i, a := f.item("disk", exists, c.diskRate, day)
		items, total = append(items, i), total.Add(a)
		meta := map[string]any{}
		if c.label != "" {
			meta["label"] = c.label
		}
		rows = append(rows, map[string]any{
			"start": day.Unix(), "end": day.Unix(), "type": "instance", "source": fmt.Sprint("instance-", c.id), "metadata": meta,
			"amount": json.Number(total.String()), "items": items, "description": fmt.Sprintf("Instance %d Charges - 1 day", c.id),
		})
		sum = sum.Add(total)
	}
	return rows, sum
}

func (f *fake) charges(w http.ResponseWriter, r *http.Request) {
	var filter struct {
		Day struct{ GTE, LTE int64 }
	}
	if json.Unmarshal([]byte(r.URL.Query().Get("select_filters")), &filter) != nil || filter.Day.LTE-filter.Day.GTE != 86399 {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(read(f.t, "vast_v0_charges_error_400.json"))
		return
	}
	rows, _ := f.rows(time.Unix(filter.Day.GTE, 0).UTC())
	size := max(1, f.pageSize)
	from, token := window(r, len(rows), size)
	page := rows[from:min(from+size, len(rows))]
	if page == nil {
		page = []map[string]any{}
	}
	answer(w, map[string]any{"success": true, "count": len(page), "total": len(rows), "next_token": token, "results": page})
}

// source is a connector that asks the fake.
func (f *fake) source(t *testing.T, change func(*Config)) *connector {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(key, []byte(secret+"\n"), 0o600))
	cfg := defaults()
	cfg.Key, cfg.BaseURL = rest.Key{File: key}, "https://vast.invalid"
	if change != nil {
		change(cfg)
	}
	must(t, cfg.Validate())
	c, err := newConnector("src", *cfg, f.now, &http.Client{
		Transport: f, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	must(t, err)
	return c
}

// sink is an emitter that remembers, keeps cursors and fails where it is told to.
type sink struct {
	events []event.Event
	files  map[string][]byte
	kept   connectors.Cursor
	failAt int
}

var errRefused = errors.New("refused")

func (k *sink) Event(_ context.Context, e event.Event) error {
	if k.failAt--; k.failAt == 0 {
		return errRefused
	}
	k.events = append(k.events, e)
	return nil
}

func (k *sink) Archive(_ context.Context, name string, r io.Reader) (event.Object, error) {
	b, err := io.ReadAll(r)
	if k.files == nil {
		k.files = map[string][]byte{}
	}
	sum := event.ID(string(b), "", "")
	k.files[sum] = b
	return event.Object{SHA256: sum, Size: int64(len(b)), Name: name, Encoding: "csv", Compression: "none"}, err
}

func (k *sink) Save(_ context.Context, cur connectors.Cursor) error {
	k.kept = bytes.Clone(cur)
	return nil
}

func (k *sink) Progress(context.Context, string) {}

// pull pulls on from the kept cursor.
func (k *sink) pull(ctx context.Context, c *connector) error {
	next, err := c.Pull(ctx, k.kept, k)
	if err != nil {
		return err
	}
	return k.Save(ctx, next)
}

func of[T any](t testing.TB, k *sink, typ string) []T {
	t.Helper()
	var out []T
	for _, e := range k.events {
		if e.Type == typ {
			var v T
			must(t, e.Decode(&v))
			out = append(out, v)
		}
	}
	return out
}

// records reads a file of charge lines.
func records(t testing.TB, file []byte) []map[string]string {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	must(t, err)
	var out []map[string]string
	for _, r := range rows[1:] {
		m := map[string]string{}
		for i, h := range rows[0] {
			m[h] = r[i]
		}
		out = append(out, m)
	}
	return out
}

// live are the lines of each day, as the newest delivery that covers it has them.
func (k *sink) live(t testing.TB) map[string][]map[string]string {
	t.Helper()
	ds := of[event.BillingDelivery](t, k, event.TypeBillingDelivery)
	slices.SortStableFunc(ds, func(a, b event.BillingDelivery) int { return strings.Compare(a.Version, b.Version) })
	out := map[string][]map[string]string{}
	for _, d := range ds {
		for _, day := range d.Covers {
			out[day] = nil
		}
		for _, l := range records(t, k.files[d.Objects[0].SHA256]) {
			day := l["ChargePeriodStart"][:10]
			if !slices.Contains(d.Covers, day) {
				t.Errorf("a line of %s in a delivery of %v", day, d.Covers)
			}
			out[day] = append(out[day], l)
		}
	}
	return out
}

func sum(rows []map[string]string, keep func(map[string]string) bool) decimal.Decimal {
	var s decimal.Decimal
	for _, r := range rows {
		if keep == nil || keep(r) {
			s = s.Add(dec(r["BilledCost"]))
		}
	}
	return s
}

// runs are the runs as last told.
func (k *sink) runs(t testing.TB) map[string]event.Instance {
	t.Helper()
	out := map[string]event.Instance{}
	for _, i := range of[event.Instance](t, k, event.TypeInventoryInstance) {
		out[i.Kind+" "+i.ResourceID+" "+i.SeenFrom.Format(time.RFC3339)] = i
	}
	return out
}
