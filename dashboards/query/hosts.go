package query

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// HostsQuestion asks for the names of the GPU machines that run.
type HostsQuestion struct {
	SeenSince time.Time // leaves out what was not seen since then
	Source    string    // one inventory; empty asks all
}

// HostsRow is one GPU machine that runs.
type HostsRow struct {
	Source     string
	Provider   string
	Region     string
	Name       string
	ResourceID string
	Hosts      []string // every name and address it goes by
}

// SQL returns the statement. Without a model and a count nobody has said that it has a GPU.
func (q HostsQuestion) SQL() (string, []any) {
	return `SELECT toString(r.x_Source) AS Feed, toString(r.Provider) AS Cloud, toString(r.RegionId) AS Place, toString(r.ResourceName) AS Called,
    toString(r.ResourceId) AS Id, r.Hosts AS Names
FROM idlewatt.running AS r
WHERE r.SeenUntil >= toDateTime64({since:String}, 3, 'UTC') AND {source:String} IN ('', r.x_Source) AND r.ResourceType = 'machine' AND notEmpty(r.Hosts)
    AND (ifNull(r.x_GpuCount > 0, 0) OR (isNull(r.x_GpuCount) AND r.x_GpuModel != ''))
ORDER BY Cloud, Place, Id, Feed`,
		[]any{
			clickhouse.Named("since", q.SeenSince.UTC().Format("2006-01-02 15:04:05.000")),
			clickhouse.Named("source", q.Source),
		}
}

// Hosts answers the question.
func (d DB) Hosts(ctx context.Context, q HostsQuestion) ([]HostsRow, error) {
	sql, args := q.SQL()
	return ask(ctx, d, "GPU machines", sql, args, func(rows driver.Rows, r *HostsRow) error {
		return rows.Scan(&r.Source, &r.Provider, &r.Region, &r.Name, &r.ResourceID, &r.Hosts)
	})
}
