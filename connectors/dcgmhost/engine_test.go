//go:build dcgm

package dcgmhost

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// answer is what one Read of a child process gave.
type answer struct {
	Devices []Device
	Error   string
}

// TestMain is also the child: a process that finds libdcgm where its environment says, and
// reads as often as it is asked to.
func TestMain(m *testing.M) {
	address := os.Getenv("DCGMHOST_TEST_ADDRESS")
	if address == "" {
		os.Exit(m.Run())
	}
	c := defaults()
	c.Address = address
	e, err := open(*c)
	if err != nil {
		panic(err)
	}
	var out []answer
	for range 3 {
		devices, err := e.Read(context.Background())
		out = append(out, answer{devices, fmt.Sprint(err)})
	}
	other := *c
	other.Address = "127.0.0.2:5555"
	if e, err = open(other); err == nil {
		_, err = e.Read(context.Background())
	}
	out = append(out, answer{nil, fmt.Sprint(err)})
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		panic(err)
	}
}

// child runs the engine against the libdcgm.so in a folder; empty takes the system's.
func child(t *testing.T, dir, address string) []answer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "DCGMHOST_TEST_ADDRESS="+address)
	if dir != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+dir)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("the process died: %v\n%s", err, stderr.String())
	}
	var out []answer
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

// stub builds the stand-in for libdcgm.
func stub(t *testing.T, flags ...string) string {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-dcgm").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := append([]string{"-shared", "-fPIC", "-w", "-I", filepath.Join(strings.TrimSpace(string(module)), "pkg", "dcgm"), "-o", filepath.Join(dir, "libdcgm.so")}, flags...)
	if out, err := exec.CommandContext(t.Context(), "gcc", append(args, filepath.Join("testdata", "stub", "stub.c"))...).CombinedOutput(); err != nil {
		t.Fatalf("building the stand-in: %v\n%s", err, out)
	}
	return dir
}

// Whatever is missing is an ordinary error, again and again.
func TestMissingLibraryIsAnError(t *testing.T) {
	t.Parallel()
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "libdcgm.so"), []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ dir, address, says string }{
		"no library":     {broken, defaultAddress, "libdcgm.so cannot be loaded"},
		"lacks a symbol": {stub(t, "-DOLD"), defaultAddress, "it lacks dcgmUpdateAllFields"},
		"no engine":      {stub(t), "127.0.0.1:9", "The connection to DCGM is lost"},
	} {
		for i, a := range child(t, test.dir, test.address)[:3] {
			if !strings.Contains(a.Error, test.says) || a.Devices != nil {
				t.Errorf("%s, read %d: %+v", name, i, a)
			}
		}
	}
	child(t, "", "127.0.0.1:9") // whatever this machine has: the process does not die
}

func TestEngineReadsAndReconnects(t *testing.T) {
	t.Parallel()
	got := child(t, stub(t), defaultAddress)
	if got[0].Error != "<nil>" || !strings.Contains(got[1].Error, "reading fields") || got[2].Error != "<nil>" {
		t.Fatalf("%+v", got)
	}
	if !strings.Contains(got[3].Error, "connected to the host engine at 127.0.0.1:5555, and can be to one only") {
		t.Errorf("a second address in one process: %+v", got[3])
	}
	devices := got[2].Devices
	if len(devices) != 2 || devices[0].UUID != "GPU-stub-0" || devices[0].Instance != "" || devices[1].UUID != "GPU-stub-1" || devices[1].Instance != "2" || devices[1].Profile != "1g.10gb" ||
		devices[1].Model != "NVIDIA H100 80GB HBM3" || devices[1].GPU != 1 {
		t.Fatalf("%+v", devices)
	}
	s := pull(t, &fake{devices: fresh(devices)})[0]
	if len(s.GPUs) != 2 || *s.GPUs[0].Utilization != 0.83 || *s.GPUs[0].PowerW != 412.5 || *s.GPUs[0].EnergyJ != 123456.789 || s.GPUs[0].Engine != nil {
		t.Errorf("whole GPU: %+v", s)
	}
	if i := s.GPUs[1]; i.Utilization != nil || *i.Engine != 0.25 || *i.FBUsedMiB != 100 || *i.PowerW != 412.5 {
		t.Errorf("instance: %+v", i)
	}
}

// fresh gives values the time of the test's clock, after seeing that they had the stand-in's.
func fresh(devices []Device) []Device {
	for _, d := range devices {
		for i := range d.Values {
			if !d.Values[i].At.Equal(time.UnixMicro(1788264000000000)) {
				return nil
			}
			d.Values[i].At = clock()
		}
	}
	return devices
}
