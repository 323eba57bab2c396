package utilize

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/schema/event"
)

// Machine is one host for a while, with every name that it goes by then: a run of an
// inventory, or what a scheduler says of a node until it says something else.
type Machine struct {
	ID    string // tells hosts of one kind apart
	Names []string
	From  int64 // milliseconds since 1970
	To    int64
	State string // a node's state in the scheduler's words; empty for runs
}

// Kinds of machines, the first part of an ID. A name that two of one kind have at one time
// leads to neither.
const (
	kindRun  = "run\x00"
	kindNode = "node\x00"
)

// readMachines lists the machines of a time. A scheduler's name leads to an inventory's through
// the resource id.
func (p *Processor) readMachines(ctx context.Context, from, to time.Time) ([]Machine, error) {
	var out []Machine
	err := p.each(ctx, func(r driver.Rows) error {
		m := Machine{}
		if err := r.Scan(&m.ID, &m.Names, &m.From, &m.To); err != nil {
			return err
		}
		m.ID = kindRun + m.ID
		out = append(out, m)
		return nil
	}, `SELECT lower(ResourceId) AS Id, arraySort(arrayDistinct(arrayMap(n -> lower(n), arrayPushBack(Hosts, ResourceId)))) AS Names,
			toUnixTimestamp64Milli(Lo) AS a, toUnixTimestamp64Milli(Hi) AS z
		FROM idlewatt_store.inventory_spans WHERE Lo < ? AND Hi >= ? AND notEmpty(Hosts) ORDER BY Id, a, z, Names`, to, from)
	if err != nil {
		return nil, err
	}
	runs := out
	err = p.each(ctx, func(r driver.Rows) error {
		m := Machine{}
		var resource string
		if err := r.Scan(&m.ID, &m.Names, &resource, &m.State, &m.From, &m.To); err != nil {
			return err
		}
		m.ID = kindNode + m.ID
		out = append(out, m)
		for _, run := range runs { // the run's other names are the node's while both last
			if resource != "" && run.ID == kindRun+resource && run.From < m.To && run.To > m.From {
				out = append(out, Machine{m.ID, slices.Concat(m.Names, run.Names), max(run.From, m.From), min(run.To, m.To), m.State})
			}
		}
		return nil
	}, nodeSpans, to, from)
	return out, err
}

// nodeSpans lists what schedulers say of nodes until they say something else. An address
// stands for no node: clusters often have the same private ones.
const nodeSpans = `
SELECT concat(Cluster, '\0', Name) AS Id, arraySort(arrayDistinct(arrayFilter(n -> n != '' AND NOT isIPv4String(n) AND NOT isIPv6String(n),
		arrayMap(n -> lower(n), arrayConcat(Hosts, [Name, ResourceId]))))) AS Names, lower(ResourceId) AS Resource, toString(State) AS S,
	toUnixTimestamp64Milli(At) AS a, toUnixTimestamp64Milli(Next) AS z
FROM
(
	SELECT *, ifNull(leadInFrame(toNullable(At)) OVER (PARTITION BY Source, Cluster, Name ORDER BY At ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING),
		toDateTime64('2200-01-01 00:00:00', 3, 'UTC')) AS Next
	FROM idlewatt_store.nodes FINAL WHERE At < ?
)
WHERE Next >= ? ORDER BY Id, a, z, Names`

// machinePrint hashes the machines of a day and its margins, as far as they reach into it.
func machinePrint(machines []Machine, day time.Time) uint64 {
	h := fnv.New64a()
	from, to := day.Add(-margin).UnixMilli(), day.Add(oneDay+margin).UnixMilli()
	for _, m := range machines {
		if m.From < to && m.To > from {
			fmt.Fprintf(h, "%q\n", []any{m.ID, m.Names, max(m.From, from), min(m.To, to), m.State})
		}
	}
	return h.Sum64()
}

// machinesOf are the machines that a name leads to at a time: of each kind those of one host.
func (x *Jobs) machinesOf(name string, at int64) []*Machine {
	var out []*Machine
	for _, kind := range []string{kindRun, kindNode} {
		var found []*Machine
		for _, m := range x.byHost[strings.ToLower(name)] {
			if strings.HasPrefix(m.ID, kind) && m.From <= at && at < m.To {
				found = append(found, m)
			}
		}
		if len(found) > 0 && !slices.ContainsFunc(found, func(m *Machine) bool { return m.ID != found[0].ID }) {
			out = append(out, found...)
		}
	}
	return out
}

// host is what is known of a host between two changes: all its names, and what takes its GPUs
// out of use by the scheduler's word, or "".
type host struct {
	from, to int64
	names    []string
	state    string
}

// hostAt looks up a host. It remembers the last answer of each: it is for one goroutine.
func (x *Jobs) hostAt(name string, at int64) host {
	name = strings.ToLower(name)
	if h, ok := x.hosts[name]; ok && h.from <= at && at < h.to {
		return h
	}
	h := host{from: math.MinInt64, to: math.MaxInt64, names: []string{name}}
	seen := map[string]bool{}
	until := func(n string) { // the answer holds until a machine of this name changes
		for _, m := range x.byHost[n] {
			for _, t := range []int64{m.From, m.To} {
				if t <= at {
					h.from = max(h.from, t)
				} else {
					h.to = min(h.to, t)
				}
			}
		}
		seen[n] = true
	}
	until(name)
	var last *Machine
	for _, m := range x.machinesOf(name, at) {
		for _, n := range m.Names {
			if seen[n] {
				continue
			}
			until(n)
			// A name that is another host's as well says nothing of this one.
			if slices.ContainsFunc(x.machinesOf(n, at), func(o *Machine) bool { return o.ID == m.ID }) {
				h.names = append(h.names, n)
			}
		}
		// Where two schedulers' nodes are one host, the newer word counts.
		if m.State != "" && (last == nil || cmp.Or(cmp.Compare(m.From, last.From), strings.Compare(m.State, last.State)) > 0) {
			last = m
		}
	}
	if last != nil && last.State != event.NodeAvailable {
		h.state = last.State
	}
	slices.Sort(h.names)
	x.hosts[name] = h
	return h
}
