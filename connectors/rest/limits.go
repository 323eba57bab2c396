package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// wait holds a request back until its lane is free, and takes the lane.
func (c *Client) wait(ctx context.Context, call Call) error {
	gap := max(c.Interval, call.Interval)
	c.mu.Lock()
	if c.ready == nil {
		c.ready = map[string]time.Time{}
	}
	now := c.now()
	at := now
	for _, lane := range []string{call.Lane, every} {
		if t := c.ready[lane]; t.After(at) {
			at = t
		}
	}
	c.ready[call.Lane] = at.Add(gap)
	c.mu.Unlock()
	if !at.After(now) {
		return ctx.Err()
	}
	t := time.NewTimer(at.Sub(now))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// every is the lane that all requests pass.
const every = "\x00"

// longest is how long a header may make us wait inside a pull; what is longer is an error then.
const longest = time.Minute

var limitItem = regexp.MustCompile(`r=(\d+);t=(\d+)`)

// heed holds further requests back when an answer says that none is left:
// RateLimit: "minute";r=0;t=12, "hour";r=2900;t=1800 (IETF draft, as RunPod sends it).
func (c *Client) heed(_ Call, h http.Header) {
	c.note(h)
	for _, m := range limitItem.FindAllStringSubmatch(h.Get("RateLimit"), -1) {
		left, err1 := strconv.Atoi(m[1])
		reset, err2 := strconv.Atoi(m[2])
		if err1 != nil || err2 != nil || left > 0 {
			continue
		}
		pause := min(time.Duration(reset)*time.Second, longest)
		c.mu.Lock()
		if at := c.now().Add(pause); at.After(c.ready[every]) {
			c.ready[every] = at
		}
		c.mu.Unlock()
	}
}

// retryAfter is how long to wait: the header in seconds or as a date, a field of the body, or
// half a minute.
func retryAfter(h http.Header, body []byte, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 && s < 86400*2 {
		return time.Duration(s * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil && t.After(now) {
		return t.Sub(now)
	}
	var doc struct {
		RetryAfter float64 `json:"retry_after"`
	}
	if json.Unmarshal(body, &doc) == nil && doc.RetryAfter > 0 && doc.RetryAfter < 86400*2 {
		return time.Duration(doc.RetryAfter * float64(time.Second))
	}
	return 30 * time.Second
}

// Skew returns by how much this machine's clock was ahead of the provider's at the last
// answer, by its Date header, which has whole seconds; ok is false before one.
func (c *Client) Skew() (skew time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew, c.dated
}

// note remembers the difference of the clocks.
func (c *Client) note(h http.Header) {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew, c.dated = c.now().Sub(t), true
}
