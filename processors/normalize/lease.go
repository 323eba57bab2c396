package normalize

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// leaseTime is how long a lease holds without being given back: longer than any commit, so
// that a killed holder does not block an account for good.
const leaseTime = 30 * time.Second

// leases let one committer at a time work on a billing account, across processes.
type leases struct {
	kv  jetstream.KeyValue
	now func() time.Time
}

type lease struct {
	Until time.Time `json:"until"`
}

// acquire takes the lease of every account, in order, waiting for those in other hands.
// release gives them back.
func (l leases) acquire(ctx context.Context, accounts []string) (release func(), err error) {
	type held struct {
		key string
		rev uint64
	}
	var got []held
	release = func() {
		for _, h := range got {
			// Only our own revision: if the lease ran out, it is another's now.
			_ = l.kv.Purge(context.WithoutCancel(ctx), h.key, jetstream.LastRevision(h.rev))
		}
	}
	for _, a := range accounts {
		sum := sha256.Sum256([]byte(a))
		key := hex.EncodeToString(sum[:12])
		rev, err := l.take(ctx, key)
		if err != nil {
			release()
			return nil, err
		}
		got = append(got, held{key, rev})
	}
	return release, nil
}

func (l leases) take(ctx context.Context, key string) (uint64, error) {
	for {
		body, err := json.Marshal(lease{Until: l.now().Add(leaseTime)})
		if err != nil {
			return 0, err
		}
		rev, err := l.kv.Create(ctx, key, body)
		if err == nil {
			return rev, nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return 0, fmt.Errorf("taking lease: %w", err)
		}
		e, err := l.kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("reading lease: %w", err)
		}
		var have lease
		if json.Unmarshal(e.Value(), &have) != nil || l.now().After(have.Until) || have.Until.Sub(l.now()) > 2*leaseTime {
			if rev, err := l.kv.Update(ctx, key, body, e.Revision()); err == nil {
				return rev, nil
			}
			continue
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}
