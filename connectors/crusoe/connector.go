package crusoe

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
	"github.com/idlewatt/idlewatt/schema/lines"
)

type connector struct {
	source string
	cfg    Config
	api    *rest.Client
	now    func() time.Time
}

func newConnector(source string, cfg Config) *connector {
	c := &connector{source: source, cfg: cfg, now: time.Now}
	c.api = &rest.Client{
		Provider: "Crusoe", Base: cfg.BaseURL, Key: cfg.Key, Interval: time.Second,
		Authorize: func(r *http.Request, secret string) { sign(r, cfg.KeyID, secret, c.now()) },
	}
	return c
}

// cursor remembers the last answer by its own stamp.
type cursor struct {
	Updated string `json:"updated"`
}

// Pull delivers all complete days of the answer, if it is newer than the last one. The answer
// has no window to ask for: it covers its own days.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	var last cursor
	if cur != nil {
		if err := json.Unmarshal(cur, &last); err != nil {
			return cur, connectors.Permanent(fmt.Errorf("reading cursor: %w", err))
		}
	}
	var a answer
	raw, err := c.ask(ctx, &a)
	if err != nil {
		return cur, err
	}
	if a.Updated == last.Updated && a.Updated != "" {
		return cur, nil
	}
	days, err := a.days()
	if err != nil {
		return cur, err
	}
	asked := c.now()
	if t, err := time.Parse(time.RFC3339, a.Updated); err == nil {
		asked = t
	}
	if err := connectors.Evidence(ctx, emit, c.source, "crusoe", "costs.json", raw, asked); err != nil {
		return cur, err
	}
	err = connectors.DeliverLines(ctx, emit, c.source, "crusoe "+a.Updated, asked, days, func(w *lines.Writer) error {
		return a.write(w, c.cfg.Organization, c.cfg.Projects, "costs", days)
	})
	if err != nil {
		return cur, err
	}
	return json.Marshal(cursor{Updated: a.Updated})
}

func (c *connector) ask(ctx context.Context, a *answer) ([]byte, error) {
	return c.api.Do(ctx, rest.Call{Path: "/organizations/" + c.cfg.Organization + "/billing/costs"}, a)
}

// Doctor asks once and says what came.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	what := "GET /organizations/" + c.cfg.Organization + "/billing/costs"
	var a answer
	if _, err := c.ask(ctx, &a); err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: what, Said: err.Error(), Fix: "check key_id, the secret in " + c.cfg.Where() + " and organization_id; a clock more than a few minutes off also spoils the signature"}}
	}
	days, err := a.days()
	if err != nil {
		return []connectors.Finding{{Level: connectors.Fail, What: what, Said: err.Error(), Fix: "report it: the answer is not of the documented form"}}
	}
	if len(days) == 0 {
		return []connectors.Finding{{Level: connectors.Warn, What: what, Said: "no complete day yet", Fix: "Crusoe updates costs daily just after 00:00 UTC; wait for the first"}}
	}
	return []connectors.Finding{{Level: connectors.OK, What: what, Said: fmt.Sprintf("%d costs of %s to %s", len(a.Data), days[0], days[len(days)-1])}}
}

// sign puts Crusoe's signature on a request: an HMAC over path, sorted query, verb and time,
// each on a line of its own (client-go auth/auth.go).
func sign(r *http.Request, id, secret string, now time.Time) {
	stamp := now.UTC().Format(time.RFC3339)
	r.Header.Set("X-Crusoe-Timestamp", stamp)
	key, err := base64.RawURLEncoding.DecodeString(secret)
	if err != nil {
		key = []byte(secret) // refused by the provider, with its own words
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n", r.URL.Path, r.URL.Query().Encode(), r.Method, stamp)
	r.Header.Set("Authorization", "Bearer 1.0:"+id+":"+base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
}
