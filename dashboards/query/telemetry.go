package query

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// TelemetryQuestion asks for the targets of telemetry where something failed or was refused in
// their last day, the worst first.
type TelemetryQuestion struct{ Limit int }

// TelemetryRow is one target.
type TelemetryRow struct {
	Target, Node string
	Last         time.Time
	LastOK       *time.Time // nil: never in the last month
	LastError    string
	GPUs         uint64
	Scrapes      uint64
	Failed       uint64
	Incomplete   uint64
	Rejected     map[string]uint64 // readings by reason
	Skew         float64           // seconds that its clock is ahead
}

// Reasons are the refused readings as text, most first.
func (r TelemetryRow) Reasons() string {
	keys := slices.Sorted(maps.Keys(r.Rejected))
	slices.SortStableFunc(keys, func(a, b string) int { return int(min(r.Rejected[b], 1<<40)) - int(min(r.Rejected[a], 1<<40)) }) //nolint:gosec // bounded
	for i, k := range keys {
		keys[i] = strconv.FormatUint(r.Rejected[k], 10) + " " + k
	}
	return strings.Join(keys, ", ")
}

// SQL returns the statement.
func (q TelemetryQuestion) SQL() (string, []any) {
	return `SELECT toString(Target) AS T, toString(Node) AS N, toDateTime64(LastScrape, 3, 'UTC') AS Last, LastOk, LastError, toUInt64(GpuCount) AS Gpus,
    toUInt64(Scrapes) AS Asked, toUInt64(FailedScrapes) AS Failed, toUInt64(IncompleteScrapes) AS Cut,
    CAST(Rejected AS Map(String, UInt64)) AS Refused, toFloat64(SkewSeconds) AS Skew
FROM idlewatt.telemetry
WHERE FailedScrapes > 0 OR IncompleteScrapes > 0 OR Scrapes = 0 OR notEmpty(Rejected) OR abs(SkewSeconds) > 60
ORDER BY LastOk NULLS FIRST, Failed DESC, arraySum(mapValues(Refused)) DESC, T LIMIT {limit:UInt64}`, []any{clickhouse.Named("limit", uint64(max(q.Limit, 1)))}
}

// Telemetry answers the question.
func (d DB) Telemetry(ctx context.Context, q TelemetryQuestion) ([]TelemetryRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "targets of telemetry", sql, args, func(rows driver.Rows, r *TelemetryRow) error {
		return rows.Scan(&r.Target, &r.Node, &r.Last, &r.LastOK, &r.LastError, &r.GPUs, &r.Scrapes, &r.Failed, &r.Incomplete, &r.Rejected, &r.Skew)
	})
}
