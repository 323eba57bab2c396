// Package rest asks the JSON APIs of GPU clouds politely: it keeps to minimum intervals and
// rate-limit headers, bounds bodies, and sorts failures into those worth another try.
//
// What an answer means is the connector's matter that asked.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
)

// maxBody bounds an answer; the largest page known is some 500 KB.
const maxBody = 32 << 20

// ErrTooLarge marks an answer that was not read whole; asking for less may help.
var ErrTooLarge = errors.New("too large")

// Client asks one provider with one key. The zero Interval asks as fast as answers come.
type Client struct {
	Provider string // for messages
	Base     string // e.g. https://api.runpod.io/v2, without a slash at the end
	Key      Key
	// Authorize puts the key on a request; nil sends it as a Bearer token.
	Authorize func(r *http.Request, key string)
	HTTP      *http.Client
	Interval  time.Duration // the least time between two requests, unless the call says more
	Now       func() time.Time

	mu    sync.Mutex
	ready map[string]time.Time // per lane: when the next request may go
	skew  time.Duration        // see Skew
	dated bool
}

// Call is one request.
type Call struct {
	Method string // GET if empty
	Path   string // below Base, with its slash
	Query  url.Values
	Body   any // encoded as JSON; nil sends none
	// Lane and Interval keep requests of one kind apart in time; no lane is the client's own.
	Lane     string
	Interval time.Duration
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	Status int
	Said   string // what the provider's error document says, shortened
	msg    string
}

func (e *StatusError) Error() string { return e.msg }

// Do sends the request and decodes the answer into v, numbers kept as text where v says so
// (json.Number). It returns the answer's bytes. Errors are classified: a refused key or route
// is permanent, a 429 carries how long to wait, all else is tried again later.
func (c *Client) Do(ctx context.Context, call Call, v any) ([]byte, error) {
	key, err := c.Key.Read()
	if err != nil {
		return nil, connectors.Permanent(fmt.Errorf("asking %s: %w", c.Provider, err))
	}
	if err := c.wait(ctx, call); err != nil {
		return nil, err
	}
	req, err := c.request(ctx, call)
	if err != nil {
		return nil, connectors.Permanent(fmt.Errorf("asking %s: %w", c.Provider, err))
	}
	if c.Authorize != nil {
		c.Authorize(req, key)
	} else {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	body, err := c.send(req, call)
	if err != nil {
		return nil, hide(err, key)
	}
	if v == nil {
		return body, nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return body, fmt.Errorf("asking %s: %s %s answered no such JSON as documented: %w", c.Provider, req.Method, call.Path, err)
	}
	return body, nil
}

func (c *Client) request(ctx context.Context, call Call) (*http.Request, error) {
	method := call.Method
	if method == "" {
		method = http.MethodGet
	}
	u := c.Base + call.Path
	if len(call.Query) > 0 {
		u += "?" + call.Query.Encode()
	}
	var body io.Reader
	if call.Body != nil {
		b, err := json.Marshal(call.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "idlewatt")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

func (c *Client) send(req *http.Request, call Call) ([]byte, error) {
	res, err := c.client().Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", c.Provider, err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	c.heed(call, res.Header)
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("asking %s: reading the answer of %s: %w", c.Provider, call.Path, err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("asking %s: the answer of %s is over %d MiB: %w", c.Provider, call.Path, maxBody>>20, ErrTooLarge)
	}
	if res.StatusCode/100 == 2 {
		return body, nil
	}
	return nil, c.refused(call, res, body)
}

// refused sorts an error answer.
func (c *Client) refused(call Call, res *http.Response, body []byte) error {
	e := &StatusError{Status: res.StatusCode, Said: said(body)}
	method := call.Method
	if method == "" {
		method = http.MethodGet
	}
	e.msg = fmt.Sprintf("asking %s: %s %s: %s", c.Provider, method, call.Path, res.Status)
	if e.Said != "" {
		e.msg += ": " + e.Said
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		e.msg += fmt.Sprintf("; the key from %s is not accepted: make a new one", c.Key.Where())
		return connectors.Permanent(e)
	case res.StatusCode == http.StatusForbidden:
		e.msg += fmt.Sprintf("; the key from %s may not read this: give it read access", c.Key.Where())
		return connectors.Permanent(e)
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != "":
		return connectors.RetryAfterError{Err: e, After: retryAfter(res.Header, body, c.now())}
	case res.StatusCode == http.StatusGone || res.StatusCode == http.StatusNotFound || res.StatusCode/100 == 4 && res.StatusCode != http.StatusRequestTimeout && res.StatusCode != http.StatusConflict:
		return connectors.Permanent(e)
	default:
		return e
	}
}

func (c *Client) client() *http.Client {
	if c.HTTP != nil {
		return c.HTTP
	}
	return defaultClient
}

// defaultClient follows no redirect: one that drops a slash was seen to answer an empty list.
var defaultClient = &http.Client{
	Timeout:       time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (c *Client) now() time.Time {
	now := c.Now
	if now == nil {
		now = time.Now
	}
	return now()
}

// said returns what an error document says, in the forms that providers use, shortened.
func said(body []byte) string {
	var doc struct {
		Title, Detail, Message, Msg, Error json.RawMessage
	}
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &doc) == nil {
		var parts []string
		for _, raw := range []json.RawMessage{doc.Title, doc.Detail, doc.Error, doc.Message, doc.Msg} {
			var s string
			var nested struct{ Code, Message, Suggestion string }
			switch {
			case raw == nil:
			case json.Unmarshal(raw, &s) == nil:
				parts = append(parts, s)
			case json.Unmarshal(raw, &nested) == nil:
				parts = append(parts, strings.TrimSpace(nested.Code+" "+nested.Message+" "+nested.Suggestion))
			}
		}
		text = strings.Join(parts, ": ")
	}
	if len(text) > 300 {
		text = text[:300] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// hide keeps the key out of a message, whatever put it there.
func hide(err error, key string) error {
	if len(key) < 8 || !strings.Contains(err.Error(), key) {
		return err
	}
	clean := errors.New(strings.ReplaceAll(err.Error(), key, "[key]"))
	if after, ok := connectors.RetryAfter(err); ok {
		return connectors.RetryAfterError{Err: clean, After: after}
	}
	if connectors.IsPermanent(err) {
		return connectors.Permanent(clean)
	}
	return clean
}
