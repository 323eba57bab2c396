package nvidiasmi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

type taker struct{ events []event.Event }

func (k *taker) Event(_ context.Context, e event.Event) error {
	k.events = append(k.events, e)
	return nil
}

func (*taker) Archive(context.Context, string, io.Reader) (event.Object, error) {
	return event.Object{}, nil
}

// run decodes a text and writes each reading as a line.
func run(ctx context.Context, text string, at time.Time) (lines, bad []string, err error) {
	var k taker
	err = decode(ctx, connectors.File{Name: "f", Source: "trn-07", At: at, Body: strings.NewReader(text), Bad: func(_ context.Context, _ []byte, why error) error {
		bad = append(bad, why.Error())
		return nil
	}}, &k)
	for _, e := range k.events {
		var s event.GPUSamples
		if err := e.Decode(&s); err != nil {
			return nil, nil, err
		}
		for _, g := range s.GPUs {
			show := func(v *float64) string {
				if v == nil {
					return "-"
				}
				return fmt.Sprint(*v)
			}
			lines = append(lines, fmt.Sprint(s.Node, " ", s.At.Format("15:04:05.000"), " ", g.UUID[len(g.UUID)-1:], " ", show(g.Utilization), " ", show(g.PowerW), " ", show(g.FBUsedMiB), "/", show(g.FBTotalMiB), " ", s.Rejected))
		}
	}
	return lines, bad, err
}

func paris() time.Time {
	return time.Date(2026, 10, 31, 0, 0, 0, 0, time.FixedZone("", 3600))
}

func TestReadings(t *testing.T) {
	t.Parallel()
	const head = "timestamp, uuid, utilization.gpu [%], power.draw [W]\n"
	for name, c := range map[string]struct {
		text      string
		want, bad []string
	}{
		"with units": {file1(t, "testdata/units.csv"), []string{
			"trn-07 22:00:00.101 1 0.97 652.13 71234/81559 map[]", "trn-07 22:00:00.101 2 0 68.9 4/81559 map[]",
			"trn-07 22:01:00.108 1 - - 71234/81559 map[out_of_bounds:1]", "trn-07 22:01:00.108 2 - 69.02 4/81559 map[out_of_bounds:1]",
		}, nil},
		"without units": {file1(t, "testdata/nounits.csv"), []string{
			"trn-07 22:00:00.101 1 0.97 652.13 71234/81559 map[]", "trn-07 22:00:00.101 2 0 68.9 4/81559 map[]",
		}, nil},
		"a bad line costs itself": {head + "yesterday, GPU-1, 5, 70\n2026/10/31 10:00:00.000, 0, 5, 70\n2026/10/31 10:00:00.000, GPU-3, 5, many\n2026/10/31 10:00:0", []string{
			"trn-07 09:00:00.000 3 0.05 - -/- map[bad_line:3 bad_value:1]",
		}, []string{`f, row 2, column timestamp: "yesterday" is no time such as 2026/10/31 22:00:00.000`, `f, row 3, column uuid: "0" is no GPU's UUID`, "f, row 5: 1 of 4 columns: the line was cut"}},
		"a header again": {head + "2026/10/31 10:00:00.000, GPU-1, 5, 70\n" + head + "2026/10/31 10:05:00.000, GPU-1, 0, 70\n", []string{
			"trn-07 09:00:00.000 1 0.05 70 -/- map[]", "trn-07 09:05:00.000 1 0 70 -/- map[]",
		}, nil},
	} {
		got, bad, err := run(t.Context(), c.text, paris())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(c.bad, bad); d != "" {
			t.Errorf("%s, refused (-want +got):\n%s", name, d)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, want string
		at         time.Time
	}{
		"no zone":           {file1(t, "testdata/units.csv"), "local times without a zone", time.Time{}},
		"no header":         {"2026/10/31 10:00:00.000, GPU-1, 5\n", "column timestamp is missing", paris()},
		"the clock changes": {"timestamp, uuid, utilization.gpu\n2026/10/25 02:59:00.000, GPU-1, 5\n2026/10/25 02:00:00.000, GPU-1, 5\n", "row 3: the time goes back", paris()},
		"nothing":           {"timestamp, uuid, utilization.gpu\n", "no readings", paris()},
	} {
		if _, _, err := run(t.Context(), c.text, c.at); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func file1(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"testdata/units.csv", "testdata/nounits.csv"} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var k taker
		_ = decode(t.Context(), connectors.File{
			Name: "f", Source: "s", At: paris(), Body: bytes.NewReader(text),
			Bad: func(context.Context, []byte, error) error { return nil },
		}, &k)
		for _, e := range k.events {
			var s event.GPUSamples
			if err := e.Decode(&s); err != nil {
				t.Fatal(err)
			}
			for _, g := range s.GPUs {
				if g.Utilization != nil && (*g.Utilization < 0 || *g.Utilization > 1) || g.UUID == "" {
					t.Fatalf("%+v", g)
				}
			}
		}
	})
}
