package utilize

import (
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// readMachines lists the names that each machine goes by: those of inventories, and those that
// schedulers give their nodes. A scheduler's name leads to an inventory's through the
// resource id.
func (p *Processor) readMachines(ctx context.Context, from, to time.Time) ([][]string, error) {
	var out [][]string
	of := map[string][]string{} // names by resource id
	err := p.each(ctx, func(r driver.Rows) error {
		var id string
		var names []string
		if err := r.Scan(&id, &names); err != nil {
			return err
		}
		out, of[id] = append(out, names), append(of[id], names...)
		return nil
	}, `SELECT DISTINCT lower(ResourceId), arraySort(arrayDistinct(arrayConcat(Hosts, [ResourceId]))) AS Names FROM idlewatt_store.instances FINAL
		WHERE SeenFrom < ? AND (isNull(SeenTo) OR SeenTo >= ?) AND notEmpty(Hosts) ORDER BY Names`, to, from)
	if err != nil {
		return nil, err
	}
	err = p.each(ctx, func(r driver.Rows) error {
		var names, ids []string
		if err := r.Scan(&names, &ids); err != nil {
			return err
		}
		for _, id := range ids {
			names = append(names, of[id]...)
		}
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > 1 {
			out = append(out, names)
		}
		return nil
	}, nodeNames, to)
	return out, err
}

// nodeNames lists nodes with what was known of them at a time. A later change alters nothing
// before it. A name of two nodes stands for neither, and an address stands for none:
// clusters often have the same private ones.
const nodeNames = `
WITH known AS
(
	SELECT Cluster, Name, arrayFilter(id -> id != '', groupUniqArray(lower(ResourceId))) AS Ids,
		arrayDistinct(arrayFilter(n -> n != '' AND NOT isIPv4String(n) AND NOT isIPv6String(n),
			arrayConcat([lower(Name)], arrayMap(h -> lower(h), groupUniqArrayArray(Hosts)), Ids))) AS Names
	FROM idlewatt_store.nodes FINAL WHERE At < ? GROUP BY Cluster, Name
)
SELECT arraySort(groupUniqArray(N)) AS Names, any(I) AS Ids
FROM
(
	SELECT N, any((Cluster, Name)) AS Node, any(Ids) AS I FROM known ARRAY JOIN Names AS N GROUP BY N HAVING uniqExact((Cluster, Name)) = 1
)
GROUP BY Node HAVING length(Names) > 1 OR notEmpty(Ids) ORDER BY Names`
