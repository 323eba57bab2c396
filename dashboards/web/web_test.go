package web_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/dashboards/web"
	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/schema/migrations"
)

func TestMain(m *testing.M) { localtest.Main(m) }

func open(t *testing.T) driver.Conn {
	t.Helper()
	engines := localtest.Fresh(t)
	db, err := clickhouse.Open(engines.ClickHouseOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if strings.Contains(t.Name(), "Empty") {
		sql := clickhouse.OpenDB(engines.ClickHouseOptions())
		defer sql.Close() //nolint:errcheck // test
		if err := migrations.Apply(t.Context(), sql, "Europe/Berlin"); err != nil {
			t.Fatal(err)
		}
		return db
	}
	text, err := os.ReadFile("../query/testdata/demo.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, stmt := range strings.Split(string(text), "\n;;\n") {
		if err := db.Exec(t.Context(), stmt); err != nil {
			t.Fatalf("%.120s: %v", stmt, err)
		}
	}
	return db
}

func serve(t *testing.T, db driver.Conn) *httptest.Server {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 31, 9, 30, 0, 0, time.UTC)
	h, err := web.New(web.Options{DB: query.New(db), Zone: zone, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, s *httptest.Server, method, path string) (answer, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // test
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header}, string(body)
}

type answer struct {
	StatusCode int
	Header     http.Header
}

var (
	inlineStyle  = regexp.MustCompile(` style="`)
	scriptOrLoad = regexp.MustCompile(`(?i)<script|<link|<img|<iframe| on[a-z]+=|src=`)
)

func TestHome(t *testing.T) {
	t.Parallel()
	s := serve(t, open(t))
	resp, body := get(t, s, http.MethodGet, "/")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d: %s", resp.StatusCode, body)
	}
	if file := os.Getenv("IDLEWATT_PAGE"); file != "" { // to look at it
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"GPU spend <span class=\"period\">2026-05</span>", "200,908.85 USD", "662.74 EUR", "trn-07", "1,414.99", "lab-&lt;b&gt;1&lt;/b&gt;",
		"refused", "is no amount", "charges &lt;may&gt;.json", "/reports/allocation?by=team%2Cproject&amp;format=csv&amp;month=2026-05", "(untagged)",
		"resource without telemetry", "/?month=2026-04", "Running now", "finetune-&lt;7&gt;", "82.94", "no rate", "129.12", "2026-06-01 11:25", "2880 blank", "dial &lt;tcp&gt;: connection refused",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	if strings.Contains(body, "forgotten") {
		t.Error("what was seen weeks ago is said to run")
	}
	if strings.Contains(body, "/?month=2026-06") {
		t.Error("the page links to a month to come")
	}
	for _, bad := range []*regexp.Regexp{inlineStyle, scriptOrLoad} {
		if m := bad.FindString(body); m != "" {
			t.Errorf("the page holds %q, which its policy forbids", m)
		}
	}
	policy := resp.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
}

func TestHomeOnEmptyStore(t *testing.T) {
	t.Parallel()
	s := serve(t, open(t))
	resp, body := get(t, s, http.MethodGet, "/")
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, "Nothing was delivered yet") || !strings.Contains(body, "No charges in this month.") ||
		strings.Contains(body, "Running now") {
		t.Errorf("%d: %s", resp.StatusCode, body)
	}
}

func TestReports(t *testing.T) {
	t.Parallel()
	s := serve(t, open(t))
	for path, want := range map[string]struct {
		status            int
		contentType, text string
	}{
		"/reports/allocation":                            {200, "text/html", "The books close"},
		"/reports/allocation?month=2026-05&by=team,node": {200, "text/html", "Cost by team, node"},
		"/reports/allocation?format=csv":                 {200, "text/csv", "billing_period,currency,project,effective_cost"},
		"/reports/idle?format=json":                      {200, "application/json", `"report": "idle"`},
		"/reports/jobs?format=md":                        {200, "text/markdown", "# Cost of jobs, 2026-05"},
		"/reports/reconciliation?format=table":           {200, "text/plain", "no invoice"},
		"/reports/allocation?format=pdf":                 {400, "text/plain", "unknown format"},
		"/reports/allocation?by=colour":                  {400, "text/plain", "unknown dimension"},
		"/reports/allocation?month=5":                    {400, "text/plain", "want YYYY-MM"},
		"/?month=x":                                      {400, "text/plain", "want YYYY-MM"},
		"/reports/secrets":                               {404, "text/plain", "not found"},
		"/nothing":                                       {404, "text/plain", "not found"},
	} {
		resp, body := get(t, s, http.MethodGet, path)
		if resp.StatusCode != want.status || !strings.HasPrefix(resp.Header.Get("Content-Type"), want.contentType) || !strings.Contains(body, want.text) {
			t.Errorf("%s: %d %s %.80s", path, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
		if resp.Header.Get("Content-Security-Policy") == "" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", path, resp.Header)
		}
	}
	if resp, _ := get(t, s, http.MethodPost, "/"); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", resp.StatusCode)
	}
	if resp, body := get(t, s, http.MethodHead, "/"); resp.StatusCode != http.StatusOK || body != "" {
		t.Errorf("HEAD: %d", resp.StatusCode)
	}
}

func TestRefusedBooksAndFailures(t *testing.T) {
	t.Parallel()
	db := open(t)
	s := serve(t, db)
	for _, stmt := range []string{
		"DROP VIEW idlewatt.charges",
		"CREATE VIEW idlewatt.charges AS SELECT * REPLACE (EffectiveCost + 1 AS EffectiveCost) FROM idlewatt.allocations",
	} {
		if err := db.Exec(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	if resp, body := get(t, s, http.MethodGet, "/reports/allocation"); resp.StatusCode != http.StatusConflict || !strings.Contains(body, "difference") {
		t.Errorf("%d: %s", resp.StatusCode, body)
	}
	if resp, body := get(t, s, http.MethodGet, "/"); resp.StatusCode != http.StatusOK || !strings.Contains(body, "The books do not close") || !strings.Contains(body, "trn-07") {
		t.Errorf("%d: %.200s", resp.StatusCode, body)
	}
	if err := errors.Join(db.Exec(t.Context(), "DROP VIEW idlewatt.charges")); err != nil {
		t.Fatal(err)
	}
	if resp, body := get(t, s, http.MethodGet, "/"); resp.StatusCode != http.StatusInternalServerError || strings.Contains(body, "idlewatt.charges") {
		t.Errorf("%d: %s", resp.StatusCode, body)
	}
}
