package rate

import (
	"context"
	"fmt"
)

// deadSQL says which loads of estimates nothing reads any more: an hour old, and not the newest
// of a day. A load's number is its time, in 10 microseconds since 2024, above 16 bits.
const deadSQL = `Load NOT IN (SELECT max(Load) FROM idlewatt_store.estimate_commits GROUP BY Source, Day)
    AND fromUnixTimestamp64Micro(toInt64(intDiv(Load, 65536) * 10) + 1704067200000000, 'UTC') < now64(6) - INTERVAL 1 HOUR`

// Sweep removes superseded estimates. Their charges are swept with those of bills.
func (p *Processor) Sweep(ctx context.Context) error {
	for _, table := range []string{"estimates", "estimate_commits"} { // rows first: a commit without rows shows nothing wrong
		n, err := p.text(ctx, "looking for superseded estimates", "SELECT toString(count()) FROM idlewatt_store."+table+" WHERE "+deadSQL)
		if err != nil {
			return err
		}
		if n == "0" {
			continue
		}
		if err := p.DB.Exec(ctx, "DELETE FROM idlewatt_store."+table+" WHERE "+deadSQL); err != nil {
			return fmt.Errorf("deleting superseded estimates: %w", err)
		}
	}
	return nil
}
