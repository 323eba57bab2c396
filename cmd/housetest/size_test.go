package housetest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	maxFile     = 400
	maxFunction = 60
)

// walk calls visit for every file of the project with that ending; paths are relative to the root.
func walk(t *testing.T, ending string, visit func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case d.IsDir() && (name == "node_modules" || name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") && name != ".." && len(name) > 1):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ending):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		visit(filepath.ToSlash(rel), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	t.Parallel()
	walk(t, ".go", func(path string, text []byte) {
		if n := strings.Count(string(text), "\n"); n > maxFile {
			t.Errorf("%s has %d lines, at most %d: which two things does it do?", path, n, maxFile)
		}
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; n > maxFunction {
				t.Errorf("%s: %s has %d lines, at most %d", path, f.Name.Name, n, maxFunction)
			}
		}
	})
}

// TestErrorsAreWrappedWithTheAction refuses texts that begin with what everybody knows.
func TestErrorsAreWrappedWithTheAction(t *testing.T) {
	t.Parallel()
	bad := regexp.MustCompile(`(?:fmt\.Errorf|errors\.New)\("(?i:failed to|could not|unable to|error )`)
	walk(t, ".go", func(path string, text []byte) {
		if strings.HasPrefix(path, "cmd/housetest/") {
			return
		}
		if m := bad.FindString(string(text)); m != "" {
			t.Errorf("%s: %s...: name the action (\"reading price list: %%w\"), the reader sees that it failed", path, m)
		}
	})
}

// comments and literals of SQL, so that what is left are operators.
var sqlQuiet = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|` + "`[^`]*`")

// star is every asterisk that selects columns and multiplies nothing.
var star = regexp.MustCompile(`(?i)\(\*\)|(?:select|distinct|,|\w\.)\s*\*\s*(?:except|replace|apply|from|,|\)|$)`)

// TestMoneyIsNeverMultipliedBare greps the normalisers: in ClickHouse, decimals overflow
// silently under * and / (99999999.5 x 3.5 gave -152.5).
func TestMoneyIsNeverMultipliedBare(t *testing.T) {
	t.Parallel()
	operator := regexp.MustCompile(`[*/]`)
	files := 0
	walk(t, ".sql", func(path string, text []byte) {
		if !strings.HasPrefix(path, "schema/normalize/") {
			return
		}
		files++
		for n, line := range strings.Split(quiet(text), "\n") {
			if operator.MatchString(line) {
				t.Errorf("%s:%d: %s: use multiplyDecimal or divideDecimal in Decimal256", path, n+1, strings.TrimSpace(line))
			}
		}
	})
	if files < 3 {
		t.Errorf("found %d normalisers: where did they go?", files)
	}
}

// TestViewsDoNotMultiplyMoney does the same for views and processors, where other numbers are
// multiplied too: it looks at the names beside the operator.
func TestViewsDoNotMultiplyMoney(t *testing.T) {
	t.Parallel()
	money := `(?:\w*(?:Cost|Price|Rate|Amount|Billed|Effective)\w*)`
	bad := regexp.MustCompile(`\b` + money + `\)*\s*[*/]|[*/]\s*\(*` + money + `\b`)
	walk(t, ".sql", func(path string, text []byte) {
		for n, line := range strings.Split(quiet(text), "\n") {
			if m := bad.FindString(line); m != "" {
				t.Errorf("%s:%d: %q multiplies money: use multiplyDecimal or divideDecimal in Decimal256", path, n+1, m)
			}
		}
	})
}

func quiet(text []byte) string {
	s := sqlQuiet.ReplaceAllStringFunc(string(text), func(m string) string { return strings.Repeat("\n", strings.Count(m, "\n")) })
	return star.ReplaceAllString(s, "")
}

func TestQuietLeavesOperatorsOnly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"SELECT * FROM x":                        false,
		"SELECT c.* EXCEPT (a), count(*) FROM c": false,
		"SELECT 1 -- a * b":                      false,
		"SELECT 'a/b' FROM c":                    false,
		"SELECT cost * 2 FROM c":                 true,
		"SELECT a / b FROM c":                    true,
		"SELECT x, cost*rate FROM c":             true,
	} {
		if got := strings.ContainsAny(quiet([]byte(text)), "*/"); got != want {
			t.Errorf("%q: operator %v, want %v (left %q)", text, got, want, quiet([]byte(text)))
		}
	}
}
