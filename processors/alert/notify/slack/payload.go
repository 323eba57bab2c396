package slack

import (
	"fmt"
	"strings"

	"github.com/slack-go/slack"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
)

// Payload turns a message into what an incoming webhook takes, inside every documented
// limit. The same blocks serve chat.postMessage.
func Payload(m notify.Message) *slack.WebhookMessage {
	no := false
	var blocks []slack.Block
	if m.Heading != "" {
		blocks = append(blocks, slack.NewHeaderBlock(plain(cutEscaped(escape(oneLine(m.Heading)), maxHeader))))
	}
	for _, s := range m.Sections {
		blocks = append(blocks, section(s)...)
	}
	var last []slack.Block
	if m.Footer != "" {
		last = append(last, slack.NewContextBlock("", markdown(cutEscaped(escape(m.Footer), maxContext))))
	}
	if room := maxBlocks - len(last); len(blocks) > room {
		left := len(blocks) - (room - 1)
		note := fmt.Sprintf("%d more parts did not fit into one message.", left)
		blocks = append(blocks[:room-1], slack.NewContextBlock("", markdown(note)))
	}
	blocks = append(blocks, last...)
	return &slack.WebhookMessage{
		Text: Fallback(m), Parse: "none", Blocks: &slack.Blocks{BlockSet: blocks},
		UnfurlLinks: &no, UnfurlMedia: &no,
	}
}

// Fallback is what phones, screen readers and search see.
func Fallback(m notify.Message) string {
	parts := []string{m.Heading}
	for _, s := range m.Sections {
		if s.Text != "" {
			parts = append(parts, oneLine(s.Text))
			break
		}
	}
	return cutEscaped(escape(strings.TrimSpace(strings.Join(parts, "\n"))), maxFallback)
}

// section makes the blocks of one section: title and text, then fields by ten, then code.
func section(s notify.Section) []slack.Block {
	var out []slack.Block
	var text string
	if s.Title != "" {
		text = "*" + cutEscaped(escape(unstar(oneLine(s.Title))), maxHeader) + "*"
	}
	if s.Text != "" {
		text = strings.TrimSpace(text + "\n" + escape(s.Text))
	}
	if text != "" {
		out = append(out, slack.NewSectionBlock(markdown(cutEscaped(text, maxSection)), nil, nil))
	}
	for fields := s.Fields; len(fields) > 0; {
		n := min(len(fields), maxFields)
		var objects []*slack.TextBlockObject
		for _, f := range fields[:n] {
			objects = append(objects, markdown(cutEscaped("*"+escape(unstar(f.Name))+"*\n"+escape(orDash(f.Value)), maxField)))
		}
		out = append(out, slack.NewSectionBlock(nil, objects, nil))
		fields = fields[n:]
	}
	if s.Code != "" {
		const fence = "```"
		code := cutEscaped(escape(strings.ReplaceAll(s.Code, "`", "'")), maxSection-2*len(fence))
		out = append(out, slack.NewSectionBlock(markdown(fence+code+fence), nil, nil))
	}
	return out
}

func plain(s string) *slack.TextBlockObject {
	no := false
	return &slack.TextBlockObject{Type: slack.PlainTextType, Text: s, Emoji: &no}
}

// markdown is verbatim: Slack links no names or addresses it finds in the text.
func markdown(s string) *slack.TextBlockObject {
	return &slack.TextBlockObject{Type: slack.MarkdownType, Text: s, Verbatim: true}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
func unstar(s string) string  { return strings.ReplaceAll(s, "*", "∗") }

// orDash keeps a field's text from being empty, which Slack refuses.
func orDash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}
