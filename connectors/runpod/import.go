package runpod

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/lines"
)

// signs are pairs of field names that only RunPod's answers have together.
var signs = []*regexp.Regexp{
	regexp.MustCompile(`(?s)^\s*\{.*"records"\s*:.*"totalAmount"\s*:`),
	regexp.MustCompile(`(?s)^\s*\{.*"bucketSize"\s*:.*"recordCount"\s*:`),
	regexp.MustCompile(`(?s)^\s*\{\s*"(pods|endpoints)"\s*:.*("cudaVersion"|"globalNetworking"|"dataCenterIds?"|"requestUrls")\s*:`),
	regexp.MustCompile(`(?s)^\s*\{\s*"networkVolumes"\s*:`),
	regexp.MustCompile(`(?s)^\s*\{\s*"clusters"\s*:.*"gpuCountPerPod"\s*:`),
	regexp.MustCompile(`(?s)^\s*\{\s*"gpus"\s*:.*"maxCount"\s*:`),
	regexp.MustCompile(`(?s)^\s*\{\s*"cpus"\s*:.*"securePerVcpu"\s*:`),
	regexp.MustCompile(`(?s)^\s*\[.*"(diskSpaceBilledGb|timeBilledMs|highPerformanceStorageAmount)"\s*:`),
	regexp.MustCompile(`(?s)^\s*\[.*("desiredStatus"\s*:.*"costPerHr"|"costPerHr"\s*:.*"desiredStatus")\s*:`),
}

func sniff(head []byte) bool {
	return slices.ContainsFunc(signs, func(re *regexp.Regexp) bool { return re.Match(head) })
}

const maxFile = 256 << 20

// pile is what the files of one import said.
type pile struct {
	cfg        Config
	statements []*statement
	controls   []*statement
	counts     map[*statement]int // metadata.recordCount
	legacy     []legacyRow
	things     map[string]*thing
	endpoints  []endpoint // read when all prices are known
	gpus       map[string]offer
}

// fileLines reads saved answers: billing pages of v2, told apart by their fields, or old
// exports of v1, and beside them lists of pods, endpoints, volumes, clusters and GPU prices,
// which give names and GPU types. It covers the days of the window that the bill answers for.
func fileLines(ctx context.Context, files []connectors.File, w *lines.Writer) ([]string, error) {
	p := &pile{counts: map[*statement]int{}, things: map[string]*thing{}, gpus: map[string]offer{}}
	var names []string
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(io.LimitReader(f.Body, maxFile+1))
		if err == nil && len(raw) > maxFile {
			err = fmt.Errorf("it is over %d MiB: ask for fewer days", maxFile>>20)
		}
		if err == nil {
			err = p.take(raw, f.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Name, err)
		}
		names = append(names, f.Name)
	}
	for _, e := range p.endpoints {
		t := p.cfg.endpointOf(e, p.gpus)
		p.things[whatServerless+"/"+e.ID] = &t
	}
	account := ""
	if len(files) > 0 {
		account = cmp.Or(files[0].Account, files[0].Source)
	}
	k := ledger{account: account, things: p.things, gpus: p.gpus}
	var out []lines.Line
	var covers []string
	var err error
	switch {
	case len(p.statements)+len(p.controls)+len(p.legacy) == 0:
		err = errors.New("none of them is a bill: give answers of /v2/billing/pods and its sisters too")
	case len(p.legacy) > 0 && len(p.statements)+len(p.controls) > 0:
		err = errors.New("bills of v1 and of v2 may hold the same money: import them one after the other")
	case len(p.legacy) > 0:
		out, covers, err = k.legacyLines(p.legacy)
	default:
		covers, err = p.check()
		if missing := p.absent(); len(missing) > 0 && err == nil {
			files[0].Leave(fmt.Sprintf("no answer of %s: what they cost is NOT in this import, which replaces its days whole; "+
				"give all five routes in one call, or /v2/billing beside them to prove that nothing is missing", strings.Join(missing, ", ")))
		}
		for _, s := range p.statements {
			out = append(out, k.lines(s)...)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading %v: %w", names, err)
	}
	for _, l := range out {
		if err := w.Write(l); err != nil {
			return nil, fmt.Errorf("reading %v: %w", names, err)
		}
	}
	return covers, nil
}

// take reads one file.
func (p *pile) take(raw []byte, name string) error {
	raw = bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff")))
	if len(raw) > 0 && raw[0] == '[' {
		return p.takeLegacy(raw)
	}
	var fields map[string]json.RawMessage
	if err := decode(raw, &fields); err != nil {
		return err
	}
	if fields["records"] != nil {
		var b billingPage
		if err := decode(raw, &b); err != nil {
			return err
		}
		return p.takeBill(b, name)
	}
	known := false
	for _, f := range []string{"pods", "endpoints", "networkVolumes", "clusters", "gpus", "cpus", "workers"} {
		known = known || fields[f] != nil
	}
	if !known {
		return errors.New("it is no answer of RunPod's that is known here: it has neither records nor pods, endpoints, networkVolumes, clusters or gpus")
	}
	var l listing
	if err := decode(raw, &l); err != nil {
		return err
	}
	p.takeList(l)
	return nil
}

func (p *pile) takeList(l listing) {
	for _, x := range l.Pods {
		p.takePod(x)
	}
	for _, x := range l.Volumes {
		p.things[whatVolume+"/"+x.ID] = &thing{Name: x.Name, Region: x.DataCenter, Tags: p.cfg.tagsOf(x.Name, nil)}
	}
	for _, x := range l.Clusters {
		p.things[whatCluster+"/"+x.ID] = &thing{
			Name: x.Name, GPU: x.Compute.GPU, Count: x.Compute.PerPod.IntPart() * x.Compute.Pods.IntPart(), Region: x.DataCenter,
			Tags: p.cfg.tagsOf(x.Name, nil),
		}
	}
	p.endpoints = append(p.endpoints, l.Endpoints...)
	for _, o := range l.GPUs {
		p.gpus[o.ID] = o
	}
}

// takePod keeps a rate that an earlier list showed of a pod which is stopped by now.
func (p *pile) takePod(x pod) {
	t := p.cfg.thingOf(x)
	key := whatPod + "/" + x.ID
	if was := p.things[key]; was != nil && t.Rate == nil {
		t.Rate = was.Rate
	}
	p.things[key] = &t
}

// takeBill finds the route of a billing page by its fields.
func (p *pile) takeBill(b billingPage, name string) error {
	if b.Metadata == nil {
		return errors.New("metadata is missing: without its window it is not known which days this is whole for")
	}
	r := routeOf(b)
	if r == nil {
		return errors.New("its records have amounts of no billing route that is known here")
	}
	list := &p.statements
	if r == overall {
		list = &p.controls
	}
	q := b.Metadata.Query
	i := slices.IndexFunc(*list, func(s *statement) bool {
		return s.route == r && s.from.Equal(q.StartTime) && s.to.Equal(q.EndTime) && s.bucket == q.BucketSize
	})
	if i < 0 {
		*list = append(*list, &statement{route: r})
		i = len(*list) - 1
	}
	s := (*list)[i]
	if err := s.add(b, "the answer"); err != nil {
		return err
	}
	s.said[len(s.said)-1] = name
	n := b.Metadata.RecordCount
	switch {
	case n == nil || *n == len(b.Records):
		p.counts[s] = len(s.rows)
	default:
		p.counts[s] = *n
	}
	return nil
}

// routeOf tells a page's route by its totals, which are there even if no record is.
func routeOf(b billingPage) *route {
	has := func(field string) bool { return b.Metadata.Totals[field] != nil }
	switch {
	case has("podGpuAmount"):
		return overall
	case has("feeAmount"):
		return routes[1]
	case has("networkingAmount"):
		return routes[4]
	case has("standardAmount"):
		return routes[3]
	case has("cpuAmount"):
		return routes[0]
	case has(totalField) && len(b.Metadata.Totals) == 1:
		return routes[2]
	}
	return nil
}

// check holds the pages against each other and returns the days that all of them are whole for.
func (p *pile) check() ([]string, error) {
	all := append(slices.Clone(p.statements), p.controls...)
	days := map[*route][]string{}
	for _, s := range all {
		if n := p.counts[s]; n != len(s.rows) {
			return nil, fmt.Errorf("%v: it has %d records and metadata.recordCount says %d: a page is missing", s.said, len(s.rows), n)
		}
		if err := errors.Join(s.check(), s.whole()); err != nil {
			return nil, fmt.Errorf("%v: %w", s.said, err)
		}
		for _, d := range (window{s.from, s.to}).days() {
			if slices.Contains(days[s.route], d) {
				return nil, fmt.Errorf("%v: two answers of %s hold %s: give each day once", s.said, s.route.path, d)
			}
			days[s.route] = append(days[s.route], d)
		}
	}
	for _, s := range all {
		slices.Sort(days[s.route])
		if first := all[0]; !slices.Equal(days[s.route], days[first.route]) {
			return nil, fmt.Errorf("%s is for the days %v, but %s for %v: ask all routes for the same window",
				s.route.path, days[s.route], first.route.path, days[first.route])
		}
	}
	for _, control := range p.controls {
		var of []*statement
		for _, s := range p.statements {
			if s.from.Equal(control.from) && s.to.Equal(control.to) {
				of = append(of, s)
			}
		}
		if err := reconcile(control, of); err != nil {
			return nil, fmt.Errorf("%v: %w", control.said, err)
		}
	}
	return days[all[0].route], nil
}

// absent names the routes of which no answer is there and nothing proves that they cost
// nothing.
func (p *pile) absent() []string {
	var out []string
	if len(p.controls) > 0 || len(p.statements) == 0 {
		return out
	}
	for _, r := range routes {
		if !slices.ContainsFunc(p.statements, func(s *statement) bool { return s.route == r }) {
			out = append(out, r.path)
		}
	}
	return out
}

// whole refuses what does not divide into UTC days: a delivery replaces whole days.
func (s *statement) whole() error {
	if !s.from.Equal(s.from.Truncate(day)) {
		return fmt.Errorf("its window begins at %s: ask from 00:00 UTC, so that the day is whole", s.from.Format(time.RFC3339))
	}
	for _, r := range s.rows {
		if r.to.After(r.from.Truncate(day).Add(day)) {
			return fmt.Errorf("its records last longer than a day (%s): ask with bucketSize=day or hour", bucketText(r.from, r.to))
		}
	}
	return nil
}
