package gpuseries

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/schema/event"
)

func readText(t testing.TB, text string) event.GPUSamples {
	t.Helper()
	events := Read([]byte(text), Options{Target: "t", At: time.Unix(1000, 0)})
	if len(events) != 1 {
		t.Fatalf("got %d events, want 1", len(events))
	}
	return events[0]
}

func TestBodiesWithoutGPUsAreGaps(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "blank lines": "\n\n", "comments": "# HELP x y\n# TYPE x gauge\n",
		"other metrics": "up 1\n", "html": "<html>\n<body>no</body>\n",
	} {
		if e := readText(t, text); e.OK || e.Error == "" || len(e.GPUs) != 0 {
			t.Errorf("%s: ok = %t, error = %q", name, e.OK, e.Error)
		}
	}
	if e := readText(t, ""); e.Error != "empty body" {
		t.Errorf("empty body: %q", e.Error)
	}
}

func TestLinesAreReadOrRefusedAlone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLabelLen+1)
	many := "DCGM_FI_DEV_GPU_UTIL{UUID=\"G\""
	for i := range maxLabels {
		many += fmt.Sprintf(",l%d=\"v\"", i)
	}
	for _, c := range []struct{ name, line, why string }{
		{"plain", `DCGM_FI_DEV_GPU_UTIL{UUID="G"} 5`, ""},
		{"stamp", `DCGM_FI_DEV_GPU_UTIL{UUID="G"} 5 1000000000000`, ""},
		{"tabs and return", "DCGM_FI_DEV_GPU_UTIL{UUID=\"G\"}\t5\r", ""},
		{"exemplar", `DCGM_FI_DEV_GPU_UTIL{UUID="G"} 5 # {trace_id="a"} 1`, ""},
		{"brace in label", `DCGM_FI_DEV_GPU_UTIL{UUID="G",pod="a}b"} 5`, ""},
		{"trailing comma", `DCGM_FI_DEV_GPU_UTIL{UUID="G",} 5`, ""},
		{"spaces", `DCGM_FI_DEV_GPU_UTIL{UUID="G", pod="a"}  5`, ""},
		{"escapes", `DCGM_FI_DEV_GPU_UTIL{UUID="G",app="a\"b\\c\d"} 5`, ""},
		{"quote inside", `DCGM_FI_DEV_GPU_UTIL{UUID="G",pod="a "b" c"} 5`, reasonBadLine},
		{"label twice", `DCGM_FI_DEV_GPU_UTIL{UUID="G",UUID="H"} 5`, reasonBadLine},
		{"no value", `DCGM_FI_DEV_GPU_UTIL{UUID="G"}`, reasonBadLine},
		{"text value", `DCGM_FI_DEV_GPU_UTIL{UUID="G"} ERROR - FAILED TO CONVERT TO STRING`, reasonBadLine},
		{"bad stamp", `DCGM_FI_DEV_GPU_UTIL{UUID="G"} 5 yesterday`, reasonBadLine},
		{"negative stamp", `DCGM_FI_DEV_GPU_UTIL{UUID="G"} 5 -5`, reasonBadLine},
		{"blank string", `DCGM_FI_DEV_GPU_UTIL{UUID="G",modelName="<<<NULL>>>"} 5`, reasonBadLine},
		{"too many labels", many + "} 5", reasonBadLine},
		{"long pod", `DCGM_FI_DEV_GPU_UTIL{UUID="G",pod="` + long + `"} 5`, reasonHostile},
		{"newline in pod", `DCGM_FI_DEV_GPU_UTIL{UUID="G",pod="a\nb"} 5`, reasonHostile},
		{"no UTF-8", "DCGM_FI_DEV_GPU_UTIL{UUID=\"G\",namespace=\"\xff\"} 5", reasonHostile},
		{"no UUID", `DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5`, reasonNoUUID},
		{"no labels", `DCGM_FI_DEV_GPU_UTIL 5`, reasonNoUUID},
		{"unknown name", `DCGM_FI_DEV_GPU_UTIL_NEXT{UUID="G"} 5`, reasonUnknownName},
	} {
		events := Read([]byte("DCGM_FI_DEV_POWER_USAGE{UUID=\"other\"} 70\n"+c.line+"\n"), Options{At: time.Unix(1, 0)})
		found, rejected := false, map[string]int{}
		for _, e := range events {
			for why, n := range e.Rejected {
				rejected[why] += n
			}
			for _, g := range e.GPUs {
				found = found || g.UUID == "G" && g.Utilization != nil && *g.Utilization == 0.05
			}
		}
		if found != (c.why == "") || c.why != "" && rejected[c.why] != 1 {
			t.Errorf("%s: found = %t, rejected = %v, want %q", c.name, found, rejected, c.why)
		}
	}
}

func TestOwnerLabelsAreAllowedAndCapped(t *testing.T) {
	t.Parallel()
	var keep []string
	line := `DCGM_FI_DEV_GPU_UTIL{UUID="G",pod="p",namespace="n",secret="s",team="` + strings.Repeat("x", 300) + `"`
	for i := range 60 {
		name := fmt.Sprintf("l%02d", i)
		keep = append(keep, name)
		line += fmt.Sprintf(`,%s="v"`, name)
	}
	e := Read([]byte(line+"} 5\n"), Options{At: time.Unix(1, 0), Labels: append(keep, "team")})[0]
	labels := e.GPUs[0].Owners[0].Labels
	if _, ok := labels["secret"]; ok || len(labels) != maxKept || labels["team"] != "" {
		t.Errorf("kept %d labels: %v", len(labels), labels)
	}
}

func TestUtilRatioUnitByGeneration(t *testing.T) {
	t.Parallel()
	const name = "DCGM_FI_DEV_GPU_UTIL_RATIO"
	for _, c := range []struct {
		name, text, generation string
		want                   *float64
	}{
		{"old driver label", name + `{UUID="G",DCGM_FI_DRIVER_VERSION="590"} 1`, "4.6-canonical", ptr(0.01)},
		{"new driver label", name + `{UUID="G",DCGM_FI_SYSTEM_DRIVER_VERSION="590"} 1.000000`, "4.9", ptr(1.0)},
		{"bytes companion", name + `{UUID="G"} 1` + "\n" + `DCGM_FI_DEV_FB_USED_BYTES{UUID="G"} 4194304`, "4.9", ptr(1.0)},
		{"above one", name + `{UUID="G"} 1` + "\n" + name + `{UUID="H"} 40`, "4.6-canonical", ptr(0.01)},
		{"direct, point", name + `{UUID="G"} 0.500000`, "4.6-canonical", ptr(0.5)},
		{"direct, no point", name + `{UUID="G"} 1`, "4.6-canonical", ptr(0.01)},
		{"behind Prometheus", name + `{UUID="G",instance="a:9400",job="j"} 1`, "4.6-canonical", nil},
		{"behind Prometheus, zero", name + `{UUID="G",instance="a:9400",job="j"} 0`, "4.6-canonical", nil},
	} {
		e := readText(t, c.text+"\n")
		if diff := cmp.Diff(c.want, e.GPUs[0].Utilization); diff != "" || e.Generation != c.generation {
			t.Errorf("%s: generation %q, %s", c.name, e.Generation, diff)
		}
	}
	e := readText(t, `DCGM_FI_DEV_FB_USED_BYTES{UUID="G"} 4194304`+"\n")
	if e.GPUs[0].FBUsedMiB == nil || *e.GPUs[0].FBUsedMiB != 4 {
		t.Errorf("4,194,304 bytes = %v MiB", e.GPUs[0].FBUsedMiB)
	}
}

func TestClassicPercentRewrittenToARatioIsNotBelieved(t *testing.T) {
	t.Parallel()
	const name = "DCGM_FI_DEV_GPU_UTIL"
	for _, c := range []struct {
		text string
		want *float64
	}{
		{name + `{UUID="G"} 1`, ptr(0.01)},                     // straight from the exporter: percent
		{name + `{UUID="G",instance="i",job="j"} 1`, nil},      // 1 % or 100 %
		{name + `{UUID="G",instance="i",job="j"} 0.97`, nil},   // someone divided
		{name + `{UUID="G",instance="i",job="j"} 0`, ptr(0.0)}, // zero is zero
		{name + `{UUID="G",instance="i",job="j"} 1` + "\n" + name + `{UUID="H",instance="i",job="j"} 97`, ptr(0.01)},
	} {
		e := readText(t, c.text+"\n")
		if diff := cmp.Diff(c.want, e.GPUs[0].Utilization); diff != "" {
			t.Errorf("%s: %s", c.text, diff)
		}
	}
}

func TestReplicasThatDisagreeAreUnknown(t *testing.T) {
	t.Parallel()
	e := readText(t, `DCGM_FI_DEV_GPU_UTIL{UUID="G"} 0
DCGM_FI_DEV_GPU_UTIL{UUID="G"} 97
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="G",pod="a"} 0.0
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="G",pod="b"} 0.9
DCGM_FI_DEV_POWER_USAGE{UUID="G",pod="a"} 600.1
DCGM_FI_DEV_POWER_USAGE{UUID="G",pod="b"} 600.3
`)
	g := e.GPUs[0]
	if g.Utilization != nil || g.Engine != nil || g.PowerW == nil || *g.PowerW != 600.3 || e.Rejected[reasonConflict] != 2 {
		t.Errorf("got %+v, rejected %v", g, e.Rejected)
	}
}

func TestSharedDeviceWithoutItsOwnLineIsNoIdleEvidence(t *testing.T) {
	t.Parallel()
	pods := `DCGM_FI_DEV_GPU_UTIL{UUID="G",pod="a",vgpu="0"} 0
DCGM_FI_DEV_GPU_UTIL{UUID="G",pod="b",vgpu="1"} 0
`
	if g := readText(t, pods).GPUs[0]; g.Utilization == nil {
		t.Error("an older exporter repeats the device's value per pod")
	}
	if g := readText(t, `DCGM_FI_DEV_GPU_UTIL{UUID="G"} ninety`+"\n"+pods).GPUs[0]; g.Utilization != nil {
		t.Error("the device's own line is lost: the pods' zeros prove nothing")
	}
}

func TestFederatedBodyIsDividedByHostAndTime(t *testing.T) {
	t.Parallel()
	text := `DCGM_FI_DEV_GPU_UTIL{UUID="A",instance="n1:9400",Hostname="n1"} 10 1000000000000
DCGM_FI_DEV_GPU_UTIL{UUID="B",instance="n2:9400",Hostname="n2"} 20 1000000005000
DCGM_FI_DEV_GPU_UTIL{UUID="A",instance="n1:9400",Hostname="n1"} 30 1000000060000
`
	var got []string
	for _, e := range Read([]byte(text), Options{Target: "prom:9090"}) {
		got = append(got, fmt.Sprint(e.Target, " ", e.Node, " ", e.At.UnixMilli(), " ", *e.GPUs[0].Utilization))
	}
	want := []string{
		"n1:9400 n1 1000000000000 0.1", "n2:9400 n2 1000000005000 0.2", "n1:9400 n1 1000000060000 0.3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestLinesInAnyOrder: families and lines come in random order; nothing may depend on it.
func TestLinesInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, name := range sampleNames(t) {
		text, err := os.ReadFile(filepath.Join("../dcgm/testdata", name+".prom"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(text), "\n")
		if last := lines[len(lines)-1]; last != "" {
			continue // cut
		}
		backwards := make([]string, 0, len(lines))
		for i := len(lines) - 1; i >= 0; i-- {
			if !strings.HasPrefix(lines[i], "#") {
				backwards = append(backwards, lines[i])
			}
		}
		want, got := readText(t, string(text)), readText(t, strings.Join(backwards, ""))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// idleEvidence are the devices that a scrape shows without work.
func idleEvidence(events []event.GPUSamples) map[string]bool {
	out := map[string]bool{}
	for _, e := range events {
		for _, g := range e.GPUs {
			if work := maxOf(g.Utilization, g.Engine); e.OK && e.Complete && work == 0 && (g.Utilization != nil || g.Engine != nil) {
				out[g.UUID+"/"+g.Instance] = true
			}
		}
	}
	return out
}

func FuzzRead(f *testing.F) {
	for _, name := range sampleNames(f) {
		text, err := os.ReadFile(filepath.Join("../dcgm/testdata", name+".prom"))
		if err != nil {
			f.Fatal(err)
		}
		if len(text) > 1500 { // long seeds keep the fuzzer minimising
			text = text[:1500]
		}
		f.Add(text, len(text)/2)
	}
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		o := Options{Target: "t", At: time.Unix(1, 0)}
		events := Read(text, o)
		for _, e := range events {
			for _, g := range e.GPUs {
				checkRanges(t, g)
			}
		}
		if at < 0 || at >= len(text) {
			return
		}
		// A cut body proves no absence, whether the cut shows or the transport tells of it.
		o.Cut = at == 0 || text[at-1] == '\n'
		if got := idleEvidence(Read(text[:at], o)); len(got) > 0 {
			t.Errorf("cut at %d shows idle devices: %v", at, got)
		}
	})
}

func checkRanges(t *testing.T, g event.GPUSample) {
	t.Helper()
	for name, v := range map[string]*float64{
		"utilization": g.Utilization, "engine": g.Engine, "sm": g.SM, "tensor": g.Tensor, "dram": g.DRAM,
	} {
		if v != nil && !(*v >= 0 && *v <= 1) {
			t.Errorf("%s = %v", name, *v)
		}
	}
	for name, v := range map[string]*float64{"power": g.PowerW, "energy": g.EnergyJ, "memory": g.FBUsedMiB} {
		if v != nil && !(*v >= 0 && *v <= 1e12) {
			t.Errorf("%s = %v", name, *v)
		}
	}
	if g.UUID == "" || len(g.UUID) > maxLabelLen || len(g.Owners) > 0 && len(g.Owners[0].Labels) > maxKept {
		t.Errorf("hostile labels: %+v", g)
	}
}

// TestEveryCutOfEverySample is the short-read test: whatever the place of the cut, no idle
// evidence comes of it.
func TestEveryCutOfEverySample(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"malformed", "blank-sentinels", "two-scrapes-t0", "prometheus-exported-pod"} {
		text, err := os.ReadFile(filepath.Join("../dcgm/testdata", name+".prom"))
		if err != nil {
			t.Fatal(err)
		}
		text = text[:min(len(text), 6000)]
		for at := 1; at < len(text); at += 7 {
			o := Options{At: time.Unix(1, 0), Cut: text[at-1] == '\n'}
			if got := idleEvidence(Read(text[:at], o)); len(got) > 0 {
				t.Fatalf("%s cut at %d: %v", name, at, got)
			}
		}
	}
}

func BenchmarkRead(b *testing.B) {
	text, err := os.ReadFile("../dcgm/testdata/k8s-8xh100-pods.prom")
	if err != nil {
		b.Fatal(err)
	}
	o := Options{Target: "t", At: time.Unix(1, 0)}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Read(text, o)
	}
}
