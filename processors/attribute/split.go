package attribute

import (
	"embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/idlewatt/idlewatt/schema/money"
)

//go:embed *.sql
var texts embed.FS

// statement is one of this folder's SQL files with its exact divisions written out. pods says
// whether the bill itself splits machines over pods.
func statement(file string, pods bool) string {
	t := template.Must(template.New(file).Funcs(template.FuncMap{"split": money.SplitSQL}).ParseFS(texts, "*.sql"))
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, file, struct{ Pods bool }{pods}); err != nil {
		return fmt.Sprintf("-- %v", err) // the text is embedded: a test executes it
	}
	return b.String()
}
