package awscur

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
)

// Factory describes the connector.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "awscur", Summary: "AWS billing exports in S3: CUR 2.0, FOCUS and legacy Cost and Usage Reports", Every: time.Hour,
		NewConfig: func() connectors.Config { return &Config{Kind: kindAuto} },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: config is a %T", source, cfg)
			}
			return &connector{source: source, cfg: *c, now: time.Now, stall: 2 * time.Minute}, nil
		},
	}
}

type connector struct {
	source string
	cfg    Config
	now    func() time.Time
	stall  time.Duration     // a download without a byte for so long is taken up anew
	tune   func(*aws.Config) // for tests; may be nil
}

// monthError is a failure of one month that says nothing about the others.
type monthError struct {
	month string
	err   error
}

func (e monthError) Error() string { return e.month + ": " + e.err.Error() }
func (e monthError) Unwrap() error { return e.err }

// Pull delivers every billing month that is new or was restated, oldest first. Each is one
// delivery. Progress is kept month by month, so that a back-fill that breaks off goes on where
// it was. A month that fails holds up no other; what fails for all ends the pull at once.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	st, err := readCursor(cur, c.cfg.place())
	if err != nil {
		return cur, err
	}
	s, err := c.open(ctx)
	if err != nil {
		return cur, err
	}
	defer s.close()
	found, err := s.find(ctx)
	if err != nil {
		return cur, err
	}
	var failed []monthError
	for _, f := range found {
		if f.month < c.cfg.Since || !st.due(f.month, c.now()) {
			continue
		}
		next, note, err := s.take(ctx, f, st.Months[f.month], emit)
		var m monthError
		switch {
		case ctx.Err() != nil:
			return cur, ctx.Err()
		case errors.As(err, &m):
			failed = append(failed, m)
			continue
		case err != nil:
			return cur, err
		}
		if st.Months[f.month] == next {
			continue
		}
		st.Months[f.month] = next
		if cur, err = st.raw(); err != nil {
			return cur, err
		}
		if err := connectors.Keep(ctx, emit, cur, note); err != nil {
			return cur, err
		}
	}
	return cur, together(failed)
}

// together makes one error of those of several months.
func together(failed []monthError) error {
	errs := make([]error, len(failed))
	for i, m := range failed {
		errs[i] = m
	}
	return awsapi.Together(errs, true)
}
