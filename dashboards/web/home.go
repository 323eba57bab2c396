package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/dashboards/report"
)

const (
	idleDays       = 7
	runningFor     = 24 * time.Hour // what was not seen for longer is not said to run
	idleShown      = 10
	deliveriesShow = 10
	hostsShown     = 10
	targetsShown   = 10
)

// home is what the first page shows.
type home struct {
	Month      query.Month
	Made       string
	Months     []link
	Reports    []links
	Facts      []report.Fact
	Refused    string // the books do not close
	Sections   []report.Section
	IdleNow    report.Table
	Running    []report.Table // none where there is no inventory
	Waste      []report.Table
	WasteOf    string // the month, where it is not the last seven days
	Unmatched  report.Table
	Telemetry  report.Table
	Deliveries []delivery
}

type link struct{ Name, URL string }

type links struct {
	Name    string
	Formats []link
}

type delivery struct {
	At, Source, Format, Files, Rows, Status, Class, Message string
}

func (s *site) home(w http.ResponseWriter, r *http.Request) {
	month, err := s.month(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	page, err := s.gather(r.Context(), month)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var body bytes.Buffer
	if err := s.page.ExecuteTemplate(&body, "home", page); err != nil {
		s.fail(w, r, err)
		return
	}
	s.answer(w, r, "text/html; charset=utf-8", body.Bytes())
}

func (s *site) gather(ctx context.Context, month query.Month) (home, error) {
	now := s.Now()
	h := home{Month: month, Made: now.In(s.Zone).Format("2 January 2006 15:04 MST"), Months: s.months(month), Reports: reportLinks(month)}
	made, err := s.builder.Build(ctx, report.Request{Name: "allocation", Month: month})
	refused, isRefused := errors.AsType[*report.BooksError](err)
	switch {
	case isRefused:
		h.Refused = refused.Error()
	case err != nil:
		return h, err
	}
	h.Facts = made.Facts
	for _, section := range made.Sections { // the whole of it is the report
		section.Tables = section.Tables[:1]
		section.Plots = section.Plots[:min(len(section.Plots), 1)]
		h.Sections = append(h.Sections, section)
	}
	idle, err := s.DB.IdleNow(ctx, query.IdleNowQuestion{})
	if err != nil {
		return h, err
	}
	h.IdleNow = s.builder.IdleNow(idle)
	if h.Running, err = s.running(ctx, now); err != nil {
		return h, err
	}
	from, to := now.AddDate(0, 0, -idleDays), now
	if month != query.MonthOf(now, s.Zone) { // a past month shows its own waste
		from, to = month.Bounds(s.Zone)
		h.WasteOf = month.String()
	}
	waste, err := s.DB.Idle(ctx, query.IdleQuestion{From: from, To: to, Limit: idleShown})
	if err != nil {
		return h, err
	}
	h.Waste = s.builder.Waste(waste)
	hosts, err := s.DB.Coverage(ctx, query.CoverageQuestion{Limit: hostsShown})
	if err != nil {
		return h, err
	}
	h.Unmatched = s.builder.Unmatched(hosts)
	targets, err := s.DB.Telemetry(ctx, query.TelemetryQuestion{Limit: targetsShown})
	if err != nil {
		return h, err
	}
	h.Telemetry = s.builder.Telemetry(targets)
	deliveries, err := s.DB.Deliveries(ctx, query.DeliveriesQuestion{Limit: deliveriesShow})
	h.Deliveries = s.deliveries(deliveries)
	return h, err
}

// running are the tables of what an inventory tells, each if it has rows.
func (s *site) running(ctx context.Context, now time.Time) ([]report.Table, error) {
	var out []report.Table
	machines, err := s.DB.Running(ctx, query.RunningQuestion{SeenSince: now.Add(-runningFor)})
	if err != nil {
		return nil, err
	}
	if len(machines) > 0 {
		out = append(out, s.builder.Running(machines))
	}
	wallets, err := s.DB.Wallets(ctx, query.WalletsQuestion{})
	if len(wallets) > 0 {
		out = append(out, s.builder.Wallets(wallets))
	}
	return out, err
}

// months links to the neighbours, never beyond the current month.
func (s *site) months(m query.Month) []link {
	out := []link{{m.Add(-1).String(), "/?month=" + m.Add(-1).String()}}
	if next := m.Add(1); !next.Day().After(query.MonthOf(s.Now(), s.Zone).Day()) {
		out = append(out, link{next.String(), "/?month=" + next.String()})
	}
	return out
}

func reportLinks(m query.Month) []links {
	var out []links
	add := func(name, report string, more url.Values) {
		l := links{Name: name}
		for _, format := range []string{"html", "csv", "json", "md"} {
			v := url.Values{"month": {m.String()}, "format": {format}}
			for k, x := range more {
				v[k] = x
			}
			l.Formats = append(l.Formats, link{format, "/reports/" + report + "?" + v.Encode()})
		}
		out = append(out, l)
	}
	add("Cost by project", "allocation", nil)
	add("Cost by team and project", "allocation", url.Values{"by": {"team,project"}})
	add("Cost by GPU and pricing model", "allocation", url.Values{"by": {"gpu_model,pricing_model"}})
	add("Idle GPUs", "idle", nil)
	add("Jobs", "jobs", nil)
	add("Reconciliation", "reconciliation", nil)
	return out
}

func (s *site) deliveries(rows []query.DeliveryRow) []delivery {
	var out []delivery
	for _, r := range rows {
		d := delivery{
			At: r.At.In(s.Zone).Format(time.DateTime), Source: r.Source, Format: r.Format, Status: r.Status, Message: r.Message,
			Rows: report.CountText(r.Rows), Class: statusClass(r.Status),
		}
		for i, f := range r.Files {
			if i > 0 {
				d.Files += ", "
			}
			if i == 3 {
				d.Files += "…"
				break
			}
			d.Files += f
		}
		out = append(out, d)
	}
	return out
}

// statusClass colours a delivery's status; the word itself says it too.
func statusClass(status string) string {
	switch status {
	case "live", "unchanged":
		return "ok"
	case "refused":
		return "bad"
	}
	return "warn"
}
