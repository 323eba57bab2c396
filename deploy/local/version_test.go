package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idlewatt/idlewatt/deploy/local"
)

func TestOlderEngineIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := start(t, local.Options{Dir: dir})
	stop(t, e)
	file := filepath.Join(dir, "clickhouse", "version.json")
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(written), e.EngineVersion) {
		t.Fatalf("the engine %s left the record %s", e.EngineVersion, written)
	}

	// As if another library, newer in its last but one number, had written the data.
	record := func(version string) {
		t.Helper()
		content := fmt.Sprintf(`{"engine": %q, "library_size": 1, "library_modified": "2027-01-01T00:00:00Z"}`, version)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	record("26.10.1.1")
	_, err = local.Start(timed(t), local.Options{Dir: dir})
	for _, want := range []string{"26.10.1.1", e.EngineVersion, "older", "make setup"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("the error does not name %s: %v", want, err)
		}
	}
	record("26.7.1.99")
	again := start(t, local.Options{Dir: dir})
	stop(t, again)
	rewritten, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(rewritten) != string(written) {
		t.Errorf("the newer engine left the record %s, want %s", rewritten, written)
	}
}
