package lambda

import (
	"testing"

	"github.com/idlewatt/idlewatt/schema/event"
)

func TestTypeNamesTellGPUs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"gpu_8x_h100_sxm5": "8 H100", "gpu_1x_a10": "1 A10", "gpu_8x_a100_80gb_sxm4": "8 A100 80GB", "gpu_1x_gh200": "1 GH200", "cpu_4x_general": "", "gpu_0x_a10": "", "": "",
	} {
		run := event.Instance{InstanceType: name}
		named(&run)
		got := ""
		if run.GPUCount != nil {
			got = run.GPUCount.String() + " " + run.GPUModel
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
