package normalize

import (
	"strings"
	"testing"
)

// Sorted versions are never the empty word of a version that was not given, keep their kind
// and do not depend on blanks around them.
func FuzzSortVersion(f *testing.F) {
	for _, v := range []string{"", "1", "asm-10", "2026-10-01T00:00:00Z", "2026-10-01", "99999999999999999999999999", "v1.2.3", " 7 "} {
		f.Add(v, "asm-9")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := SortVersion(a), SortVersion(b)
		if (x == "") != (strings.TrimSpace(a) == "") {
			t.Errorf("SortVersion(%q) = %q", a, x)
		}
		if x != SortVersion(" "+a+"\n") {
			t.Errorf("blanks around %q make another version", a)
		}
		if comparableVersions(x, y) != comparableVersions(y, x) {
			t.Errorf("%q and %q are comparable one way only", a, b)
		}
	})
}
