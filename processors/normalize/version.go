package normalize

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var digits = regexp.MustCompile(`\d+`)

// SortVersion turns a delivery's version into a text that sorts as the versions do. Times
// (RFC 3339 or a date) and whole numbers sort by value; other words sort with their digit
// groups taken as numbers, so that asm-9 comes before asm-10. Empty is older than all.
func SortVersion(v string) string {
	v = strings.TrimSpace(v)
	if v == "" {
		return ""
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, v); err == nil {
			return fmt.Sprintf("t%020d", t.UnixMicro())
		}
	}
	if n, err := strconv.ParseUint(v, 10, 63); err == nil {
		return fmt.Sprintf("n%020d", n)
	}
	return "w" + digits.ReplaceAllStringFunc(v, func(d string) string { return fmt.Sprintf("%020s", d) })
}

// comparable reports whether two sorted versions are of one kind (times, numbers, words).
func comparableVersions(a, b string) bool { return a == "" || b == "" || a[0] == b[0] }
