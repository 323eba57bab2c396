package housetest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors/all"
	"github.com/idlewatt/idlewatt/deploy/local/localtest"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/migrations"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

func TestMain(m *testing.M) { localtest.Main(m) }

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// table returns the rows of README's table whose header begins with those cells, as cells.
func table(t *testing.T, header ...string) [][]string {
	t.Helper()
	var rows [][]string
	inside := false
	for _, line := range strings.Split(readme(t), "\n") {
		cells := split(line)
		switch {
		case slices.Equal(cells, header):
			inside = true
		case inside && len(cells) == 0:
			return rows
		case inside && !strings.HasPrefix(cells[0], "---"):
			rows = append(rows, cells)
		}
	}
	if !inside {
		t.Fatalf("README.md has no table | %s |", strings.Join(header, " | "))
	}
	return rows
}

func split(line string) []string {
	if !strings.HasPrefix(line, "| ") {
		return nil
	}
	var cells []string
	for _, c := range strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ") {
		cells = append(cells, strings.TrimSpace(c))
	}
	return cells
}

// compare holds a table against the code, both ways; what is missing is printed as it should stand.
func compare(t *testing.T, what string, got [][]string, want [][]string) {
	t.Helper()
	row := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }
	have := map[string]bool{}
	for _, r := range got {
		have[row(r)] = true
	}
	for _, r := range want {
		if !have[row(r)] {
			t.Errorf("README.md, %s: this row is missing or says something else:\n%s", what, row(r))
		}
		delete(have, row(r))
	}
	for r := range have {
		t.Errorf("README.md, %s: the code does not know this row:\n%s", what, r)
	}
}

func code(s string) string { return "`" + s + "`" }

func TestReadmeListsEveryFormat(t *testing.T) {
	t.Parallel()
	var want [][]string
	for _, f := range normalize.Formats() {
		want = append(want, []string{code(f.Name), f.Summary})
	}
	for _, factory := range all.Factories() {
		for _, f := range factory.Formats {
			want = append(want, []string{code(f.Name), factory.Summary})
		}
	}
	compare(t, "formats", table(t, "format", "files"), want)
}

func TestReadmeListsEveryConnector(t *testing.T) {
	t.Parallel()
	var want [][]string
	for _, f := range all.Factories() {
		if f.New != nil {
			want = append(want, []string{code(f.Type), f.Summary})
		}
		if dir := filepath.Join(root, "connectors", f.Type); !exists(dir) {
			t.Errorf("connector %s is not in a folder of its name", f.Type)
		}
	}
	compare(t, "connectors", table(t, "type", "what it reads"), want)
}

// TestEveryConnectorFolderIsListed finds folders that nobody added to connectors/all.
func TestEveryConnectorFolderIsListed(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(filepath.Join(root, "connectors"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"all": true, "connectortest": true, "rest": true, "gpuseries": true}
	for _, f := range all.Factories() {
		listed[f.Type] = true
	}
	for _, e := range entries {
		if e.IsDir() && !listed[e.Name()] {
			t.Errorf("connectors/%s is not in connectors/all/all.go: one line is missing", e.Name())
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestReadmeListsEveryStream(t *testing.T) {
	t.Parallel()
	var want [][]string
	for _, s := range bus.Streams() {
		kept := "for good"
		if s.MaxAge > 0 {
			kept = fmt.Sprintf("%d days", s.MaxAge/(24*time.Hour))
		}
		want = append(want, []string{code(s.Name), code(strings.Join(s.Subjects, ", ")), kept})
	}
	compare(t, "streams", table(t, "stream", "subjects", "kept"), want)
}

// binary builds idlewatt once for the tests of a run, the way these tests were built, so that
// everything compiled for them is used again.
func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "idlewatt")
	args := []string{"build", "-buildvcs=false", "-o", path}
	if raceDetector {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, "./cmd/idlewatt")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/idlewatt: %v\n%s", err, out)
	}
	return path
}

// TestReadmeAgreesWithTheBinary compares the command list with --help, and lets the binary
// check the configuration that README.md shows.
func TestReadmeAgreesWithTheBinary(t *testing.T) {
	t.Parallel()
	idlewatt := binary(t)
	out, err := exec.CommandContext(t.Context(), idlewatt, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("--help: %v\n%s", err, out)
	}
	_, list, _ := strings.Cut(string(out), "Commands:")
	commands := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z][a-z-]*)`).FindAllStringSubmatch(list, -1) {
		commands[m[1]] = true
	}
	if len(commands) < 5 {
		t.Fatalf("--help lists %d commands:\n%s", len(commands), out)
	}
	for _, row := range table(t, "command", "what it does") {
		name := strings.Fields(strings.Trim(row[0], "`"))[0]
		if !commands[name] {
			t.Errorf("README.md lists the command %q, --help does not", name)
		}
		delete(commands, name)
	}
	for c := range commands {
		t.Errorf("README.md does not list the command %q", c)
	}
	checkConfig(t, idlewatt)
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func checkConfig(t *testing.T, idlewatt string) {
	t.Helper()
	for _, text := range []string{yamlBlock.FindStringSubmatch(readme(t))[1], containerConfig(t)} {
		path := filepath.Join(t.TempDir(), "idlewatt.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), idlewatt, "check-config", path)
		cmd.Env = append(os.Environ(), "SLACK_WEBHOOK_URL=https://hooks.slack.com/services/T0/B0/x", "IDLEWATT_DATA="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("check-config refuses a documented configuration: %v\n%s\n%s", err, out, text)
		}
	}
}

func containerConfig(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "deploy", "compose", "idlewatt.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReadmeListsEveryView runs the migrations and asks the engine for the views and columns.
func TestReadmeListsEveryView(t *testing.T) {
	t.Parallel()
	columns := viewColumns(t)
	for _, row := range table(t, "view", "one row is", "main columns") {
		name := strings.Trim(row[0], "`")
		have, ok := columns[name]
		if !ok {
			t.Errorf("README.md describes the view %s, which is not there", name)
			continue
		}
		for _, c := range strings.Split(row[2], ", ") {
			if !slices.Contains(have, c) {
				t.Errorf("README.md: %s has no column %s; it has %s", name, c, strings.Join(have, ", "))
			}
		}
		delete(columns, name)
	}
	for name, have := range columns {
		t.Errorf("README.md does not describe the view %s (%s)", name, strings.Join(have, ", "))
	}
}

// TestReadmeQueriesRun asks the engine every question that README.md asks.
func TestReadmeQueriesRun(t *testing.T) {
	t.Parallel()
	db := tables(t)
	asked := 0
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(readme(t), -1) {
		for _, q := range strings.Split(block[1], ";") {
			if strings.TrimSpace(q) == "" {
				continue
			}
			asked++
			rows, err := db.Query(t.Context(), q)
			if err != nil {
				t.Errorf("README.md shows a query that does not run: %v\n%s", err, q)
				continue
			}
			if err := rows.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if asked < 3 {
		t.Errorf("README.md shows %d queries", asked)
	}
}

// tables returns an engine with every table and view.
func tables(t *testing.T) *store.DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	engines := localtest.Fresh(t)
	db, err := store.Open(ctx, engines.ClickHouseOptions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := migrations.Apply(ctx, db.SQL, ""); err != nil {
		t.Fatal(err)
	}
	return db
}

func viewColumns(t *testing.T) map[string][]string {
	t.Helper()
	rows, err := tables(t).Query(t.Context(), `SELECT table, groupArray(name) FROM (SELECT table, name FROM system.columns WHERE database = 'idlewatt' ORDER BY table, position) GROUP BY table`)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for rows.Next() {
		var name string
		var list []string
		if err := rows.Scan(&name, &list); err != nil {
			t.Fatal(err)
		}
		out[name] = list
	}
	if err := rows.Err(); err != nil || len(out) < 5 {
		t.Fatalf("%d views, %v", len(out), err)
	}
	return out
}
