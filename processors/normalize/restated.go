package normalize

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Restated is the payload of ledger.restated: a scope shows another delivery than before.
type Restated struct {
	Scope      string            `json:"scope"`
	Source     string            `json:"source"`
	Dataset    string            `json:"dataset"`
	OldLoad    uint64            `json:"old_load"`
	Load       uint64            `json:"load"`
	OldVersion string            `json:"old_version,omitempty"`
	Version    string            `json:"version,omitempty"`
	OldRows    uint64            `json:"old_rows"`
	Rows       uint64            `json:"rows"`
	OldBilled  map[string]string `json:"old_billed"` // by currency
	Billed     map[string]string `json:"billed"`
}

// tellRestated publishes what changed. The commit came first: a notice that cannot be sent
// is logged, and the delivery log has the same figures.
func (a *attempt) tellRestated(ctx context.Context, wins []Scope, before []live) {
	was := map[string]live{}
	for _, l := range before {
		was[l.Scope] = l
	}
	for _, s := range wins {
		old, ok := was[s.Name]
		if !ok || old.Load == 0 {
			continue
		}
		r := Restated{
			Scope: s.Name, Source: a.d.Source, Dataset: a.format.Dataset, OldLoad: old.Load, Load: s.Load, OldVersion: old.Version,
			Version: a.version, OldRows: old.Rows, Rows: s.Rows, OldBilled: old.Billed, Billed: map[string]string{},
		}
		for c, b := range s.Billed {
			r.Billed[c] = b.String()
		}
		e, err := event.New(event.TypeLedgerRestated, "idlewatt/normalize", s.Name, fmt.Sprint(s.Load), a.p.Now(), r)
		if err == nil {
			err = bus.Publish(ctx, a.p.JS, e)
		}
		if err != nil {
			a.p.Log.WarnContext(ctx, "telling of a restatement", slog.String("scope", s.Name), slog.String("error", err.Error()))
		}
	}
}
