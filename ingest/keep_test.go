package ingest

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/idlewatt/idlewatt/connectors"
)

// breaker keeps its progress at a and at b, and then fails.
type breaker struct{ began []string }

func (c *breaker) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	c.began = append(c.began, string(cur))
	for _, next := range []string{`"a"`, `"b"`} {
		if err := connectors.Keep(ctx, emit, connectors.Cursor(next), "done with "+next); err != nil {
			return cur, err
		}
	}
	return cur, errBroken
}

var errBroken = errors.New("it broke off")

// What a pull saved on its way holds, although the pull failed.
func TestProgressIsKept(t *testing.T) {
	t.Parallel()
	var told []string
	p := Puller{Publisher: publisher(t), Log: slog.New(slog.DiscardHandler), Progress: func(source, line string) { told = append(told, source+" "+line) }}
	c := &breaker{}
	for range 2 {
		if err := p.Once(t.Context(), Source{Name: "long", Connector: c}); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
	if len(c.began) != 2 || c.began[0] != "" || c.began[1] != `"b"` {
		t.Errorf("pulls began at %q", c.began)
	}
	if len(told) != 4 || told[0] != `long done with "a"` {
		t.Errorf("told %q", told)
	}
}
