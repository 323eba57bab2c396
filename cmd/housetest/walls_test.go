package housetest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/idlewatt/idlewatt"
	root   = "../.."
)

// rooms says what each room may import of ours, besides itself. The data flows from
// connectors to dashboards, and rooms meet only on the bus and in the tables.
func rooms() map[string][]string {
	return map[string][]string{
		"schema":     {},
		"connectors": {"schema"},
		"ingest":     {"schema", "connectors"},
		"processors": {"schema"},
		"dashboards": {"schema"},
		"deploy":     {"schema"},
		"cmd":        {"schema", "connectors", "ingest", "processors", "dashboards", "deploy"},
	}
}

// stages are rooms whose folders do not import each other; the value names the folders that
// all others of the room may use.
func stages() map[string][]string {
	return map[string][]string{
		"connectors": {"rest", "gpuseries"},
		"processors": {"runtime", "store"},
		"deploy":     {"local"},
	}
}

// only says which packages of others stay in one place.
func only() map[string]string {
	return map[string]string{
		"github.com/nats-io/nats-server": "deploy/local",
		"github.com/ebitengine/purego":   "deploy/local",
		"github.com/slack-go/slack":      "processors/alert/notify/slack",
		"github.com/pressly/goose":       "schema/migrations",
		"github.com/alecthomas/kong":     "cmd",
		"github.com/schollz/progressbar": "cmd",
	}
}

// pkg is what `go list` says of a package, with our own import paths made relative.
type pkg struct {
	ImportPath, Name, Dir              string
	Imports, TestImports, XTestImports []string
	GoFiles                            []string
	Deps                               []string
}

func (p pkg) path() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

// ours returns the import's path below the module; ok is false for packages of others.
func ours(path string) (string, bool) {
	if path != module && !strings.HasPrefix(path, module+"/") {
		return "", false
	}
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/"), true
}

// list runs `go list -deps` once per test and keeps our own packages.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-e", "-json=ImportPath,Name,Dir,Imports,TestImports,XTestImports,GoFiles,Deps", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if _, ok := ours(p.ImportPath); ok {
			all = append(all, p)
		}
	}
	if len(all) < 10 {
		t.Fatalf("go list found %d packages of ours", len(all))
	}
	return all
}

func room(path string) string {
	r, _, _ := strings.Cut(path, "/")
	return r
}

func folder(path string) string {
	_, rest, _ := strings.Cut(path, "/")
	f, _, _ := strings.Cut(rest, "/")
	return f
}

func TestRoomsImportOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		allowed, known := rooms()[room(p.path())]
		if !known {
			t.Errorf("%s is in no room: the rooms are in the table of this test and in CONTRIBUTING.md", p.ImportPath)
			continue
		}
		allowed = append(slices.Clone(allowed), room(p.path()))
		for _, imported := range slices.Concat(p.Imports, p.Deps) {
			if path, ok := ours(imported); ok && !slices.Contains(allowed, room(path)) {
				t.Errorf("%s reaches %s: %s may use %s; put what both need into schema", p.path(), path, room(p.path()), strings.Join(allowed, ", "))
			}
		}
	}
}

// crossings are tests that look over a wall, each with its reason. The list may only shrink.
func crossings() map[string]string {
	return map[string]string{
		"processors/normalize ingest": "the import benchmark measures archive and normaliser together, as the target is stated",
	}
}

// TestTestsStayInTheirRooms lets tests start engines, and nothing else across a wall.
func TestTestsStayInTheirRooms(t *testing.T) {
	t.Parallel()
	unused := crossings()
	for _, p := range list(t) {
		allowed := append(slices.Clone(rooms()[room(p.path())]), room(p.path()))
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			path, ok := ours(imported)
			if !ok || slices.Contains(allowed, room(path)) || path == "deploy/local/localtest" || path == "deploy/local" || path == "deploy/demo" {
				continue
			}
			if crossings()[p.path()+" "+path] != "" {
				delete(unused, p.path()+" "+path)
				continue
			}
			t.Errorf("a test of %s imports %s across a wall: test each room through its events and tables", p.path(), path)
		}
	}
	for c := range unused {
		t.Errorf("the crossing %q is not used any more: take it off the list", c)
	}
}

func TestStagesDoNotKnowEachOther(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		shared, staged := stages()[room(p.path())]
		if !staged || folder(p.path()) == "all" || folder(p.path()) == "" {
			continue // connectors/all is the list of them
		}
		for _, imported := range p.Imports {
			path, ok := ours(imported)
			if !ok || room(path) != room(p.path()) || folder(path) == "" || folder(path) == folder(p.path()) {
				continue
			}
			if !slices.Contains(shared, folder(path)) {
				t.Errorf("%s imports its sibling %s: they meet on the bus and in the tables", p.path(), path)
			}
		}
	}
}

// TestDemoIsMadeFromTheLanguageAlone keeps the sample data independent of what reads it.
func TestDemoIsMadeFromTheLanguageAlone(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		if p.path() != "deploy/demo" {
			continue
		}
		for _, d := range p.Deps {
			if path, ok := ours(d); ok && room(path) != "schema" {
				t.Errorf("deploy/demo reaches %s: the sample would follow the reader's mistakes", path)
			}
		}
	}
}

func TestPackagesOfOthersStayInOnePlace(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		for _, imported := range p.Imports {
			for prefix, place := range only() {
				if strings.HasPrefix(imported, prefix) && p.path() != place && !strings.HasPrefix(p.path(), place+"/") {
					t.Errorf("%s imports %s, which belongs to %s alone", p.path(), imported, place)
				}
			}
		}
	}
}

// forbidden are names that say nothing about what is inside.
var forbidden = []string{
	"util", "utils", "common", "helper", "helpers", "misc", "base", "shared", "lib", "libs", "pkg", "internal",
	"model", "models", "types", "interfaces", "manager", "managers", "stuff",
}

func TestNamesSayWhatIsInside(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		for _, part := range strings.Split(p.path(), "/") {
			if slices.Contains(forbidden, part) || slices.Contains(forbidden, p.Name) {
				t.Errorf("%s: name the concept, not %q", p.path(), part)
			}
		}
		for _, f := range p.GoFiles {
			if name := strings.TrimSuffix(f, ".go"); slices.Contains(forbidden, name) {
				t.Errorf("%s: name the concept, not %q", filepath.Join(p.path(), f), name)
			}
		}
	}
}
