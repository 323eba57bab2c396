package rate

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/money"
)

// scope is a source's day as idlewatt.charges knows it: SOURCE/estimate/DAY.
type scope struct {
	name, source string
	day          time.Time
	hash         string // of what it should show; empty: nothing
}

// scopesAtOnce is at most what the low 16 bits of a load can tell apart.
const scopesAtOnce = 1000

// show brings the charges of dataset estimate, of the days from a moment on, to what no bill
// covers. All that differs is committed in one insert, so that an hour never moves from one scope to another unseen.
func (p *Processor) show(ctx context.Context, from time.Time) (int, error) {
	late, err := p.late(ctx, from)
	if err != nil {
		return 0, err
	}
	stale, err := p.stale(ctx, late)
	if err != nil || len(stale) == 0 {
		return 0, err
	}
	for begin := 0; begin < len(stale); begin += scopesAtOnce {
		if err := p.replace(ctx, late, stale[begin:min(begin+scopesAtOnce, len(stale))]); err != nil {
			return begin, err
		}
	}
	return len(stale), nil
}

// late are the parameters that name the estimates which no whole bill covers.
func (p *Processor) late(ctx context.Context, from time.Time) (clickhouse.Parameters, error) {
	first := from.UTC().Format(sqlTime)
	rows, err := p.DB.Query(with(ctx, clickhouse.Parameters{"from": first}), statement("late.sql"))
	if err != nil {
		return nil, fmt.Errorf("looking for days without a bill: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	var loads []string
	since, till := forever, beginning
	for rows.Next() {
		var load uint64
		var day time.Time
		if err := rows.Scan(&load, &day); err != nil {
			return nil, fmt.Errorf("looking for days without a bill: %w", err)
		}
		loads = append(loads, fmt.Sprint(load))
		if day.Before(since) {
			since = day
		}
		if next := day.AddDate(0, 0, 1); next.After(till) {
			till = next
		}
	}
	return clickhouse.Parameters{
		"loads": "[" + strings.Join(loads, ", ") + "]", "since": since.Format(sqlTime), "till": till.Format(sqlTime), "from": first,
	}, rows.Err()
}

func (p *Processor) stale(ctx context.Context, late clickhouse.Parameters) ([]scope, error) {
	rows, err := p.DB.Query(with(ctx, late), statement("stale.sql"))
	if err != nil {
		return nil, fmt.Errorf("looking for estimates to show: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	var out []scope
	for rows.Next() {
		var s scope
		if err := rows.Scan(&s.name, &s.source, &s.day, &s.hash); err != nil {
			return nil, fmt.Errorf("looking for estimates to show: %w", err)
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// replace writes the scopes' charges and commits them. A crash in between leaves rows that no
// commit names: they are swept, and the next pass writes them again.
func (p *Processor) replace(ctx context.Context, late clickhouse.Parameters, scopes []scope) error {
	base := p.Loads.Next()
	var filled []string
	for _, s := range scopes {
		if s.hash != "" {
			filled = append(filled, s.name)
		}
	}
	written := map[string]totals{}
	if len(filled) > 0 {
		params := maps.Clone(late)
		params["base"], params["scopes"] = fmt.Sprint(base), array(filled)
		if err := p.DB.Exec(with(ctx, params), statement("charges.sql")); err != nil {
			return fmt.Errorf("writing estimated charges: %w", err)
		}
		since := p.Now()
		var err error
		if written, err = p.totals(ctx, base, base+uint64(len(filled))); err != nil {
			return err
		}
		if p.Dimensions != nil {
			if err := p.Dimensions(ctx, base, base+uint64(len(filled))); err != nil {
				return err
			}
		}
		if err := wait(ctx, p.Pause-p.Now().Sub(since)); err != nil {
			return err
		}
	}
	b, err := p.DB.PrepareBatch(ctx, `INSERT INTO idlewatt_store.commits (Scope, Load, Version, ContentHash, Source, Dataset, Format, Delivery,
		PeriodStart, PeriodEnd, Doors, Rows, BilledCost, RoundedRows, Residue)`)
	if err != nil {
		return fmt.Errorf("committing estimated charges: %w", err)
	}
	for _, s := range scopes {
		load, t := uint64(0), totals{cost: map[string]money.Decimal{}} // load 0 shows nothing
		if i := slices.Index(filled, s.name); i >= 0 {
			if w, ok := written[s.name]; ok {
				load, t = base+uint64(i), w //nolint:gosec // at most scopesAtOnce
			} else {
				continue // it changed meanwhile; the next pass sees to it
			}
		}
		if err := b.Append(s.name, load, fmt.Sprintf("%020d", base), s.hash, s.source, "estimate", "estimate", "", s.day, s.day.AddDate(0, 0, 1),
			[]string{}, t.rows, t.cost, uint64(0), decimal.Zero); err != nil {
			return fmt.Errorf("committing estimated charges: %w", err)
		}
	}
	if err := b.Send(); err != nil {
		return fmt.Errorf("committing estimated charges: %w", err)
	}
	p.Log.DebugContext(ctx, "estimates shown", slog.Int("days", len(scopes)))
	return nil
}

// totals are what a scope's commit says of it.
type totals struct {
	rows uint64
	cost map[string]money.Decimal // by currency
}

func (p *Processor) totals(ctx context.Context, from, to uint64) (map[string]totals, error) {
	rows, err := p.DB.Query(ctx, `SELECT toString(x_Scope), toString(BillingCurrency), count(), toString(sum(BilledCost))
FROM idlewatt_store.charges WHERE x_Load >= ? AND x_Load < ? GROUP BY x_Scope, BillingCurrency`, from, to)
	if err != nil {
		return nil, fmt.Errorf("adding up estimated charges: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	out := map[string]totals{}
	for rows.Next() {
		var name, currency, cost string
		var n uint64
		if err := rows.Scan(&name, &currency, &n, &cost); err != nil {
			return nil, fmt.Errorf("adding up estimated charges: %w", err)
		}
		t, ok := out[name]
		if !ok {
			t.cost = map[string]money.Decimal{}
		}
		d, err := decimal.NewFromString(cost)
		if err != nil {
			return nil, fmt.Errorf("adding up estimated charges: %w", err)
		}
		t.rows, t.cost[currency] = t.rows+n, d
		out[name] = t
	}
	return out, rows.Err()
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
