package normalize

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// RunSweeper removes, every hour, rows that nothing shows any more: those of attempts that
// no commit names, an hour old, and those of superseded loads, except the newest one of each
// scope, which stays 35 days so that a mistake can be looked into. Of estimates none stays: a
// day has hundreds of them.
func (p *Processor) RunSweeper(ctx context.Context) error {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := p.Sweep(ctx); err != nil && ctx.Err() == nil {
				p.Log.WarnContext(ctx, "sweeping superseded loads", slog.String("error", err.Error()))
			}
		}
	}
}

// doomedSQL lists the loads whose rows go. A load's number is its time, in 10 microseconds
// since 2024, above 16 bits.
const doomedSQL = `
SELECT Load FROM
(
    SELECT DISTINCT x_Load AS Load, fromUnixTimestamp64Micro(toInt64(intDiv(x_Load, 65536) * 10) + 1704067200000000, 'UTC') AS Born
    FROM idlewatt_store.charges
) AS c
LEFT ANY JOIN
(
    SELECT l.Load AS Load, max(l.Since) AS Since, min(l.Rank) AS Rank, max(l.Estimate) AS Estimate FROM
    (
        SELECT Load, Estimate, min(CommittedAt) OVER (PARTITION BY Scope ORDER BY Era DESC, Version DESC, ContentHash DESC ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING) AS Since,
            row_number() OVER (PARTITION BY Scope ORDER BY Era DESC, Version DESC, ContentHash DESC) AS Rank
        FROM (SELECT Scope, Load, max(Version) AS Version, max(ContentHash) AS ContentHash, max(Era) AS Era, max(CommittedAt) AS CommittedAt, max(Dataset = 'estimate') AS Estimate
            FROM idlewatt_store.commits GROUP BY Scope, Load)
    ) AS l
    GROUP BY l.Load
) AS k USING (Load)
WHERE Load NOT IN (SELECT Load FROM idlewatt_store.live_loads)
    AND (k.Rank = 0 AND Born < now() - INTERVAL 1 HOUR
        OR k.Rank = 2 AND k.Since < now() - INTERVAL 35 DAY
        OR (k.Rank > 2 OR k.Rank = 2 AND k.Estimate) AND k.Since < now() - INTERVAL 1 HOUR)`

// Sweep removes the rows of superseded and orphaned loads, once.
func (p *Processor) Sweep(ctx context.Context) error {
	var loads []uint64
	rows, err := p.db.Query(ctx, doomedSQL)
	if err != nil {
		return fmt.Errorf("looking for superseded loads: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	for rows.Next() {
		var l uint64
		if err := rows.Scan(&l); err != nil {
			return fmt.Errorf("looking for superseded loads: %w", err)
		}
		loads = append(loads, l)
	}
	if err := rows.Err(); err != nil || len(loads) == 0 {
		return err
	}
	if err := p.db.Exec(ctx, "DELETE FROM idlewatt_store.charges WHERE x_Load IN (?)", loads); err != nil {
		return fmt.Errorf("deleting superseded loads: %w", err)
	}
	if err := p.db.Exec(ctx, "ALTER TABLE idlewatt_store.charges APPLY DELETED MASK"); err != nil {
		return fmt.Errorf("freeing the space of superseded loads: %w", err)
	}
	return p.sweepTraces(ctx, loads)
}

// sweepTraces removes what else there is of loads whose charges are gone: their parts, and of
// estimates the commits, which every reader of charges would have to look through.
func (p *Processor) sweepTraces(ctx context.Context, loads []uint64) error {
	for _, table := range []string{"allocations", "allocation_commits"} {
		if err := p.db.Exec(ctx, "DELETE FROM idlewatt_store."+table+" WHERE ChargeLoad IN (?)", loads); err != nil {
			return fmt.Errorf("deleting the parts of superseded loads: %w", err)
		}
	}
	if err := p.db.Exec(ctx, "DELETE FROM idlewatt_store.commits WHERE Dataset = 'estimate' AND Load IN (?)", loads); err != nil {
		return fmt.Errorf("deleting the commits of superseded estimates: %w", err)
	}
	return nil
}
