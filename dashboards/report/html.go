package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed style.css
var style string

//go:embed page.tmpl
var pageText string

// Style is the style sheet of reports and of the web page. Both inline it: a report is one
// file that asks nobody for anything.
func Style() template.CSS { return template.CSS(style) } //nolint:gosec // our own file

// StyleSource is the Content-Security-Policy source that allows the inlined style sheet.
func StyleSource() string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// htmlTable is a table with its columns chosen, ready for the template.
type htmlTable struct {
	Heading string
	Empty   string
	Note    string
	Head    []htmlCell
	Rows    [][]htmlCell
	Total   []htmlCell
}

type htmlCell struct {
	Text  string
	Class string
}

func (t Table) html() htmlTable {
	out := htmlTable{Heading: t.heading(), Empty: t.Empty, Note: t.Note}
	cell := func(c int, s string, null bool) htmlCell {
		class := ""
		if t.Columns[c].Kind.Number() {
			class = "num"
		}
		switch {
		case null:
			class += " null"
		case t.Columns[c].Kind.Number() && strings.Trim(s, "0.") == "":
			class += " zero"
		case s == untagged:
			class += " untagged"
		}
		return htmlCell{Text: s, Class: class}
	}
	for _, c := range t.shown() {
		out.Head = append(out.Head, cell(c, t.Columns[c].Title, false))
	}
	for _, row := range t.Rows {
		var line []htmlCell
		for _, c := range t.shown() {
			line = append(line, cell(c, row[c].Show, row[c].Null))
		}
		out.Rows = append(out.Rows, line)
	}
	if len(t.Total) > 0 {
		for _, c := range t.shown() {
			out.Total = append(out.Total, cell(c, t.Total[c].Show, false))
		}
	}
	return out
}

// Templates returns the template "report" and the parts that other pages may use: "tiles" of
// []Tile, "plot" of a Plot, "table" of a Table passed through the function table, and the
// function style.
func Templates() (*template.Template, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"svg":    func(p Plot) template.HTML { return template.HTML(p.svg()) }, //nolint:gosec // every text in it is escaped
		"legend": Plot.legend, "table": Table.html, "style": Style, "line": Book.Line,
	}).Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("reading report template: %w", err)
	}
	return t, nil
}

func renderHTML(w io.Writer, r Report) error {
	t, err := Templates()
	if err != nil {
		return err
	}
	return t.ExecuteTemplate(w, "report", r)
}
