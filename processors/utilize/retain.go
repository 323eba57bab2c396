package utilize

import (
	"context"
	"fmt"
	"time"
)

// MinKeepDays is the least time that raw telemetry is kept: a bill is restated for months, and
// its hours are split by what telemetry says (case 059: a restated month is whole or refused).
const MinKeepDays = 120

// Retain sets for how many days the store keeps raw samples and scrapes, counted from when
// they came. Intervals are kept for good: they do not go with the samples behind them.
func (p *Processor) Retain(ctx context.Context, days int) error {
	if days < MinKeepDays {
		return fmt.Errorf("keeping raw telemetry for %d days: want at least %d, as long as a bill can be restated", days, MinKeepDays)
	}
	for _, table := range []string{"gpu_samples", "scrapes"} {
		have, err := p.kept(ctx, table)
		if err != nil {
			return err
		}
		if have == days {
			continue
		}
		err = p.DB.Exec(ctx, fmt.Sprintf("ALTER TABLE idlewatt_store.%s MODIFY TTL StoredAt + INTERVAL %d DAY", table, days))
		if err != nil {
			return fmt.Errorf("setting how long %s is kept: %w", table, err)
		}
	}
	return nil
}

// kept is for how many days a table keeps its rows.
func (p *Processor) kept(ctx context.Context, table string) (int, error) {
	var days uint32
	err := p.DB.QueryRow(ctx, `SELECT toUInt32OrZero(extract(engine_full, 'TTL StoredAt \\+ toIntervalDay\\(([0-9]+)\\)')) FROM system.tables
		WHERE database = 'idlewatt_store' AND name = ?`, table).Scan(&days)
	if err != nil || days == 0 {
		return 0, fmt.Errorf("reading how long %s is kept (%d days): %w", table, days, err)
	}
	return int(days), nil
}

// horizon is the day before which samples may be gone: what was derived there stands. A day is
// whole until all of it is old enough, since rows go by when they came.
func (p *Processor) horizon(ctx context.Context) (time.Time, error) {
	days, err := p.kept(ctx, "gpu_samples")
	return startOfDay(p.Now()).AddDate(0, 0, 2-days), err
}
