package alert

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/money"
)

// Facts are the questions the rules ask. Times are passed in, so that the answer is the one
// of that moment.
type Facts interface {
	// Idle returns every node with idle GPUs at a moment, and when each node with telemetry
	// was last known to do anything at all.
	Idle(ctx context.Context, at time.Time) (IdleFacts, error)
	// Describe adds what a message wants to say about nodes and costs too much to ask for
	// every minute. What it cannot find stays empty.
	Describe(ctx context.Context, nodes []IdleNode) error
	// Spend returns the cost of a scope in one month.
	Spend(ctx context.Context, q SpendQuestion) (Spend, error)
}

// IdleFacts are the nodes that are idle, and until when each node is known.
type IdleFacts struct {
	Nodes []IdleNode
	// Known is the last interval of each node that is not unknown.
	Known map[string]Known
}

// Known is what is last known of a node.
type Known struct {
	Until time.Time
	State string
}

// IdleNode is a node with idle GPUs: a row of idle_now, or several of one node together.
type IdleNode struct {
	ResourceID   string         `json:"resource_id"`
	Node         string         `json:"node"`
	GPUModel     string         `json:"gpu_model"`
	GPUCount     uint64         `json:"gpu_count"`
	NodeGPUs     uint64         `json:"node_gpus,omitempty"` // of the whole machine; 0 is not known
	IdleSince    time.Time      `json:"idle_since"`
	SeenUntil    time.Time      `json:"seen_until"`
	State        string         `json:"state"`
	Cause        string         `json:"cause,omitempty"`
	CostSoFar    *money.Decimal `json:"cost_so_far,omitempty"`
	CostPerHour  *money.Decimal `json:"cost_per_hour,omitempty"`
	Avoidable    *money.Decimal `json:"avoidable_per_hour,omitempty"`
	Currency     string         `json:"currency,omitempty"`
	Estimated    bool           `json:"estimated,omitempty"`
	PricingModel string         `json:"pricing_model,omitempty"`
	Owner        string         `json:"owner,omitempty"`
	Confidence   string         `json:"owner_confidence,omitempty"`
	Project      string         `json:"project,omitempty"`
	Team         string         `json:"team,omitempty"`
	LastJobID    string         `json:"last_job,omitempty"`
	Coverage     float64        `json:"coverage"`
	EngineMax    *float64       `json:"engine_max,omitempty"`
	MeanPowerW   *float64       `json:"mean_power_w,omitempty"`
	Provider     string         `json:"provider,omitempty"`
	Account      string         `json:"account,omitempty"`
	Region       string         `json:"region,omitempty"`

	// Filled by Describe.
	Zone       string    `json:"zone,omitempty"`
	Name       string    `json:"name,omitempty"`
	JobOutcome string    `json:"job_outcome,omitempty"`
	JobEnded   time.Time `json:"job_ended,omitzero"`
	JobUser    string    `json:"job_user,omitempty"`
	Scheduler  string    `json:"scheduler,omitempty"`
}

// subject is the node's natural key.
func (n IdleNode) subject() string { return n.ResourceID + "\x00" + n.Node }

// whole reports whether every GPU of the machine is idle: only then may it be stopped.
func (n IdleNode) whole() bool { return n.GPUCount >= n.NodeGPUs }

// name is what people call the node.
func (n IdleNode) name() string {
	if n.Node != "" {
		return n.Node
	}
	return n.ResourceID
}

// SpendQuestion asks for a month's cost. The month runs from From to To, instants in the
// reporting time zone's own terms; Label is its first day.
type SpendQuestion struct {
	Dimension, Value string
	Cost             Cost
	From, To         time.Time
	Label            time.Time
}

// Spend is a month's cost by currency, which are never added up.
type Spend struct {
	By map[string]money.Decimal
	// Estimated is how much of By no bill has yet.
	Estimated map[string]money.Decimal
	// Without counts charges that do not state the cost asked for.
	Without uint64
	// LastBill is when the newest live load of that month was committed.
	LastBill time.Time
}

// ClickHouse answers from the views.
type ClickHouse struct{ db driver.Conn }

// NewClickHouse returns the facts of a store.
func NewClickHouse(db driver.Conn) ClickHouse { return ClickHouse{db: db} }

// idleSQL asks for the nodes that are idle at a moment.
const idleSQL = `SELECT ifNull(ResourceId, '') AS ResourceId, Node, ifNull(x_GpuModel, '') AS Model, toUInt64(GpuCount) AS Gpus,
    toDateTime64(IdleSince, 3, 'UTC') AS Since, toDateTime64(SeenUntil, 3, 'UTC') AS Until, State, Cause,
    toString(CostSoFar) AS Cost, toString(CostPerHour) AS PerHour, toString(AvoidablePerHour) AS Avoidable, BillingCurrency,
    x_ChargeStatus != 'billed' AS Estimated, ifNull(x_PricingModel, '') AS Pricing, Owner, OwnerConfidence,
    ifNull(x_Project, '') AS Project, ifNull(x_Team, '') AS Team, LastJobId, toFloat64(Coverage) AS Cover,
    toFloat64(EngineMax) AS Engine, toFloat64(MeanPowerW) AS Power, ifNull(ServiceProviderName, '') AS Provider,
    coalesce(SubAccountId, BillingAccountId, '') AS Account, ifNull(RegionId, '') AS Region, NodeGpus
FROM idlewatt_store.idle_at(at = toDateTime64({at:String}, 3, 'UTC'))
ORDER BY Node, ResourceId, GpuCount DESC, State, Owner`

// knownSQL asks until when each node is known: unknown time says nothing.
const knownSQL = `SELECT Node, max(least(End, toDateTime64({at:String}, 3, 'UTC'))) AS Until, toString(argMax(State, (End, State))) AS Last
FROM idlewatt_store.live_intervals
WHERE State != 'unknown' AND Start < toDateTime64({at:String}, 3, 'UTC') AND Day >= toDate({day:String})
GROUP BY Node`

const sqlTime = "2006-01-02 15:04:05.000"

// Idle implements Facts.
func (c ClickHouse) Idle(ctx context.Context, at time.Time) (IdleFacts, error) {
	at = at.UTC()
	moment, day := clickhouse.Named("at", at.Format(sqlTime)), clickhouse.Named("day", at.AddDate(0, 0, -2).Format(time.DateOnly))
	out := IdleFacts{Known: map[string]Known{}}
	err := c.each(ctx, idleSQL, func(rows driver.Rows) error {
		n, err := scanIdle(rows)
		out.Nodes = append(out.Nodes, n)
		return err
	}, moment)
	if err != nil {
		return out, fmt.Errorf("asking for idle nodes: %w", err)
	}
	err = c.each(ctx, knownSQL, func(rows driver.Rows) error {
		var node string
		var k Known
		err := rows.Scan(&node, &k.Until, &k.State)
		out.Known[node] = k
		return err
	}, moment, day)
	if err != nil {
		return out, fmt.Errorf("asking until when nodes are known: %w", err)
	}
	return out, nil
}

func scanIdle(rows driver.Rows) (IdleNode, error) {
	var n IdleNode
	var cost, perHour, avoidable *string
	var estimated uint8
	err := rows.Scan(&n.ResourceID, &n.Node, &n.GPUModel, &n.GPUCount, &n.IdleSince, &n.SeenUntil, &n.State, &n.Cause,
		&cost, &perHour, &avoidable, &n.Currency, &estimated, &n.PricingModel, &n.Owner, &n.Confidence, &n.Project, &n.Team,
		&n.LastJobID, &n.Coverage, &n.EngineMax, &n.MeanPowerW, &n.Provider, &n.Account, &n.Region, &n.NodeGPUs)
	if err != nil {
		return n, err
	}
	n.Estimated = estimated != 0
	for _, f := range []struct {
		to   **money.Decimal
		text *string
	}{{&n.CostSoFar, cost}, {&n.CostPerHour, perHour}, {&n.Avoidable, avoidable}} {
		if f.text == nil {
			continue
		}
		d, _, err := money.Parse(*f.text)
		if err != nil {
			return n, err
		}
		*f.to = &d
	}
	return n, nil
}

func (c ClickHouse) each(ctx context.Context, sql string, f func(driver.Rows) error, args ...any) error {
	rows, err := c.db.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
