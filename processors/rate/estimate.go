package rate

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// day is what is computed and committed as one: the estimates of a source's UTC day.
type day struct {
	source       string
	day          time.Time
	facts, exact uint64
}

// daysAtOnce bounds one statement: its memory, and the partitions it writes.
const daysAtOnce = 31

const sqlTime = "2006-01-02 15:04:05.000"

// forever is after every run.
var forever = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// estimate computes the days from a moment on whose inputs differ. Each batch is committed
// before the next begins.
func (p *Processor) estimate(ctx context.Context, from time.Time, patience time.Duration) (int, error) {
	due, err := p.due(ctx, from, patience)
	if err != nil {
		return 0, err
	}
	for begin := 0; begin < len(due); {
		end := begin + 1
		for end < len(due) && end-begin < daysAtOnce && due[end].source == due[begin].source {
			end++
		}
		if err := p.compute(ctx, due[begin:end]); err != nil {
			return begin, err
		}
		begin = end
	}
	return len(due), nil
}

func (p *Processor) due(ctx context.Context, from time.Time, patience time.Duration) ([]day, error) {
	rows, err := p.DB.Query(with(ctx, clickhouse.Parameters{
		"from": from.UTC().Format(sqlTime), "to": forever.Format(sqlTime), "origin": "", "now": p.Now().UTC().Format(sqlTime),
		"patience": fmt.Sprint(int(patience.Seconds())),
	}), statement("due.sql"))
	if err != nil {
		return nil, fmt.Errorf("looking for days to estimate: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	var out []day
	for rows.Next() {
		var d day
		if err := rows.Scan(&d.source, &d.day, &d.facts, &d.exact); err != nil {
			return nil, fmt.Errorf("looking for days to estimate: %w", err)
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// compute writes the estimates of some days of one source and commits them together.
func (p *Processor) compute(ctx context.Context, days []day) error {
	base, source := p.Loads.Next(), days[0].source
	var list []string
	first, last := days[0].day, days[0].day
	for _, d := range days {
		list = append(list, d.day.Format(time.DateOnly))
		if d.day.Before(first) {
			first = d.day
		}
		if d.day.After(last) {
			last = d.day
		}
	}
	err := p.DB.Exec(with(ctx, clickhouse.Parameters{
		"base": fmt.Sprint(base), "origin": source, "days": array(list),
		"from": first.Format(sqlTime), "to": last.AddDate(0, 0, 1).Format(sqlTime),
	}), statement("estimate.sql"))
	if err != nil {
		return fmt.Errorf("estimating %s from %s to %s: %w", source, list[0], list[len(list)-1], err)
	}
	groups, err := p.groups(ctx, base, len(days))
	if err != nil {
		return err
	}
	b, err := p.DB.PrepareBatch(ctx, "INSERT INTO idlewatt_store.estimate_commits (Source, Day, Load, Facts, Fingerprint, Rows, Groups, At)")
	if err != nil {
		return fmt.Errorf("committing estimates: %w", err)
	}
	for i, d := range days {
		g := groups[base+uint64(i)]                                                                              //nolint:gosec // at most daysAtOnce
		if err := b.Append(source, d.day, base+uint64(i), d.facts, d.exact, g.rows, g.of, p.Now()); err != nil { //nolint:gosec // at most daysAtOnce
			return fmt.Errorf("committing estimates: %w", err)
		}
	}
	if err := b.Send(); err != nil {
		return fmt.Errorf("committing estimates: %w", err)
	}
	p.Log.DebugContext(ctx, "charges estimated", slog.String("source", source), slog.Int("days", len(days)))
	return nil
}

// group is what a load of estimates holds.
type group struct {
	rows uint64
	of   [][]any // (provider, account, family)
}

func (p *Processor) groups(ctx context.Context, base uint64, n int) (map[uint64]group, error) {
	rows, err := p.DB.Query(ctx, `SELECT Load, toString(Provider) AS P, toString(Account) AS A, toString(Family) AS F, count() AS N
FROM idlewatt_store.estimates WHERE Load >= ? AND Load < ? GROUP BY Load, P, A, F ORDER BY Load, P, A, F`, base, base+uint64(n)) //nolint:gosec // at most daysAtOnce
	if err != nil {
		return nil, fmt.Errorf("counting estimates: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	out := map[uint64]group{}
	for rows.Next() {
		var load, n uint64
		var provider, account, family string
		if err := rows.Scan(&load, &provider, &account, &family, &n); err != nil {
			return nil, fmt.Errorf("counting estimates: %w", err)
		}
		g := out[load]
		g.rows, g.of = g.rows+n, append(g.of, []any{provider, account, family})
		out[load] = g
	}
	return out, rows.Err()
}

// with sets the parameters of a statement, and what writing needs.
func with(ctx context.Context, p clickhouse.Parameters) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"insert_null_as_default": 0, "max_partitions_per_insert_block": 1000,
	}), clickhouse.WithParameters(p))
}
