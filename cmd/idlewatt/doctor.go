package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/ingest"
	"github.com/idlewatt/idlewatt/schema/money"
)

type doctorCmd struct {
	Config string `short:"c" default:"idlewatt.yaml" help:"Configuration file." placeholder:"FILE"`
	What   string `arg:"" optional:"" name:"what" help:"telemetry, tags or the name of a source; nothing means all."`
}

// Run looks at what is asked for and fails if something keeps facts from coming in.
func (c *doctorCmd) Run(e *env) error {
	var found []connectors.Finding
	if c.What != "telemetry" && c.What != "tags" {
		f, err := c.sources(e)
		if err != nil {
			return err
		}
		found = append(found, f...)
	}
	if c.What == "" || c.What == "telemetry" || c.What == "tags" {
		err := e.withApp(func(a *app) error {
			f, err := c.data(a)
			found = append(found, f...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return tell(e, found)
}

// sources asks every source that is meant what keeps it from working.
func (c *doctorCmd) sources(e *env) ([]connectors.Finding, error) {
	l, err := loadConfig(c.Config)
	if errors.Is(err, os.ErrNotExist) && c.What == "" {
		return []connectors.Finding{{Level: connectors.Warn, What: "configuration", Said: c.Config + " does not exist", Fix: "name it with -c, or go on with imports by hand"}}, nil
	}
	if err != nil {
		return nil, err
	}
	e.useData(l)
	var found []connectors.Finding
	for _, s := range l.sources {
		if c.What == "" || c.What == s.Name {
			found = append(found, c.source(e, s)...)
		}
	}
	if c.What != "" && len(found) == 0 {
		return nil, usagef("doctor %s: want telemetry, tags or a source of %s: %s", c.What, c.Config, strings.Join(names(l.sources), ", "))
	}
	return found, nil
}

func (c *doctorCmd) source(e *env, s ingest.Source) []connectors.Finding {
	d, ok := s.Connector.(connectors.Doctor)
	if !ok {
		return []connectors.Finding{{Level: connectors.OK, What: s.Name, Said: "configured; this kind of source has nothing to ask"}}
	}
	found := d.Doctor(e.ctx)
	for i := range found {
		found[i].What = s.Name + ": " + found[i].What
	}
	return found
}

// data says what the store knows of telemetry and of tags.
func (c *doctorCmd) data(a *app) ([]connectors.Finding, error) {
	db := query.New(a.db.Conn)
	var out []connectors.Finding
	if c.What != "tags" {
		f, err := telemetryFindings(a, db)
		if err != nil {
			return nil, err
		}
		out = append(out, f...)
	}
	if c.What != "telemetry" {
		rows, err := db.Tagged(a.ctx, query.TaggedQuestion{Offenders: 5})
		if err != nil {
			return nil, err
		}
		out = append(out, tagFindings(rows)...)
	}
	return out, nil
}

func telemetryFindings(a *app, db query.DB) ([]connectors.Finding, error) {
	seen, err := db.Seen(a.ctx)
	if err != nil {
		return nil, err
	}
	var out []connectors.Finding
	for _, n := range seen {
		f := connectors.Finding{
			Level: connectors.OK, What: "telemetry of " + n.Node,
			Said: fmt.Sprintf("%d GPUs, until %s, %.0f%% of its last day without a verdict", n.GPUs, n.Until.Format(time.RFC3339), 100*n.Unknown),
		}
		if a.now().Sub(n.Until) > time.Hour || n.Unknown > 0.1 {
			f.Level, f.Fix = connectors.Warn, "if the node still runs, see whether its exporter answers and is scraped at least once a minute"
		}
		out = append(out, f)
	}
	if len(seen) == 0 {
		out = append(out, connectors.Finding{Level: connectors.Warn, What: "telemetry", Said: "none at all", Fix: "add a source of type dcgm: without it every GPU hour stays unobserved"})
	}
	targets, err := db.Telemetry(a.ctx, query.TelemetryQuestion{Limit: 20})
	if err != nil {
		return nil, err
	}
	out = append(out, targetFindings(targets)...)
	rows, err := db.Coverage(a.ctx, query.CoverageQuestion{Limit: 10})
	if err != nil {
		return nil, err
	}
	return append(out, coverageFindings(rows)...), nil
}

// targetFindings says per target what failed and what was refused in its last day, and why.
func targetFindings(rows []query.TelemetryRow) []connectors.Finding {
	var out []connectors.Finding
	for _, r := range rows {
		f := connectors.Finding{Level: connectors.Warn, What: "target " + r.Target, Said: fmt.Sprintf("%d of %d scrapes failed", r.Failed, r.Scrapes)}
		if r.Scrapes == 0 {
			f.Said = "not scraped since " + r.Last.Format(time.RFC3339)
		}
		if r.Incomplete > 0 {
			f.Said += fmt.Sprintf(", %d were cut", r.Incomplete)
		}
		if r.LastOK == nil {
			f.Said += ", none was good in a month"
		}
		if r.LastError != "" {
			f.Said += ", last error: " + r.LastError
		}
		if why := r.Reasons(); why != "" {
			f.Said += "; readings refused: " + why
		}
		if r.Skew > 60 || r.Skew < -60 {
			f.Said += fmt.Sprintf("; its clock is %.0f s off", r.Skew)
		}
		f.Fix = "see that the exporter answers; refused readings prove neither work nor idleness"
		out = append(out, f)
	}
	return out
}

// coverageFindings says where bill and telemetry do not meet.
func coverageFindings(rows []query.CoverageRow) []connectors.Finding {
	var out []connectors.Finding
	for _, r := range rows {
		said := r.GPUHours.StringFixed(1) + " GPU-hours"
		if r.Cost != nil {
			said += ", " + money.Text(*r.Cost, r.Currency)
		}
		fix := "add it to `hosts:` of the configuration, or let an inventory source tell the machine's host names"
		switch {
		case r.ResourceID != "":
			fix = "run an exporter there and scrape it"
		case len(r.Candidates) > 0:
			said += ", may be any of " + strings.Join(r.Candidates, ", ")
			fix = "let exporters be scraped under names that only one machine has, such as its resource id"
		}
		out = append(out, connectors.Finding{Level: connectors.Warn, What: r.Kind + " " + r.Name, Said: said, Fix: fix})
	}
	return out
}

func tagFindings(rows []query.TaggedRow) []connectors.Finding {
	var out []connectors.Finding
	for _, r := range rows {
		f := connectors.Finding{
			Level: connectors.OK, What: "project of charges in " + r.Period.Format("2006-01") + ", " + r.Currency,
			Said: fmt.Sprintf("%s of %s has none", money.Text(r.Untagged, ""), money.Text(r.Effective, r.Currency)),
		}
		if r.Untagged.IsPositive() {
			f.Level, f.Fix = connectors.Warn, "see `dimensions:` in the configuration"
			if len(r.Offenders) > 0 {
				f.Fix += "; tag these first: " + strings.Join(r.Offenders, ", ")
			}
		}
		out = append(out, f)
	}
	if len(rows) == 0 {
		out = append(out, connectors.Finding{Level: connectors.Warn, What: "charges", Said: "none yet", Fix: "import a bill, or `idlewatt pull`"})
	}
	return out
}

// tell prints findings, worst last, so that they are seen.
func tell(e *env, found []connectors.Finding) error {
	rank := map[string]int{connectors.OK: 0, connectors.Warn: 1, connectors.Fail: 2}
	slices.SortStableFunc(found, func(a, b connectors.Finding) int { return rank[a.Level] - rank[b.Level] })
	fails := 0
	for _, f := range found {
		fmt.Fprintf(e.out, "%-4s  %s: %s\n", f.Level, f.What, f.Said)
		if f.Fix != "" {
			fmt.Fprintf(e.out, "      to do: %s\n", f.Fix)
		}
		if f.Level == connectors.Fail {
			fails++
		}
	}
	if fails > 0 {
		return fmt.Errorf("%d of %d checks failed", fails, len(found))
	}
	return nil
}
