package slack

import (
	"regexp"
	"strings"
	"unicode/utf16"
)

// Limits that Slack documents for Block Kit.
const (
	maxHeader     = 150
	maxSection    = 3000
	maxField      = 2000
	maxFields     = 10
	maxBlocks     = 50
	maxContext    = 2000 // no limit is documented for a context text; this stays under a section's
	maxFallback   = 3000
	ellipsis      = "…"
	entityLongest = len("&amp;")
)

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// calls are the words that ring everybody; a zero-width space behind the @ stops that even
// where names are linked.
var calls = regexp.MustCompile(`(?i)@(channel|here|everyone|group)`)

// escape makes any text safe inside mrkdwn: control characters become entities, so that
// <!channel> and links from ids stay text.
func escape(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return escaper.Replace(calls.ReplaceAllString(s, "@\u200b$1"))
}

// length counts as the strictest reader of Slack's limits would: UTF-16 units.
func length(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// cut shortens a text to at most limit units, with an ellipsis, never inside a character.
func cut(s string, limit int) string {
	if length(s) <= limit {
		return s
	}
	n := 0
	for i, r := range s {
		w := max(utf16.RuneLen(r), 1)
		if n+w > limit-1 {
			return s[:i] + ellipsis
		}
		n += w
	}
	return s
}

// cutEscaped is cut for an escaped text: it never leaves half an entity.
func cutEscaped(s string, limit int) string {
	out := cut(s, limit)
	if out == s {
		return s
	}
	out = strings.TrimSuffix(out, ellipsis)
	if i := strings.LastIndexByte(out, '&'); i >= 0 && len(out)-i < entityLongest && !strings.Contains(out[i:], ";") {
		out = out[:i]
	}
	return out + ellipsis
}
