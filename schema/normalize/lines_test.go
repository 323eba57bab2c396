package normalize

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestDropBlankLines(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                          "",
		"a,b\n1,2\n":                "a,b\n1,2\n",
		"a,b\r\n\r\n1,2\r\n":        "a,b\r\n1,2\r\n",
		"\n\na,b\n\n\n1,2\n\n":      "a,b\n1,2\n",
		"a,b\n\"x\n\ny\",2\n":       "a,b\n\"x\n\ny\",2\n",
		"a\n\"\"\n":                 "a\n\"\"\n",
		"a\n\"x\r\n\r\n\"\r\n\r\nb": "a\n\"x\r\n\r\n\"\r\nb",
		"a\n \n1":                   "a\n \n1",
		"a\n\rb\n":                  "a\n\rb\n",
		"a\n1":                      "a\n1",
	} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)),
		} {
			got, err := io.ReadAll(DropBlankLines(r))
			if err != nil || string(got) != want {
				t.Errorf("%q, %s: got %q, %v, want %q", in, name, got, err, want)
			}
		}
		has, err := HasBlankLines(strings.NewReader(in))
		if err != nil || has != (in != want) {
			t.Errorf("HasBlankLines(%q) = %v, %v", in, has, err)
		}
	}
}

func TestDropBlankLinesKeepsErrors(t *testing.T) {
	t.Parallel()
	_, err := io.ReadAll(DropBlankLines(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("a,b\n1,2\n")))))
	if err != iotest.ErrTimeout { //nolint:errorlint // handed through as it is
		t.Errorf("got %v", err)
	}
}

// What is dropped are empty lines and nothing else, and a second pass finds none.
func TestDropBlankLinesLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "\n", "\r\n", `"`, ",", "x\n\ny"})).Draw(t, "parts"), "")
		out, err := io.ReadAll(DropBlankLines(strings.NewReader(in)))
		if err != nil {
			t.Fatal(err)
		}
		strip := func(s string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(s) }
		if strip(in) != strip(string(out)) {
			t.Fatalf("%q became %q", in, out)
		}
		again, err := io.ReadAll(DropBlankLines(bytes.NewReader(out)))
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("a second pass changed %q to %q", out, again)
		}
		if has, err := HasBlankLines(bytes.NewReader(out)); has || err != nil {
			t.Fatalf("%q still has blank lines (%v)", out, err)
		}
	})
}
