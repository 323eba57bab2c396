package runpod

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/idlewatt/idlewatt/schema/money"
)

// route is one billing route of v2: whose records it lists and of which parts a record's total
// is made. Amounts are USD.
type route struct {
	name  string // also its folder of the API
	path  string
	id    string // field that names the resource; empty if it names none
	what  string // kind of resource, as remembered; see thing
	parts []part
}

// part is one amount of a record. A record's parts add up to totalAmount.
type part struct {
	field   string
	control string // field of /v2/billing that holds the same money
}

const totalField = "totalAmount"

// The routes. /v2/billing is the same money once more, as control: it is never added to them.
// The route `endpoints` bills Public Endpoints; what v1 called so is `serverless` here.
var (
	routes = []*route{
		{name: "pods", path: "/billing/pods", id: "podId", what: whatPod, parts: []part{
			{"gpuAmount", "podGpuAmount"}, {"cpuAmount", "podCpuAmount"}, {"diskAmount", "podDiskAmount"},
		}},
		{name: "serverless", path: "/billing/serverless", id: "serverlessId", what: whatServerless, parts: []part{
			{"gpuAmount", "serverlessGpuAmount"}, {"cpuAmount", "serverlessCpuAmount"}, {"diskAmount", "serverlessDiskAmount"}, {"feeAmount", "serverlessFeeAmount"},
		}},
		{name: "endpoints", path: "/billing/endpoints", parts: []part{{totalField, "endpointAmount"}}},
		{name: "network-volumes", path: "/billing/network-volumes", id: "networkVolumeId", what: whatVolume, parts: []part{
			{"standardAmount", "storageStandardAmount"}, {"highPerformanceAmount", "storageHighPerformanceAmount"},
		}},
		{name: "clusters", path: "/billing/clusters", id: "clusterId", what: whatCluster, parts: []part{
			{"gpuAmount", "clusterGpuAmount"}, {"diskAmount", "clusterDiskAmount"}, {"networkingAmount", "clusterNetworkingAmount"},
		}},
	}
	overall = overallRoute()
)

func overallRoute() *route {
	r := &route{name: "billing", path: "/billing"}
	for _, x := range routes {
		for _, p := range x.parts {
			r.parts = append(r.parts, part{field: p.control})
		}
	}
	return r
}

// statement is what one billing route said, all pages of it.
type statement struct {
	route    *route
	from, to time.Time // the window it is whole for
	bucket   string    // hour, day, ...
	rows     []row
	totals   []money.Decimal // of the last page's metadata: totalAmount, then the parts
	summed   []money.Decimal // the same, summed over pages
	said     []string        // where each page came from, for messages
}

// row is one record.
type row struct {
	id       string // of the resource; empty if the route names none
	from, to time.Time
	total    money.Decimal
	parts    []money.Decimal // in the route's order
}

// billingPage is one answer of a billing route.
type billingPage struct {
	Records  []map[string]json.RawMessage `json:"records"`
	Metadata *struct {
		Query struct {
			StartTime  time.Time `json:"startTime"`
			EndTime    time.Time `json:"endTime"`
			BucketSize string    `json:"bucketSize"`
		} `json:"query"`
		RecordCount *int                       `json:"recordCount"`
		Totals      map[string]json.RawMessage `json:"totals"`
	} `json:"metadata"`

	paged
}

// longestWindow is more than RunPod's age; what is longer is a broken answer.
const longestWindow = 20 * 366 * day

// add appends a page. where names it in errors: a file, or route and page.
func (s *statement) add(p billingPage, where string) error {
	if p.Metadata == nil || p.Records == nil {
		return fmt.Errorf("%s: metadata or records is missing: the answer was cut or is none of %s", where, s.route.path)
	}
	q := p.Metadata.Query
	if q.StartTime.IsZero() || !q.EndTime.After(q.StartTime) || q.EndTime.Sub(q.StartTime) > longestWindow {
		return fmt.Errorf("%s: metadata.query: the window %s is none", where, bucketText(q.StartTime, q.EndTime))
	}
	switch {
	case len(s.said) == 0:
		s.from, s.to, s.bucket = q.StartTime.UTC(), q.EndTime.UTC(), q.BucketSize
	case !s.from.Equal(q.StartTime) || !s.to.Equal(q.EndTime) || s.bucket != q.BucketSize:
		return fmt.Errorf("%s: metadata.query: its window %s is not that of %s, %s", where, bucketText(q.StartTime, q.EndTime), s.said[0], bucketText(s.from, s.to))
	}
	for i, rec := range p.Records {
		r, err := s.route.read(rec)
		if err != nil {
			return fmt.Errorf("%s: record %d: %w", where, i+1, err)
		}
		if r.from.Before(s.from) || r.to.After(s.to) {
			return fmt.Errorf("%s: record %d: its time %s is outside the window %s", where, i+1, bucketText(r.from, r.to), bucketText(s.from, s.to))
		}
		s.rows = append(s.rows, r)
	}
	totals, err := s.route.amounts(p.Metadata.Totals)
	if err != nil {
		return fmt.Errorf("%s: metadata.totals: %w", where, err)
	}
	if s.totals == nil {
		s.summed = make([]money.Decimal, len(totals))
	}
	for i, t := range totals {
		s.summed[i] = s.summed[i].Add(t)
	}
	s.totals = totals
	s.said = append(s.said, where)
	return nil
}

// read decodes a record; every amount of its route must be there.
func (r *route) read(rec map[string]json.RawMessage) (row, error) {
	var out row
	for field, t := range map[string]*time.Time{"startTime": &out.from, "endTime": &out.to} {
		if err := json.Unmarshal(rec[field], t); err != nil || t.IsZero() {
			return out, fmt.Errorf("%s: %s is no time such as 2026-09-01T00:00:00Z", field, shown(rec[field]))
		}
		*t = t.UTC()
	}
	if !out.to.After(out.from) {
		return out, fmt.Errorf("endTime: %s is no period", bucketText(out.from, out.to))
	}
	if r.id != "" {
		if err := json.Unmarshal(rec[r.id], &out.id); err != nil || out.id == "" {
			return out, fmt.Errorf("%s: %s names no resource", r.id, shown(rec[r.id]))
		}
	}
	all, err := r.amounts(rec)
	if err != nil {
		return out, err
	}
	out.total, out.parts = all[0], all[1:]
	return out, nil
}

// amounts reads totalAmount and then the parts. A missing one is an error: it is not zero.
func (r *route) amounts(rec map[string]json.RawMessage) ([]money.Decimal, error) {
	out := make([]money.Decimal, 0, len(r.parts)+1)
	var errs []error
	for _, p := range append([]part{{field: totalField}}, r.parts...) {
		var a amount
		raw, ok := rec[p.field]
		switch err := json.Unmarshal(raw, &a); {
		case !ok || err == nil && !a.set:
			errs = append(errs, fmt.Errorf("%s: is missing", p.field))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", p.field, err))
		}
		out = append(out, a.Decimal)
	}
	return out, errors.Join(errs...)
}

// shown is a value for messages, shortened.
func shown(raw json.RawMessage) string {
	if raw == nil {
		return "nothing"
	}
	if len(raw) > 60 {
		return string(raw[:60]) + "..."
	}
	return string(raw)
}

// column sums one amount over the rows: 0 is the total, then the parts.
func (s *statement) column(i int) sum {
	var out sum
	for _, r := range s.rows {
		v := r.total
		if i > 0 {
			v = r.parts[i-1]
		}
		out.add(v)
	}
	return out
}

// unique refuses a record that came twice: a list that moved between two pages.
func (s *statement) unique() error {
	type key struct {
		id   string
		from time.Time
	}
	seen := map[key]bool{}
	for _, r := range s.rows {
		k := key{r.id, r.from}
		if seen[k] {
			return fmt.Errorf("%s: two records of %s %s begin %s", s.route.path, s.route.id, r.id, r.from.Format(time.RFC3339))
		}
		seen[k] = true
	}
	return nil
}
