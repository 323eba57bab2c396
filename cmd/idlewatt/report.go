package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/dashboards/report"
	"github.com/idlewatt/idlewatt/dashboards/web"
	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/schema/migrations"
)

type reportCmd struct {
	Name   string   `arg:"" help:"One of ${reports}."`
	Month  string   `required:"" help:"Billing period." placeholder:"YYYY-MM"`
	By     []string `help:"Dimensions of an allocation report: ${dimensions}." placeholder:"DIM"`
	Format string   `default:"table" help:"One of ${report_formats}." placeholder:"F"`
	Output string   `short:"o" help:"Write to a file instead of standard output." placeholder:"FILE"`
}

func (c *reportCmd) Run(e *env) (err error) {
	month, err := query.ParseMonth(c.Month)
	if err != nil {
		return usageError{fmt.Errorf("--month: %w", err)}
	}
	if err := query.CheckDimensions(c.By); err != nil {
		return usageError{fmt.Errorf("--by: %w", err)}
	}
	if !contains(report.Names(), c.Name) {
		return usagef("report %q: want one of %s", c.Name, strings.Join(report.Names(), ", "))
	}
	if !contains(report.Formats(), c.Format) {
		return usagef("--format %q: want one of %s", c.Format, strings.Join(report.Formats(), ", "))
	}
	a, err := e.open(local.Options{})
	if err != nil {
		return err
	}
	defer closing(a, &err)
	zone, err := a.zone()
	if err != nil {
		return err
	}
	r, err := report.New(query.New(a.db.Conn), zone, a.now).Build(a.ctx, report.Request{Name: c.Name, Month: month, By: c.By})
	if err != nil {
		return err
	}
	return c.write(e, func(w io.Writer) error { return report.Render(w, r, c.Format) })
}

// write renders to standard output, or to a file that is whole or not there.
func (c *reportCmd) write(e *env, render func(io.Writer) error) error {
	if c.Output == "" {
		return render(e.out)
	}
	f, err := os.CreateTemp(filepath.Dir(c.Output), ".report-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", c.Output, err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone already after the rename
	if err := errors.Join(render(f), f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", c.Output, err)
	}
	return os.Rename(f.Name(), c.Output)
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// zone is the reporting time zone that the views are made for.
func (a *app) zone() (*time.Location, error) {
	name, err := migrations.TimeZone(a.ctx, a.db.SQL)
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("reading the reporting time zone: %w", err)
	}
	return zone, nil
}

// page is the web page and the reports below it.
func (a *app) page() (http.Handler, error) {
	zone, err := a.zone()
	if err != nil {
		return nil, err
	}
	return web.New(web.Options{DB: query.New(a.db.Conn), Zone: zone, Now: a.now, Log: a.log})
}

type docsCmd struct {
	Schema docsSchemaCmd `cmd:"" help:"Every public view with its columns and their types. Example: idlewatt docs schema"`
}

type docsSchemaCmd struct{}

func (docsSchemaCmd) Run(e *env) (err error) {
	a, err := e.open(local.Options{})
	if err != nil {
		return err
	}
	defer closing(a, &err)
	return a.query(`SELECT concat('idlewatt.', table) AS view, name AS column, replaceAll(type, '\'', '') AS type FROM system.columns
		WHERE database = 'idlewatt' ORDER BY table, position`, "Markdown", e.out)
}
