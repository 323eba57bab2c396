package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Formats are the forms a report can take.
func Formats() []string { return []string{"table", "csv", "json", "md", "html"} }

// Render writes a report in one of the Formats.
func Render(w io.Writer, r Report, format string) error {
	switch format {
	case "table":
		return renderText(w, r)
	case "csv":
		return renderCSV(w, r)
	case "json":
		return renderJSON(w, r)
	case "md":
		return renderMarkdown(w, r)
	case "html":
		return renderHTML(w, r)
	}
	return fmt.Errorf("unknown format %q, want %s", format, strings.Join(Formats(), ", "))
}

// shown returns the columns that people see, by index.
func (t Table) shown() []int {
	var out []int
	for i, c := range t.Columns {
		if !c.Hidden {
			out = append(out, i)
		}
	}
	return out
}

// heading is the table's title with its currency.
func (t Table) heading() string {
	if t.Currency == "" {
		return t.Title
	}
	return t.Title + ", " + t.Currency
}

// plain drops control characters, which names from outside may hold: a terminal obeys them.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

func renderText(w io.Writer, r Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n\n", r.Title, r.Period)
	width := 0
	for _, f := range r.Facts {
		width = max(width, len(f.Name))
	}
	for _, f := range r.Facts {
		fmt.Fprintf(&b, "%-*s  %s\n", width, f.Name, plain(f.Value))
	}
	for i, book := range r.Books {
		name := "Books"
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(&b, "%-*s  %s\n", width, name, plain(book.Line()))
	}
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			fmt.Fprintf(&b, "\n%s\n", t.heading())
			writeAligned(&b, t)
		}
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeAligned writes columns as wide as their widest value, numbers at the right.
func writeAligned(b *strings.Builder, t Table) {
	if len(t.Rows) == 0 {
		fmt.Fprintf(b, "  %s\n", t.Empty)
		return
	}
	shown := t.shown()
	widths := make([]int, len(shown))
	lines := make([][]string, 0, len(t.Rows)+2)
	var head []string
	for _, c := range shown {
		head = append(head, t.Columns[c].Title)
	}
	lines = append(lines, head)
	all := t.Rows
	if len(t.Total) > 0 {
		all = append(all[:len(all):len(all)], t.Total)
	}
	for _, row := range all {
		var line []string
		for _, c := range shown {
			line = append(line, plain(row[c].Show))
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		for i, s := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(s))
		}
	}
	for n, line := range lines {
		if n == 1 || n == len(lines)-1 && len(t.Total) > 0 {
			writeRule(b, widths)
		}
		var parts []string
		for i, s := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(s))
			if t.Columns[shown[i]].Kind.Number() {
				parts = append(parts, pad+s)
			} else {
				parts = append(parts, s+pad)
			}
		}
		fmt.Fprintf(b, "  %s\n", strings.TrimRight(strings.Join(parts, "  "), " "))
	}
}

func writeRule(b *strings.Builder, widths []int) {
	var parts []string
	for _, w := range widths {
		parts = append(parts, strings.Repeat("-", w))
	}
	fmt.Fprintf(b, "  %s\n", strings.Join(parts, "  "))
}

// renderCSV writes the main tables as one, exact amounts, with the currency as first column
// and no totals: a sum row would be added up with the rest.
func renderCSV(w io.Writer, r Report) error {
	out := csv.NewWriter(w)
	header := false
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			if !t.Main {
				continue
			}
			if !header {
				head := []string{"billing_period", "currency"}
				for _, c := range t.Columns {
					head = append(head, c.Key)
				}
				if err := out.Write(head); err != nil {
					return err
				}
				header = true
			}
			for _, row := range t.Rows {
				line := []string{r.Period, t.Currency}
				for i, c := range row {
					line = append(line, csvText(c.Exact, t.Columns[i].Kind))
				}
				if err := out.Write(line); err != nil {
					return err
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// csvText keeps a text from outside from being a formula in a spreadsheet.
func csvText(s string, k Kind) string {
	if k == Text && s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

type jsonTable struct {
	Key      string               `json:"key"`
	Title    string               `json:"title"`
	Currency string               `json:"currency,omitempty"`
	Columns  []jsonColumn         `json:"columns"`
	Rows     []map[string]*string `json:"rows"`
	Total    map[string]*string   `json:"total,omitempty"`
}

type jsonColumn struct {
	Key   string `json:"key"`
	Title string `json:"title"`
	Kind  Kind   `json:"kind"`
}

type jsonBook struct {
	Issuer    string            `json:"invoice_issuer"`
	Account   string            `json:"billing_account"`
	Currency  string            `json:"currency"`
	Billed    string            `json:"billed_cost"`
	Amortised string            `json:"amortisation_difference"`
	Effective string            `json:"effective_cost"`
	Kinds     map[string]string `json:"kinds"`
	Estimated string            `json:"estimated"`
}

// renderJSON writes everything but the plots, amounts exact and as text, unknown as null.
func renderJSON(w io.Writer, r Report) error {
	out := struct {
		Report string            `json:"report"`
		Title  string            `json:"title"`
		Period string            `json:"billing_period"`
		Made   string            `json:"made"`
		Facts  map[string]string `json:"facts"`
		Books  []jsonBook        `json:"books"`
		Tables []jsonTable       `json:"tables"`
		Notes  []string          `json:"notes"`
	}{Report: r.Name, Title: r.Title, Period: r.Period, Made: r.Made.Format(time.RFC3339), Facts: map[string]string{}, Notes: r.Notes, Books: []jsonBook{}, Tables: []jsonTable{}}
	for _, f := range r.Facts {
		out.Facts[f.Name] = f.Value
	}
	for _, b := range r.Books {
		j := jsonBook{
			Issuer: b.Issuer, Account: b.Account, Currency: b.Currency, Billed: b.Billed.String(), Amortised: b.Amortised.String(),
			Effective: b.Effective.String(), Estimated: b.Estimated.String(), Kinds: map[string]string{},
		}
		for i, k := range kinds() {
			j.Kinds[k.key] = b.Kinds[i].String()
		}
		out.Books = append(out.Books, j)
	}
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			out.Tables = append(out.Tables, t.json())
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

func (t Table) json() jsonTable {
	out := jsonTable{Key: t.Key, Title: t.Title, Currency: t.Currency, Rows: []map[string]*string{}}
	for _, c := range t.Columns {
		out.Columns = append(out.Columns, jsonColumn{Key: c.Key, Title: c.Title, Kind: c.Kind})
	}
	row := func(cells []Cell) map[string]*string {
		m := map[string]*string{}
		for i, c := range cells {
			m[t.Columns[i].Key] = nil
			if !c.Null {
				m[t.Columns[i].Key] = &c.Exact
			}
		}
		return m
	}
	for _, r := range t.Rows {
		out.Rows = append(out.Rows, row(r))
	}
	if len(t.Total) > 0 {
		out.Total = row(t.Total)
	}
	return out
}

// renderMarkdown writes tables that GitHub, GitLab and most editors show.
func renderMarkdown(w io.Writer, r Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s, %s\n\n", mdText(r.Title), r.Period)
	for _, f := range r.Facts {
		fmt.Fprintf(&b, "- **%s:** %s\n", f.Name, mdText(f.Value))
	}
	for _, book := range r.Books {
		fmt.Fprintf(&b, "- **Books:** %s\n", mdText(book.Line()))
	}
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			fmt.Fprintf(&b, "\n## %s\n\n", mdText(t.heading()))
			writeMarkdown(&b, t)
		}
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%s  \n", mdText(n))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeMarkdown(b *strings.Builder, t Table) {
	if len(t.Rows) == 0 {
		fmt.Fprintf(b, "%s\n", t.Empty)
		return
	}
	shown := t.shown()
	head, rule := "|", "|"
	for _, c := range shown {
		head += " " + mdText(t.Columns[c].Title) + " |"
		if t.Columns[c].Kind.Number() {
			rule += " ---: |"
		} else {
			rule += " --- |"
		}
	}
	fmt.Fprintf(b, "%s\n%s\n", head, rule)
	for _, row := range t.Rows {
		b.WriteString("|")
		for _, c := range shown {
			b.WriteString(" " + mdText(row[c].Show) + " |")
		}
		b.WriteString("\n")
	}
	if len(t.Total) == 0 {
		return
	}
	b.WriteString("|")
	for _, c := range shown {
		if s := mdText(t.Total[c].Show); s != "" {
			b.WriteString(" **" + s + "** |")
		} else {
			b.WriteString("  |")
		}
	}
	b.WriteString("\n")
}

var mdEscaper = strings.NewReplacer("\\", "\\\\", "|", "\\|", "*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[", "<", "&lt;", ">", "&gt;", "&", "&amp;", "#", "\\#")

func mdText(s string) string { return mdEscaper.Replace(plain(s)) }
