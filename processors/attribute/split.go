package attribute

import (
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/idlewatt/idlewatt/schema/money"
)

//go:embed split.sql
var splitText string

// splitSQL is split.sql with its exact divisions written out.
func splitSQL() string {
	t := template.Must(template.New("split").Funcs(template.FuncMap{"split": money.SplitSQL}).Parse(splitText))
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return fmt.Sprintf("-- %v", err) // the text is embedded: a test executes it
	}
	return b.String()
}
