package rate

import (
	"context"
	"fmt"
	"time"
)

// deadSQL lists the loads of estimates that nothing reads any more: old enough, and not the
// newest of a day. A load's number is its time, in 10 microseconds since 2024, above 16 bits.
const deadSQL = `SELECT DISTINCT Load FROM
(
    SELECT Load FROM idlewatt_store.estimates UNION DISTINCT SELECT Load FROM idlewatt_store.estimate_commits
)
WHERE Load NOT IN (SELECT max(Load) FROM idlewatt_store.estimate_commits GROUP BY Source, Day)
    AND fromUnixTimestamp64Micro(toInt64(intDiv(Load, 65536) * 10) + 1704067200000000, 'UTC') < ?`

// Sweep removes estimates that were superseded an hour ago. Their charges are swept with those
// of bills (processors/normalize).
func (p *Processor) Sweep(ctx context.Context) error {
	return p.sweep(ctx, p.Now().Add(-time.Hour))
}

func (p *Processor) sweep(ctx context.Context, before time.Time) error {
	rows, err := p.DB.Query(ctx, deadSQL, before)
	if err != nil {
		return fmt.Errorf("looking for superseded estimates: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	var dead []uint64
	for rows.Next() {
		var load uint64
		if err := rows.Scan(&load); err != nil {
			return fmt.Errorf("looking for superseded estimates: %w", err)
		}
		dead = append(dead, load)
	}
	if err := rows.Err(); err != nil || len(dead) == 0 {
		return err
	}
	for _, table := range []string{"estimates", "estimate_commits"} {
		if err := p.DB.Exec(ctx, "DELETE FROM idlewatt_store."+table+" WHERE Load IN (?)", dead); err != nil {
			return fmt.Errorf("deleting superseded estimates: %w", err)
		}
	}
	return nil
}
