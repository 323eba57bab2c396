package slack_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/processors/alert/notify/slack"
)

func read(t interface{ Fatal(...any) }, m notify.Message) payload {
	body, err := json.Marshal(slack.Payload(m))
	if err != nil {
		t.Fatal(err)
	}
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// Whatever the ids and names from outside hold, the payload stays inside the documented
// limits, with nothing left that Slack would act on.
func TestPayloadStaysInsideTheLimits(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"a", "&", "<", ">", "<!channel>", "@here", "@Everyone", "&amp;", "*", "`", "```", "\n", "😀", "é", "_", "\xff", " "})
	long := rapid.Custom(func(t *rapid.T) string {
		return strings.Repeat(strings.Join(rapid.SliceOfN(piece, 1, 12).Draw(t, "pieces"), ""), rapid.SampledFrom([]int{0, 1, 40, 300}).Draw(t, "times"))
	})
	rapid.Check(t, func(t *rapid.T) {
		m := notify.Message{Heading: "h" + long.Draw(t, "heading"), Footer: long.Draw(t, "footer")}
		for range rapid.IntRange(0, 12).Draw(t, "sections") {
			s := notify.Section{Title: long.Draw(t, "title"), Text: rapid.SampledFrom([]string{"", "text"}).Draw(t, "text"), Code: rapid.SampledFrom([]string{"", "run `it` < x"}).Draw(t, "code")}
			for range rapid.IntRange(0, 12).Draw(t, "fields") {
				s.Fields = append(s.Fields, notify.Field{Name: "name", Value: rapid.SampledFrom([]string{"", "v", strings.Repeat("<&>", 900)}).Draw(t, "value")})
			}
			m.Sections = append(m.Sections, s)
		}
		if bad := violations(read(t, m)); len(bad) > 0 {
			t.Fatalf("violations: %q", bad)
		}
	})
}

func TestEscaping(t *testing.T) {
	t.Parallel()
	p := read(t, notify.Message{
		Heading:  "a & b <!channel> @here",
		Sections: []notify.Section{{Title: "t*", Text: "<http://x|y> & @channel", Code: "stop `x` && y"}},
	})
	want := []string{"a &amp; b &lt;!channel&gt; @\u200bhere", "*t∗*\n&lt;http://x|y&gt; &amp; @\u200bchannel", "```stop 'x' &amp;&amp; y```"}
	for i, w := range want {
		if got := p.Blocks[i].Text.Text; got != w {
			t.Errorf("block %d: got %q, want %q", i, got, w)
		}
	}
}

func TestCutLeavesNoHalfEntity(t *testing.T) {
	t.Parallel()
	for n := 140; n < 152; n++ {
		p := read(t, notify.Message{Heading: strings.Repeat("x", n) + "<<<<"})
		h := p.heading()
		if left := entity.ReplaceAllString(h, ""); strings.Contains(left, "&") {
			t.Errorf("%d: half an entity in %q", n, h)
		}
		if bad := violations(p); len(bad) > 0 {
			t.Errorf("%d: %q", n, bad)
		}
	}
}

func TestTooManySectionsSaySo(t *testing.T) {
	t.Parallel()
	m := notify.Message{Heading: "h", Footer: "f"}
	for range 60 {
		m.Sections = append(m.Sections, notify.Section{Text: "line"})
	}
	p := read(t, m)
	if len(p.Blocks) != 50 || p.Blocks[48].Elements[0].Text != "13 more parts did not fit into one message." || p.Blocks[49].Elements[0].Text != "f" {
		t.Errorf("got %d blocks ending in %+v", len(p.Blocks), p.Blocks[48:])
	}
}
