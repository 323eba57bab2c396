package store

import (
	"context"
	"fmt"

	"github.com/idlewatt/idlewatt/schema/catalog"
)

// Prepare brings what the processors read besides facts up to date: the GPU catalogue, and
// the floor of load numbers.
func Prepare(ctx context.Context, db *DB, loads *Loads) error {
	if err := loadCatalog(ctx, db); err != nil {
		return fmt.Errorf("loading GPU catalogue: %w", err)
	}
	var top uint64
	err := db.QueryRow(ctx, `SELECT greatest(
		(SELECT max(Load) FROM idlewatt_store.commits),
		(SELECT max(Load) FROM idlewatt_store.interval_commits),
		(SELECT max(Load) FROM idlewatt_store.estimate_commits),
		(SELECT max(Load) FROM idlewatt_store.allocation_commits))`).Scan(&top)
	if err != nil {
		return fmt.Errorf("reading the newest load: %w", err)
	}
	loads.Floor(top)
	return nil
}

func loadCatalog(ctx context.Context, db *DB) error {
	gpus, err := catalog.Load()
	if err != nil {
		return err
	}
	var have uint64
	if err := db.QueryRow(ctx, "SELECT count() FROM idlewatt_store.gpu_catalog FINAL WHERE Version = ?", catalog.Version).Scan(&have); err != nil {
		return err
	}
	if have == uint64(len(gpus)) {
		return nil
	}
	b, err := db.PrepareBatch(ctx, "INSERT INTO idlewatt_store.gpu_catalog (Provider, InstanceType, GpuModel, GpuCount, Confidence, Version)")
	if err != nil {
		return err
	}
	for _, g := range gpus {
		if err := b.Append(g.Provider, g.InstanceType, g.Model, g.Count, g.Confidence, catalog.Version); err != nil {
			return err
		}
	}
	return b.Send()
}
