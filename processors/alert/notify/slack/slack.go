package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
)

const (
	defaultTimeout = 10 * time.Second
	// gap is Slack's limit of one message a second per channel.
	gap = time.Second
	// maxWait is how long Send waits by itself. A longer wait goes back to the caller, who
	// keeps the message.
	maxWait = 30 * time.Second
)

// Clock tells the time and waits. Sleep returns early, with the context's error, when the
// context ends.
type Clock struct {
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Options make a Notifier.
type Options struct {
	URL     Secret
	Client  *http.Client // default: one with the timeout below
	Timeout time.Duration
	Now     func() time.Time
	// Sleep is for tests; nil waits in real time.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Notifier posts to one incoming webhook, one message at a time and in order.
type Notifier struct {
	url    Secret
	client *http.Client
	clock  Clock

	mu        sync.Mutex
	notBefore time.Time
}

// New returns a notifier for one webhook.
func New(o Options) (*Notifier, error) {
	if o.URL.text == "" {
		return nil, errors.New("making Slack notifier: no webhook URL")
	}
	if o.Now == nil {
		return nil, errors.New("making Slack notifier: no clock")
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Client == nil {
		if o.Timeout <= 0 {
			o.Timeout = defaultTimeout
		}
		o.Client = &http.Client{
			Timeout: o.Timeout,
			// A redirect would carry the message to a place nobody configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Notifier{url: o.URL, client: o.Client, clock: Clock{Now: o.Now, Sleep: o.Sleep}}, nil
}

// Open reads the secret and makes the notifier that a configuration describes.
func Open(c Config, getenv func(string) string, now func() time.Time) (*Notifier, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	secret, err := c.WebhookURL(getenv)
	if err != nil {
		return nil, err
	}
	timeout, err := c.timeout()
	if err != nil {
		return nil, err
	}
	return New(Options{URL: secret, Timeout: timeout, Now: now})
}

// Send posts the message. Told to wait (429), it waits as long as told and sends the same
// message again, up to half a minute in all; a longer wait is a *notify.RetryError, and
// until it is over no other message of this notifier goes out either.
func (n *Notifier) Send(ctx context.Context, m notify.Message) error {
	body, err := json.Marshal(Payload(m))
	if err != nil {
		return &notify.PermanentError{Err: fmt.Errorf("encoding message: %w", err)}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	deadline := n.clock.Now().Add(maxWait)
	for {
		if n.notBefore.After(deadline) {
			return &notify.RetryError{After: n.notBefore.Sub(n.clock.Now()), Err: errors.New("slack asked to wait")}
		}
		if d := n.notBefore.Sub(n.clock.Now()); d > 0 {
			if err := n.clock.Sleep(ctx, d); err != nil {
				return &notify.RetryError{Err: err}
			}
		}
		err := n.post(ctx, body)
		now := n.clock.Now()
		n.notBefore = now.Add(gap)
		retry, ok := errors.AsType[*notify.RetryError](err)
		if !ok {
			return err
		}
		if retry.After <= 0 { // no wait was named: the caller knows better when to come back
			return err
		}
		n.notBefore = now.Add(max(retry.After, gap))
		if n.notBefore.After(deadline) {
			return err
		}
	}
}

func (n *Notifier) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url.text, bytes.NewReader(body))
	if err != nil {
		return &notify.PermanentError{Err: errors.New("building request: the webhook URL is not valid")}
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := n.client.Do(req)
	if err != nil {
		return &notify.RetryError{Err: fmt.Errorf("posting to slack: %w", withoutURL(err))}
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return &notify.RetryError{Err: fmt.Errorf("reading slack's answer: %w", withoutURL(err))}
	}
	return Judge(Webhook, resp.StatusCode, resp.Header, answer, n.clock.Now())
}

// withoutURL drops the URL, which is the secret, from what the HTTP client says.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
