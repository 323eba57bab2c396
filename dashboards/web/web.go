// Package web serves the pages that people open in a browser: the month at a glance, and the
// reports.
//
// Here live HTTP, headers, the first page, and the list of GPU machines for scrapers. Figures come from dashboards/query, tables and
// plots from dashboards/report. It only reads: nothing changes state, and no page needs a
// script. Doors for data (events, remote write) and metrics are not here.
package web

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	_ "embed"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/dashboards/report"
)

//go:embed page.tmpl
var pageText string

// Options make the handler.
type Options struct {
	DB   query.DB
	Zone *time.Location // of days and times
	Now  func() time.Time
	Log  *slog.Logger // nil discards
}

type site struct {
	Options
	builder *report.Builder
	page    *template.Template
}

// New returns the handler of "/", "/reports/" and "/v1/targets". It answers GET and HEAD only.
func New(o Options) (http.Handler, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	t, err := report.Templates()
	if err != nil {
		return nil, err
	}
	if t, err = t.Parse(pageText); err != nil {
		return nil, fmt.Errorf("reading page template: %w", err)
	}
	s := &site{Options: o, builder: report.New(o.DB, o.Zone, o.Now), page: t}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.home)
	mux.HandleFunc("GET /reports/{name}", s.report)
	mux.HandleFunc("GET /v1/targets", s.targets)
	return guarded(mux), nil
}

// guarded sets the headers of every answer: no script, no other host, no frame.
func guarded(next http.Handler) http.Handler {
	policy := "default-src 'none'; style-src " + report.StyleSource() + "; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// month reads ?month=, else it is the newest one with charges, else the current one.
func (s *site) month(r *http.Request) (query.Month, error) {
	if text := r.URL.Query().Get("month"); text != "" {
		return query.ParseMonth(text)
	}
	newest, ok, err := s.DB.NewestMonth(r.Context())
	if err != nil || !ok {
		return query.MonthOf(s.Now(), s.Zone), nil //nolint:nilerr // the page itself will say that the store does not answer
	}
	return newest, nil
}

func (s *site) report(w http.ResponseWriter, r *http.Request) {
	month, err := s.month(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := report.Request{Name: r.PathValue("name"), Month: month}
	if !slices.Contains(report.Names(), q.Name) {
		http.NotFound(w, r)
		return
	}
	if by := r.URL.Query().Get("by"); by != "" {
		q.By = strings.Split(by, ",")
		if err := query.CheckDimensions(q.By); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	format := r.URL.Query().Get("format")
	if format == "" {
		format = "html"
	}
	types := map[string]string{
		"table": "text/plain; charset=utf-8", "csv": "text/csv; charset=utf-8", "json": "application/json",
		"md": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8",
	}
	if types[format] == "" {
		http.Error(w, fmt.Sprintf("unknown format %q, want %s", format, strings.Join(report.Formats(), ", ")), http.StatusBadRequest)
		return
	}
	made, err := s.builder.Build(r.Context(), q)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var body bytes.Buffer
	if err := report.Render(&body, made, format); err != nil {
		s.fail(w, r, err)
		return
	}
	if format == "csv" {
		w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-%s.csv"`, q.Name, month))
	}
	s.answer(w, r, types[format], body.Bytes())
}

// fail says what people can act on; the rest goes to the log.
func (s *site) fail(w http.ResponseWriter, r *http.Request, err error) {
	if refused, ok := errors.AsType[*report.BooksError](err); ok {
		http.Error(w, refused.Error(), http.StatusConflict)
		return
	}
	if r.Context().Err() == nil {
		s.Log.ErrorContext(r.Context(), "answering a page", slog.String("path", r.URL.Path), slog.String("error", err.Error()))
	}
	http.Error(w, "The store did not answer this question; the log says why.", http.StatusInternalServerError)
}

func (s *site) answer(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	if _, err := w.Write(body); err != nil {
		s.Log.DebugContext(r.Context(), "sending a page", slog.String("error", err.Error()))
	}
}
