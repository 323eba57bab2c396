package rest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors/rest"
)

func TestClocksAreCompared(t *testing.T) { //nolint:paralleltest // environment
	date := ""
	c := client(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", date)
		_, _ = w.Write([]byte(`{}`))
	})
	c.Now = func() time.Time { return time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC) }
	for _, x := range []struct {
		date string
		want time.Duration
		ok   bool
	}{
		{"", 0, false},
		{"Sun, 01 Nov 2026 09:58:00 GMT", 2 * time.Minute, true},
		{"no date", 2 * time.Minute, true},
	} {
		date = x.date
		if _, err := c.Do(t.Context(), rest.Call{Path: "/"}, nil); err != nil {
			t.Fatal(err)
		}
		if got, ok := c.Skew(); got != x.want || ok != x.ok {
			t.Errorf("Date %q: %v, %v", x.date, got, ok)
		}
	}
}
