package normalize

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/schema/money"
)

// settleTime passes between the last part's becoming visible and the commit: readers that
// met a commit right after its parts saw the scope vanish (3 of 900 flips without a pause).
const settleTime = time.Second

// live is what a scope shows now.
type live struct {
	Scope, Source, Dataset, Version, Hash string
	Era                                   uint32 // see idlewatt_store.commits
	Load                                  uint64
	Doors                                 []string
	Start, End                            time.Time
	Rows                                  uint64
	Billed                                map[string]string // by currency, exact
}

const liveSQL = `
SELECT Scope, argMax(Source, o), argMax(Dataset, o), max(o).2, max(o).3, max(o).1, argMax(Load, o) AS load, argMax(Doors, o),
    argMax(PeriodStart, o), argMax(PeriodEnd, o), argMax(Rows, o), argMax(mapApply((k, v) -> (k, toString(v)), BilledCost), o)
FROM (SELECT *, (Era, Version, ContentHash) AS o FROM idlewatt_store.commits) GROUP BY Scope`

func (p *Processor) liveScopes(ctx context.Context) ([]live, error) {
	rows, err := p.db.Query(ctx, liveSQL)
	if err != nil {
		return nil, fmt.Errorf("reading live loads: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	var out []live
	for rows.Next() {
		var l live
		if err := rows.Scan(&l.Scope, &l.Source, &l.Dataset, &l.Version, &l.Hash, &l.Era, &l.Load, &l.Doors, &l.Start, &l.End, &l.Rows, &l.Billed); err != nil {
			return nil, fmt.Errorf("reading live loads: %w", err)
		}
		out = append(out, l)
	}
	return out, rows.Err()
}

// unchanged handles the delivery whose bytes are what is live already: nothing is loaded,
// its version is recorded against the live loads.
func (a *attempt) unchanged(ctx context.Context) (Outcome, bool, error) {
	all, err := a.p.liveScopes(ctx)
	if err != nil {
		return Outcome{}, false, err
	}
	committed, whole, err := a.scopesWithHash(ctx)
	if err != nil || len(committed) == 0 || !whole {
		return Outcome{}, false, err
	}
	isLive := map[string]live{}
	for _, l := range all {
		if l.Load != 0 && l.Hash == a.hash {
			isLive[l.Scope] = l
		}
	}
	for _, s := range committed {
		l, ok := isLive[s.Name]
		if !ok {
			return Outcome{}, false, nil
		}
		s.Load, s.era = l.Load, l.Era
		a.scopes = append(a.scopes, *s)
	}
	out := a.outcome(Unchanged)
	out.Message = "the same bytes are live already"
	if a.version > isLive[committed[0].Name].Version {
		if err := a.insertCommits(ctx, a.scopes, nil); err != nil {
			return Outcome{}, false, err
		}
	}
	return out, true, nil
}

// scopesWithHash returns the scopes that a delivery of these very bytes was committed to;
// whole says that these are all it has, and none kept a newer version back then.
func (a *attempt) scopesWithHash(ctx context.Context) (out []*Scope, whole bool, err error) {
	rows, err := a.p.db.Query(ctx, `
SELECT Scope, any(PeriodStart), any(PeriodEnd), any(Rows), any(mapApply((k, v) -> (k, toString(v)), BilledCost)),
    any(RoundedRows), toString(any(Residue)), any(Doors), max(DeliveryScopes)
FROM idlewatt_store.commits WHERE ContentHash = ? AND Source = ? AND Load != 0 GROUP BY Scope`, a.hash, a.d.Source)
	if err != nil {
		return nil, false, fmt.Errorf("looking for equal deliveries: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	var total uint32
	for rows.Next() {
		s := &Scope{Billed: map[string]money.Decimal{}}
		var billed map[string]string
		var residue string
		if err := rows.Scan(&s.Name, &s.Start, &s.End, &s.Rows, &billed, &s.RoundedRows, &residue, &s.Doors, &total); err != nil {
			return nil, false, fmt.Errorf("looking for equal deliveries: %w", err)
		}
		for c, v := range billed {
			s.Billed[c] = decimal.RequireFromString(v)
		}
		s.Residue = decimal.RequireFromString(residue)
		out = append(out, s)
	}
	return out, len(out) == int(total), rows.Err()
}

// commit makes the load live: under the leases of the accounts it bills, after the door
// check, in one insert.
func (a *attempt) commit(ctx context.Context) (Outcome, error) {
	release, err := a.p.leases.acquire(ctx, accounts(a.scopes))
	if err != nil {
		return Outcome{}, fmt.Errorf("waiting for the accounts of delivery %s: %w", a.d.Delivery, err)
	}
	defer release()
	all, err := a.p.liveScopes(ctx)
	if err != nil {
		return Outcome{}, err
	}
	wins, err := a.winners(all)
	if err != nil {
		return Outcome{}, runtime.Permanent(err)
	}
	if len(wins) == 0 {
		out := a.outcome(Older)
		out.Message = "a newer version, or the same version with other bytes, is live in every scope of it"
		return out, nil
	}
	retired, err := a.doorCheck(wins, all)
	if err != nil {
		return Outcome{Status: Held}, runtime.Permanent(err)
	}
	if err := a.p.ApplyRules(ctx, a.load, a.load+1<<16); err != nil {
		return Outcome{}, err
	}
	out := a.outcome(Live)
	if out.Defects, err = a.defects(ctx); err != nil {
		return Outcome{}, err
	}
	if err := wait(ctx, a.p.Pause-a.p.Now().Sub(a.written)); err != nil {
		return Outcome{}, err
	}
	a.committed = true // from here on its rows may be live, whatever the insert answers
	if err := a.insertCommits(ctx, wins, retired); err != nil {
		return Outcome{}, err
	}
	a.tellRestated(ctx, wins, all)
	out.Message = a.remarks(wins, all)
	return out, nil
}

// VersionNeededError says that a scope has a live load and nothing tells which is newer.
type VersionNeededError struct{ Scope, Live, Given string }

func (e VersionNeededError) Error() string {
	if e.Given != "" {
		return fmt.Sprintf("scope %s is live with a version of another kind than --version %q; use times, or numbers, throughout", e.Scope, e.Given)
	}
	return fmt.Sprintf("scope %s has a different live load: say with --version which is newer (a time or a number; the provider's, never the order of arrival)", e.Scope)
}

// winners returns the scopes in which this delivery is the newest.
func (a *attempt) winners(all []live) ([]Scope, error) {
	byScope := map[string]live{}
	for _, l := range all {
		byScope[l.Scope] = l
	}
	var out []Scope
	for _, s := range a.scopes {
		l, ok := byScope[s.Name]
		switch {
		case !ok:
		case l.Load == 0: // retired: it comes back, in a new era, if the door lets it
			s.era = l.Era + 1
		case a.version == "" || !comparableVersions(a.version, l.Version):
			return nil, VersionNeededError{Scope: s.Name, Live: l.Version, Given: a.d.Version}
		case a.version < l.Version, a.version == l.Version && a.hash < l.Hash:
			continue
		default:
			s.era = l.Era
		}
		out = append(out, s)
	}
	return out, nil
}

// remarks says what a person should look at although the delivery is live.
func (a *attempt) remarks(wins []Scope, before []live) string {
	var out []string
	if n := len(a.scopes) - len(wins); n > 0 {
		out = append(out, fmt.Sprintf("%d of %d scopes keep a newer version that is live", n, len(a.scopes)))
	}
	was := map[string]live{}
	for _, l := range before {
		was[l.Scope] = l
	}
	for _, s := range wins {
		l := was[s.Name]
		if l.Load == 0 {
			continue
		}
		if s.Rows*2 < l.Rows {
			out = append(out, fmt.Sprintf("look: %s has %d rows where %d were live", s.Name, s.Rows, l.Rows))
		}
		if s.Rows == 0 { // it was said to cover this one
			continue
		}
		for _, gone := range accounts([]Scope{{Doors: l.Doors}}) {
			if !slices.Contains(accounts([]Scope{s}), gone) {
				out = append(out, fmt.Sprintf("look: billing account %s is no longer in %s", strings.ReplaceAll(gone, "|", " "), s.Name))
			}
		}
	}
	return strings.Join(out, "; ")
}

// insertCommits names the winners, and retires what they replace, in one insert.
func (a *attempt) insertCommits(ctx context.Context, wins []Scope, retired []live) error {
	b, err := a.p.db.PrepareBatch(ctx, `INSERT INTO idlewatt_store.commits (Scope, Load, Version, ContentHash, Source, Dataset,
		Format, Delivery, PeriodStart, PeriodEnd, Doors, Rows, BilledCost, RoundedRows, Residue, Era, DeliveryScopes)`)
	if err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	for _, s := range wins {
		if err := b.Append(s.Name, s.Load, a.version, a.hash, a.d.Source, a.format.Dataset, a.d.Format, a.d.Delivery,
			s.Start, s.End, s.Doors, s.Rows, s.Billed, s.RoundedRows, s.Residue, s.era, uint32(len(a.scopes))); err != nil {
			return fmt.Errorf("committing %s: %w", s.Name, err)
		}
	}
	for _, l := range retired {
		if err := b.Append(l.Scope, uint64(0), l.Version, "retired", l.Source, l.Dataset, a.d.Format, a.d.Delivery,
			l.Start, l.End, []string{}, uint64(0), map[string]money.Decimal{}, uint64(0), decimal.Zero, l.Era+1, uint32(0)); err != nil {
			return fmt.Errorf("retiring %s: %w", l.Scope, err)
		}
	}
	if err := b.Send(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	return nil
}

func (a *attempt) outcome(status string) Outcome {
	out := Outcome{Status: status, Scopes: a.scopes, Billed: map[string]money.Decimal{}}
	for _, s := range a.scopes {
		out.Rows, out.RoundedRows = out.Rows+s.Rows, out.RoundedRows+s.RoundedRows
		for c, b := range s.Billed {
			out.Billed[c] = out.Billed[c].Add(b)
		}
	}
	return out
}

// accounts returns the lease keys of a delivery, sorted so that two deliveries never wait
// for each other in a circle.
func accounts(scopes []Scope) []string {
	set := map[string]bool{}
	for _, s := range scopes {
		for _, d := range s.Doors {
			p := strings.SplitN(d, "|", 3)
			set[p[0]+"|"+p[1]] = true
		}
	}
	var out []string
	for k := range set {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
