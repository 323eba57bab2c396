package dcgmhost

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/gpuseries"
	"github.com/idlewatt/idlewatt/schema/event"
)

func clock() time.Time { return time.Date(2026, 9, 1, 12, 0, 5, 0, time.UTC) }

type taker struct{ events []event.Event }

func (k *taker) Event(_ context.Context, e event.Event) error {
	k.events = append(k.events, e)
	return nil
}

func (k *taker) Archive(context.Context, string, io.Reader) (event.Object, error) {
	return event.Object{}, errors.New("nothing to archive")
}

// fake is a host engine that says what it is told to.
type fake struct {
	devices []Device
	err     error
}

func (f *fake) Read(context.Context) ([]Device, error) { return f.devices, f.err }

func pull(t *testing.T, f *fake) []event.GPUSamples {
	t.Helper()
	c := defaults()
	c.Engine, c.Node = f, "trn-07"
	con, err := factory(clock).New("gpus", c)
	if err != nil {
		t.Fatal(err)
	}
	var k taker
	if _, err := con.Pull(t.Context(), nil, &k); err != nil {
		t.Fatal(err)
	}
	var out []event.GPUSamples
	for _, e := range k.events {
		var s event.GPUSamples
		if err := e.Decode(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func value(f Field, x float64) Value {
	return Value{Field: f, Number: x, At: clock().Add(-5 * time.Second)}
}

// What the engine says means what the same device says through an exporter.
func TestSameAsTheExporter(t *testing.T) {
	t.Parallel()
	whole := Device{UUID: "GPU-a", Model: "NVIDIA H100 80GB HBM3", Values: []Value{
		value(203, 83), value(155, 412.5), value(156, 123456789), value(252, 40000), value(251, 40000), value(253, 1559), value(1001, 1.02), value(1004, 0.5), value(230, 79),
	}}
	instance := Device{UUID: "GPU-b", GPU: 1, Instance: "2", Profile: "1g.10gb", Values: []Value{value(1001, 0.25), value(252, 100), value(155, 300)}}
	text := `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 83
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 412.5
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 123456789
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 40000
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 40000
DCGM_FI_DEV_FB_RESERVED{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 1559
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 1.020000
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 0.500000
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 79
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",UUID="GPU-b",GPU_I_PROFILE="1g.10gb",GPU_I_ID="2"} 0.250000
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",GPU_I_PROFILE="1g.10gb",GPU_I_ID="2"} 100
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",GPU_I_PROFILE="1g.10gb",GPU_I_ID="2"} 300
`
	want := gpuseries.Read([]byte(text), gpuseries.Options{Target: "dcgm://127.0.0.1:5555", Node: "trn-07", At: clock()})
	got := pull(t, &fake{devices: []Device{whole, instance}})
	if diff := cmp.Diff(want, got); diff != "" || !got[0].Complete || len(got[0].GPUs) != 2 {
		t.Error(diff)
	}
}

// Blanks, what nobody collects and what is old is unknown, counted, and never zero.
func TestWhatIsNotBelieved(t *testing.T) {
	t.Parallel()
	old := value(155, 70)
	old.At = clock().Add(-2 * time.Minute)
	xid := value(230, 31)
	xid.At = clock().Add(-48 * time.Hour)
	got := pull(t, &fake{devices: []Device{{UUID: "GPU-a", Values: []Value{
		value(203, float64(int64(0x7ffffffffffffff3))), value(1001, 140737488355328), {Field: 1002, Status: -40}, old, xid, value(252, -1), value(1005, 1.5), value(156, math.NaN()), value(9999, 1),
	}}}})
	want := map[string]int{"sentinel": 2, "no_value": 1, "stale": 1, "out_of_bounds": 2, "not_a_number": 1}
	if diff := cmp.Diff(want, got[0].Rejected); diff != "" {
		t.Error(diff)
	}
	g := got[0].GPUs[0]
	if g.Utilization != nil || g.Engine != nil || g.SM != nil || g.PowerW != nil || g.FBUsedMiB != nil || g.XID == nil || *g.XID != 31 {
		t.Errorf("%+v", g)
	}
}

// A host engine that shows nothing is a gap of its node, and no failed pull.
func TestGaps(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*fake{
		"connection": {err: errors.New("The connection to DCGM is lost")},
		"no GPU":     {},
		"no value":   {devices: []Device{{UUID: "GPU-a", Values: []Value{{Field: 203, Status: -40}}}}},
		"no uuid":    {devices: []Device{{Values: []Value{value(203, 0)}}}},
	} {
		got := pull(t, f)
		if len(got) != 1 || got[0].OK || got[0].Error == "" || got[0].Node != "trn-07" || len(got[0].GPUs) != 0 || !got[0].At.Equal(clock()) {
			t.Errorf("%s: %+v", name, got)
		}
		c := defaults()
		c.Engine = f
		con, err := factory(clock).New("gpus", c)
		if err != nil {
			t.Fatal(err)
		}
		if found := con.(connectors.Doctor).Doctor(t.Context()); len(found) != 1 || found[0].Level != connectors.Fail || found[0].Fix == "" {
			t.Errorf("%s: doctor says %+v", name, found)
		}
	}
}

// Whatever a host engine says, a reading is in its bounds or there is none.
func TestBoundsHold(t *testing.T) {
	t.Parallel()
	all := append(Fields(false), Fields(true)...)
	rapid.Check(t, func(r *rapid.T) {
		var d Device
		d.UUID = rapid.SampledFrom([]string{"GPU-a", "GPU-\x00", ""}).Draw(r, "uuid")
		for range rapid.IntRange(0, 12).Draw(r, "values") {
			d.Values = append(d.Values, Value{
				Field: rapid.SampledFrom(all).Draw(r, "field"), Status: rapid.SampledFrom([]int{0, 0, 0, -6}).Draw(r, "status"),
				At: clock(), Number: rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, 2147483632, 140737488355328, 1 << 63})).Draw(r, "number"),
			})
		}
		for _, e := range samples([]Device{d}, gpuseries.Options{Target: "x", Node: "n", At: clock()}, time.Minute) {
			for _, g := range e.GPUs {
				for _, ratio := range []*float64{g.Utilization, g.Engine, g.SM, g.Tensor, g.DRAM} {
					if ratio != nil && !(*ratio >= 0 && *ratio <= 1) {
						r.Fatalf("ratio %v", *ratio)
					}
				}
				if g.PowerW != nil && !(*g.PowerW >= 0 && *g.PowerW <= 5000) {
					r.Fatalf("%v W", *g.PowerW)
				}
			}
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if err := defaults().Validate(); err != nil {
		t.Error(err)
	}
	err := (&Config{Address: "gpu-7"}).Validate()
	for _, want := range []string{"address: ", "node: is required", "interval: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint %q in: %v", want, err)
		}
	}
	for address, local := range map[string]bool{"/run/dcgm.sock": true, "127.0.0.1:5555": true, "localhost:5555": true, "[::1]:5555": true, "10.0.0.1:5555": false} {
		c := defaults()
		c.Address = address
		if err := c.Validate(); (err == nil) != local {
			t.Errorf("%s without a node: %v", address, err)
		}
	}
	for _, name := range []string{"config.yaml", "typo.yaml"} {
		if _, err := os.Stat(filepath.Join("testdata", name)); err != nil {
			t.Error(err)
		}
	}
}
