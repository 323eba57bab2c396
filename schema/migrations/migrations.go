// Package migrations holds the tables (numbered files, applied once, with goose) and the
// views (views/*.sql, applied again whenever their text changes) of idlewatt.
//
// Database idlewatt is public and documented: people and dashboards read it. Database
// idlewatt_store is internal. No calculation of a processor lives here.
package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"text/template"

	"github.com/pressly/goose/v3"

	"github.com/idlewatt/idlewatt/schema/money"
)

//go:embed *.sql
var tables embed.FS

//go:embed views/*.sql
var views embed.FS

// separator stands alone on a line between two statements of a view file.
const separator = "\n;;\n"

// Apply brings the databases to this binary's schema. It is safe to call on every start and
// costs two small queries when nothing changed. timeZone is the IANA name of the reporting
// time zone, in which daily views have their days; empty keeps the one in force, or UTC.
func Apply(ctx context.Context, db *sql.DB, timeZone string) error {
	for _, name := range []string{"idlewatt_store", "idlewatt"} {
		if _, err := db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS "+name); err != nil {
			return fmt.Errorf("creating database %s: %w", name, err)
		}
	}
	if err := applyTables(ctx, db); err != nil {
		return err
	}
	return applyViews(ctx, db, timeZone)
}

func applyTables(ctx context.Context, db *sql.DB) error {
	p, err := goose.NewProvider(goose.DialectClickHouse, db, tables,
		goose.WithTableName("idlewatt_store.goose_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("reading migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrating tables: %w", err)
	}
	return nil
}

// Views returns the view statements in the order they are applied.
func Views(timeZone string) ([]string, error) {
	files, err := fs.Glob(views, "views/*.sql")
	if err != nil {
		return nil, err
	}
	funcs := template.FuncMap{
		"tz": func() string { return timeZone }, "split": money.SplitSQL, "costs": func() string { return costColumns },
		"forever": func() string { return "toDateTime64('2200-01-01 00:00:00', 3, 'UTC')" },
	}
	var out []string
	for _, f := range files {
		text, err := fs.ReadFile(views, f)
		if err != nil {
			return nil, err
		}
		t, err := template.New(f).Funcs(funcs).Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("reading view file: %w", err)
		}
		var b strings.Builder
		if err := t.Execute(&b, nil); err != nil {
			return nil, fmt.Errorf("reading view file: %w", err)
		}
		for _, stmt := range strings.Split("\n"+b.String()+"\n", separator) {
			if s := strings.TrimSpace(stmt); s != "" {
				out = append(out, s)
			}
		}
	}
	return out, nil
}

// costColumns are the sums that every cost view has. The kinds add up to EffectiveCost, of which
// EstimatedCost is what no bill has yet; BilledCost is without that.
const costColumns = `    sumIf(a.BilledCost, x_ChargeStatus != 'estimated') AS BilledCost, sum(a.EffectiveCost) AS EffectiveCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_AllocationKind IN ('job_used', 'metered')) AS UsedCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_AllocationKind = 'job_idle') AS JobIdleCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_AllocationKind = 'unallocated_idle') AS UnallocatedIdleCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_AllocationKind = 'unavailable') AS UnavailableCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_AllocationKind = 'unobserved') AS UnobservedCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_AllocationKind = 'commitment_unused') AS CommitmentUnusedCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_AllocationKind = 'shared') AS SharedCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_AllocationKind = 'tax') AS TaxCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_AllocationKind = 'credit') AS CreditCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_AllocationKind = 'adjustment') AS AdjustmentCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_AllocationKind = 'other') AS OtherCost,
    sumIf(ifNull(a.EffectiveCost, 0), x_ChargeStatus = 'estimated') AS EstimatedCost,
    sum(a.EffectiveCost) AS x_ChargedCost`

// TimeZone returns the reporting time zone that the views were last made for, or UTC.
func TimeZone(ctx context.Context, db *sql.DB) (string, error) {
	var tz string
	row := db.QueryRowContext(ctx, "SELECT argMax(Value, Version) FROM idlewatt_store.meta WHERE Key = 'time_zone'")
	if err := row.Scan(&tz); err != nil {
		return "", fmt.Errorf("reading the time zone in force: %w", err)
	}
	if tz == "" {
		tz = "UTC"
	}
	return tz, nil
}

func applyViews(ctx context.Context, db *sql.DB, timeZone string) error {
	if timeZone == "" {
		var err error
		if timeZone, err = TimeZone(ctx, db); err != nil {
			return err
		}
	}
	stmts, err := Views(timeZone)
	if err != nil {
		return fmt.Errorf("reading views: %w", err)
	}
	sum := sha256.Sum256([]byte(strings.Join(stmts, separator)))
	want := hex.EncodeToString(sum[:])
	var have string
	row := db.QueryRowContext(ctx, "SELECT argMax(Value, Version) FROM idlewatt_store.meta WHERE Key = 'views'")
	if err := row.Scan(&have); err != nil {
		return fmt.Errorf("reading version of views: %w", err)
	}
	if have == want {
		return nil
	}
	for _, s := range stmts {
		if _, err := db.ExecContext(ctx, s); err != nil {
			head, _, _ := strings.Cut(s, "\n")
			return fmt.Errorf("creating view (%s): %w", head, err)
		}
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO idlewatt_store.meta (Key, Value) VALUES ('views', ?), ('time_zone', ?)", want, timeZone); err != nil {
		return fmt.Errorf("recording version of views: %w", err)
	}
	return nil
}
