package runpod

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors/rest"
)

// api asks RunPod: v2, and the old GraphQL for what v2 lacks.
type api struct{ rest, graph *rest.Client }

func newAPI(c Config, now func() time.Time) *api {
	return &api{
		rest:  &rest.Client{Provider: "RunPod", Base: c.BaseURL, Key: c.Key, Now: now},
		graph: &rest.Client{Provider: "RunPod GraphQL", Base: c.GraphURL, Key: c.Key, Now: now},
	}
}

// Paging of lists, by autumn 2026; what does not know these parameters ignores them.
const (
	pageLimit = "1000"
	maxPages  = 1000
)

// pages asks for every page of a route. take decodes one and returns the cursor of the next.
func (a *api) pages(ctx context.Context, path string, query url.Values, take func(n int, raw []byte) (next string, err error)) error {
	q := url.Values{}
	for k, v := range query {
		q[k] = v
	}
	seen := map[string]bool{}
	for n := 1; n <= maxPages; n++ {
		raw, err := a.rest.Do(ctx, rest.Call{Path: path, Query: q}, nil)
		if err != nil {
			return err
		}
		next, err := take(n, raw)
		if err != nil {
			return fmt.Errorf("asking RunPod: GET %s page %d: %w", path, n, err)
		}
		if next == "" {
			return nil
		}
		if seen[next] {
			return fmt.Errorf("asking RunPod: GET %s page %d: pagination.nextCursor %q came twice", path, n, next)
		}
		seen[next] = true
		q.Set("cursor", next)
	}
	return fmt.Errorf("asking RunPod: GET %s has no end after %d pages", path, maxPages)
}

// list reads all pages of a list into one listing. present tells whether an answer has the
// list that the route promises: an empty list is one, its absence is not.
func (a *api) list(ctx context.Context, path string, query url.Values, into *listing, present func(l *listing) bool) error {
	q := url.Values{"limit": {pageLimit}}
	for k, v := range query {
		q[k] = v
	}
	return a.pages(ctx, path, q, func(_ int, raw []byte) (string, error) {
		var l listing
		if err := decode(raw, &l); err != nil {
			return "", err
		}
		if !present(&l) {
			return "", errors.New("the list is missing: the answer is not of the documented form")
		}
		if !l.named() {
			return "", errors.New("an entry has no id")
		}
		into.Pods = append(into.Pods, l.Pods...)
		into.Endpoints = append(into.Endpoints, l.Endpoints...)
		into.Workers = append(into.Workers, l.Workers...)
		into.Volumes = append(into.Volumes, l.Volumes...)
		into.Clusters = append(into.Clusters, l.Clusters...)
		into.GPUs = append(into.GPUs, l.GPUs...)
		return l.next()
	})
}

// sight is what one poll saw, all pages of all lists.
type sight struct {
	listing
	workers map[string][]worker // by endpoint; nil if they were not asked for
}

// mostEndpoints bounds the requests of a poll: each endpoint's workers are one.
const mostEndpoints = 20

// look reads everything that exists now.
func (a *api) look(ctx context.Context) (*sight, error) {
	s := &sight{}
	for _, x := range []struct {
		path    string
		query   url.Values
		present func(l *listing) bool
	}{
		{"/pods", url.Values{"includeClusterPods": {"true"}}, func(l *listing) bool { return l.Pods != nil }},
		{"/serverless", nil, func(l *listing) bool { return l.Endpoints != nil }},
		{"/network-volumes", nil, func(l *listing) bool { return l.Volumes != nil }},
		{"/clusters", nil, func(l *listing) bool { return l.Clusters != nil }},
	} {
		if err := a.list(ctx, x.path, x.query, &s.listing, x.present); err != nil {
			return nil, err
		}
	}
	if len(s.Endpoints) > mostEndpoints {
		return s, nil
	}
	s.workers = map[string][]worker{}
	for _, e := range s.Endpoints {
		var l listing
		err := a.list(ctx, "/serverless/"+url.PathEscape(e.ID)+"/workers", nil, &l, func(l *listing) bool { return l.Workers != nil })
		var status *rest.StatusError
		gone := errors.As(err, &status) && status.Status == http.StatusNotFound
		if err != nil && !gone {
			return nil, err
		}
		s.workers[e.ID] = l.Workers // none if the endpoint was deleted just now
	}
	return s, nil
}

func (a *api) offers(ctx context.Context) ([]offer, error) {
	var l listing
	err := a.list(ctx, "/catalog/gpus", nil, &l, func(l *listing) bool { return l.GPUs != nil })
	return l.GPUs, err
}

// page is the raw bytes of one answer, as evidence.
type page struct {
	name string
	raw  []byte
}

// statement reads one billing route over a window, hour by hour.
func (a *api) statement(ctx context.Context, r *route, from, to time.Time) (*statement, []page, error) {
	s := &statement{route: r}
	var evidence []page
	counts := 0
	query := url.Values{"bucketSize": {"hour"}, "startTime": {from.Format(time.RFC3339)}, "endTime": {to.Format(time.RFC3339)}}
	err := a.pages(ctx, r.path, query, func(n int, raw []byte) (string, error) {
		var p billingPage
		if err := decode(raw, &p); err != nil {
			return "", err
		}
		if err := s.add(p, "page "+strconv.Itoa(n)); err != nil {
			return "", err
		}
		if p.Metadata.RecordCount != nil {
			counts = *p.Metadata.RecordCount
			if counts == len(p.Records) {
				counts = len(s.rows) // each page counts itself
			}
		} else {
			counts = len(s.rows)
		}
		evidence = append(evidence, page{fmt.Sprintf("%s %s page %d.json", r.name, from.Format(time.DateOnly), n), raw})
		return p.next()
	})
	if err != nil {
		return nil, nil, err
	}
	switch {
	case counts != len(s.rows):
		err = fmt.Errorf("it has %d records and metadata.recordCount says %d", len(s.rows), counts)
	case !s.from.Equal(from) || !s.to.Equal(to) || !strings.EqualFold(s.bucket, "hour"):
		err = fmt.Errorf("it answers for %s by %s; asked was %s by hour", bucketText(s.from, s.to), s.bucket, bucketText(from, to))
	default:
		return s, evidence, s.unique()
	}
	return nil, nil, fmt.Errorf("asking RunPod: GET %s: %w", r.path, err)
}
