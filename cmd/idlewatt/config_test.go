package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTelemetryIsKeptAsLongAsBillsAreRestated: a shorter time is refused with its reason (case 059).
func TestTelemetryIsKeptAsLongAsBillsAreRestated(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"telemetry: {keep_raw_days: 90}":  "telemetry.keep_raw_days: 90 is less than 120: a bill may be restated",
		"telemetry: {keep_raw_days: -1}":  "less than 120",
		"telemetry: {keep_raw_days: 120}": "",
		"telemetry: {keep_raw: 120}":      "keep_raw",
	} {
		file := filepath.Join(t.TempDir(), "idlewatt.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := loadConfig(file)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
