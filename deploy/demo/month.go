package demo

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/idlewatt/idlewatt/schema/money"
)

// Month says what was generated and what it adds up to.
type Month struct {
	Period     string // YYYY-MM
	Start, End time.Time
	TimeZone   string // of the people who read the month
	Currency   string
	// Deliveries are the bills, in the order in which they came: the first delivery of the
	// main bill, the restated one that replaces it, and the bill of another organisation.
	Deliveries []Delivery
	Jobs       string // CloudEvents JSON lines: jobs and inventory
	Invoices   string // six-column CSV
	// Final is what all live deliveries add up to: the second and the third.
	Final   Totals
	Weekend Weekend
	Invoice []Invoice
	// ScrapeStart and ScrapeEnd bound the days with telemetry.
	ScrapeStart, ScrapeEnd time.Time
}

// Delivery is one version of one bill.
type Delivery struct {
	Name    string // folder
	Source  string // as in idlewatt import --source
	Format  string
	Version string
	Account string // billing account
	Files   []string
	Totals  Totals
}

// Totals are exact sums of a delivery's rows.
type Totals struct {
	Rows      int64
	Billed    money.Decimal            // as invoiced
	Effective money.Decimal            // amortised
	ByProject map[string]Amounts       // by the tag project; "" is without it
	ByAccount map[string]money.Decimal // billed, by billing account
}

// Amounts are the two costs of a part of a bill.
type Amounts struct{ Billed, Effective money.Decimal }

// Weekend is the idle node that the month is about.
type Weekend struct {
	Node, ResourceID string
	GPUs             int
	From, To         time.Time // the first idle sample, the first busy one after it
	HourlyCost       money.Decimal
	Cost             money.Decimal
	LastJob          string
}

// Invoice is what the issuer asked for, and whether the bill agrees.
type Invoice struct {
	Account, ID string
	Total       money.Decimal
	Difference  money.Decimal // invoice less bill
}

// Generate writes the sample month into dir, which it creates, and returns what is in it.
func Generate(dir string) (Month, error) {
	m := Month{
		Period: "2026-10", Start: monthStart, End: monthEnd, TimeZone: "Europe/Berlin", Currency: currency,
		Jobs: filepath.Join(dir, "jobs.jsonl"), Invoices: filepath.Join(dir, "invoices.csv"),
		ScrapeStart: scrapeStart, ScrapeEnd: scrapeEnd, Weekend: weekend(),
	}
	bills := []struct {
		delivery Delivery
		lines    []line
		files    int
	}{
		{Delivery{Name: "bill-1", Source: "northlight", Version: version1, Account: payerMain}, mainBill(first), 2},
		{Delivery{Name: "bill-2", Source: "northlight", Version: version2, Account: payerMain}, mainBill(restated), 2},
		{Delivery{Name: "bill-labs", Source: "northlight-labs", Version: version2, Account: payerLabs}, labsBill(), 1},
	}
	live := newSum()
	for i, b := range bills {
		d := b.delivery
		d.Format = "aws-cur2"
		files, err := writeBill(filepath.Join(dir, d.Name), b.lines, b.files)
		if err != nil {
			return Month{}, err
		}
		own := newSum()
		own.add(b.lines)
		if i > 0 {
			live.add(b.lines)
		}
		d.Files, d.Totals = files, own.totals()
		m.Deliveries = append(m.Deliveries, d)
	}
	m.Final = live.totals()
	m.Invoice = invoices(m.Final.ByAccount)
	return m, errors.Join(writeInvoices(m.Invoices, m.Invoice), writeEvents(m.Jobs))
}

func weekend() Weekend {
	idle := units(weekendEnd.Sub(weekendStart)/time.Second) * one / 3600
	return Weekend{
		Node: "trn-07", ResourceID: "i-0d6e41f0a3b207", GPUs: p5.gpus, From: weekendStart, To: weekendEnd,
		HourlyCost: p5.price.decimal(), Cost: mul(idle, p5.price).decimal().Round(2), LastJob: weekendJob,
	}
}

// writeBill spreads the lines over files as an export does: in runs.
func writeBill(dir string, lines []line, files int) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating folder: %w", err)
	}
	var out []string
	for i := range files {
		path := filepath.Join(dir, fmt.Sprintf("northlight-cur2-%05d.snappy.parquet", i+1))
		f, err := create(path)
		if err != nil {
			return nil, err
		}
		for j := i * len(lines) / files; j < (i+1)*len(lines)/files && err == nil; j++ {
			err = f.add(&lines[j])
		}
		if err := errors.Join(err, f.close()); err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}

// invoices asks for the main bill to the cent, and of the other organisation for a support
// plan that its export does not hold.
func invoices(billed map[string]money.Decimal) []Invoice {
	extra := (29 * one).decimal()
	return []Invoice{
		{Account: payerMain, ID: "1987654321", Total: billed[payerMain]},
		{Account: payerLabs, ID: "1987650042", Total: billed[payerLabs].Add(extra), Difference: extra},
	}
}

func writeInvoices(path string, all []Invoice) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("creating invoices: %w", err)
	}
	w := csv.NewWriter(f)
	rows := [][]string{{"InvoiceIssuerName", "BillingAccountId", "InvoiceId", "BillingPeriodStart", "BillingCurrency", "BilledCost"}}
	for _, i := range all {
		rows = append(rows, []string{issuer, i.Account, i.ID, monthStart.Format("2006-01-02"), currency, i.Total.StringFixed(2)})
	}
	if err := errors.Join(w.WriteAll(rows), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// sum adds lines up exactly.
type sum struct {
	rows              int64
	billed, effective units
	project           map[string][2]units
	account           map[string]units
}

func newSum() *sum { return &sum{project: map[string][2]units{}, account: map[string]units{}} }

func (s *sum) add(lines []line) {
	for i := range lines {
		l := &lines[i]
		b, e := l.billed(), l.effective()
		p := s.project[l.holder.project()]
		s.project[l.holder.project()] = [2]units{p[0] + b, p[1] + e}
		s.account[l.payer.id] += b
		s.rows, s.billed, s.effective = s.rows+1, s.billed+b, s.effective+e
	}
}

func (s *sum) totals() Totals {
	t := Totals{
		Rows: s.rows, Billed: s.billed.decimal(), Effective: s.effective.decimal(),
		ByProject: map[string]Amounts{}, ByAccount: map[string]money.Decimal{},
	}
	for k, v := range s.project {
		t.ByProject[k] = Amounts{v[0].decimal(), v[1].decimal()}
	}
	for k, v := range s.account {
		t.ByAccount[k] = v.decimal()
	}
	return t
}
