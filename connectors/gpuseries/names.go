package gpuseries

import "strings"

// quantity is what a series measures, whatever it is called.
type quantity int

const (
	other quantity = iota // known and not used
	utilization
	engine
	sm
	tensor
	dram
	power
	energy
	fbUsed
	fbFree
	fbReserved
	fbTotal
	fbRatio
	xid
	quantities
)

// unit says how a printed number becomes a canonical one and what is out of bounds.
type unit int

const (
	none unit = iota
	percent
	ratio     // 0..1
	profiling // 0..1, where a small overshoot is clamped
	watts
	millijoules
	joules
	mebibytes
	bytes
	number
	// unclear is DCGM_FI_DEV_GPU_UTIL_RATIO: a percentage in DCGM 4.6, a ratio in 4.7.
	unclear
)

// generation tells which exporter's names a body uses.
type generation int

const (
	genAny       generation = iota
	genOne                  // 1.x compatibility names
	genClassic              // 2.x to 4.8.x
	genCanonical            // DCGM 4.6 names in a custom counter file
	genSeven                // exporter 4.9, DCGM 4.7
)

func (g generation) String() string {
	return [...]string{"", "1.x", "2.x-4.8", "4.6-canonical", "4.9"}[g]
}

type field struct {
	quantity quantity
	unit     unit
	gen      generation
}

// lookup finds a metric by name. The TYPE and HELP lines come from the operator's file and
// say nothing.
func lookup(name string) (field, bool) {
	switch {
	case strings.HasPrefix(name, "DCGM_FI_"):
		f, ok := fiField(name[len("DCGM_FI_"):])
		return f, ok
	case strings.HasPrefix(name, "dcgm_"):
		return oldField(name[len("dcgm_"):])
	case strings.HasPrefix(name, "DCGM_EXP_"):
		return field{}, true // the exporter's own counts, annotations only
	}
	return field{}, false
}

// Wanted reports whether a metric of that name says something that is used. unknown tells of
// an exporter's name that the table does not have: its unit is not known either.
func Wanted(name string) (wanted, unknown bool) {
	f, known := lookup(name)
	exporters := strings.HasPrefix(name, "DCGM_FI_") || strings.HasPrefix(name, "dcgm_")
	return f.quantity != other, exporters && !known
}

// Pattern is a regular expression, anchored by Prometheus, that matches every wanted name.
const Pattern = "DCGM_FI_(DEV_(GPU_UTIL(_RATIO)?|POWER_USAGE|BOARD_POWER_WATTS|TOTAL_ENERGY_CONSUMPTION|GPU_ENERGY_JOULES_TOTAL|" +
	"XID_ERRORS|FB_(USED|FREE|RESERVED)(_BYTES)?|FB_TOTAL|FB_CAPACITY_BYTES|FB_USED_PERCENT|FB_USED_RATIO)|" +
	"PROF_(GR_ENGINE|SM|PIPE_TENSOR|DRAM)_ACTIVE|PROF_(GR_ENGINE|SM|TENSOR|DRAM)_UTIL_RATIO)|" +
	"dcgm_(gpu_utilization|power_usage|total_energy_consumption|fb_used|fb_free|xid_errors)"

func fiField(name string) (field, bool) {
	switch name {
	case "DEV_GPU_UTIL":
		return field{utilization, percent, genClassic}, true
	case "DEV_GPU_UTIL_RATIO":
		return field{utilization, unclear, genCanonical}, true
	case "PROF_GR_ENGINE_ACTIVE":
		return field{engine, profiling, genAny}, true
	case "PROF_GR_ENGINE_UTIL_RATIO":
		return field{engine, profiling, genCanonical}, true
	case "PROF_SM_ACTIVE":
		return field{sm, profiling, genAny}, true
	case "PROF_SM_UTIL_RATIO":
		return field{sm, profiling, genCanonical}, true
	case "PROF_PIPE_TENSOR_ACTIVE":
		return field{tensor, profiling, genAny}, true
	case "PROF_TENSOR_UTIL_RATIO":
		return field{tensor, profiling, genCanonical}, true
	case "PROF_DRAM_ACTIVE":
		return field{dram, profiling, genAny}, true
	case "PROF_DRAM_UTIL_RATIO":
		return field{dram, profiling, genCanonical}, true
	case "DEV_POWER_USAGE":
		return field{power, watts, genClassic}, true
	case "DEV_BOARD_POWER_WATTS":
		return field{power, watts, genCanonical}, true
	case "DEV_TOTAL_ENERGY_CONSUMPTION":
		return field{energy, millijoules, genClassic}, true
	case "DEV_GPU_ENERGY_JOULES_TOTAL":
		return field{energy, joules, genCanonical}, true
	case "DEV_XID_ERRORS":
		return field{xid, number, genAny}, true
	}
	return memoryField(name)
}

func memoryField(name string) (field, bool) {
	switch name {
	case "DEV_FB_USED":
		return field{fbUsed, mebibytes, genClassic}, true
	case "DEV_FB_FREE":
		return field{fbFree, mebibytes, genClassic}, true
	case "DEV_FB_RESERVED":
		return field{fbReserved, mebibytes, genClassic}, true
	case "DEV_FB_TOTAL":
		return field{fbTotal, mebibytes, genClassic}, true
	case "DEV_FB_USED_PERCENT": // 0..1 despite its name
		return field{fbRatio, ratio, genClassic}, true
	case "DEV_FB_USED_RATIO":
		return field{fbRatio, ratio, genCanonical}, true
	case "DEV_FB_USED_BYTES":
		return field{fbUsed, bytes, genSeven}, true
	case "DEV_FB_FREE_BYTES":
		return field{fbFree, bytes, genSeven}, true
	case "DEV_FB_RESERVED_BYTES":
		return field{fbReserved, bytes, genSeven}, true
	case "DEV_FB_CAPACITY_BYTES":
		return field{fbTotal, bytes, genSeven}, true
	}
	return field{}, unused(name)
}

// unused reports whether a name is known and carries nothing that idlewatt uses.
func unused(name string) bool {
	switch name {
	case "DEV_SM_CLOCK", "DEV_MEM_CLOCK", "DEV_SM_CLOCK_HERTZ", "DEV_MEMORY_CLOCK_HERTZ",
		"DEV_GPU_TEMP", "DEV_MEMORY_TEMP", "DEV_MEM_COPY_UTIL", "DEV_MEMORY_UTIL_RATIO",
		"DEV_ENC_UTIL", "DEV_DEC_UTIL", "DEV_PCIE_REPLAY_COUNTER", "DEV_UNCORRECTABLE_REMAPPED_ROWS",
		"DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_FAILURE", "DEV_NVLINK_BANDWIDTH_TOTAL",
		"DEV_VGPU_LICENSE_STATUS", "PROF_PCIE_TX_BYTES", "PROF_PCIE_RX_BYTES", "DRIVER_VERSION":
		return true
	}
	return false
}

func oldField(name string) (field, bool) {
	switch name {
	case "gpu_utilization":
		return field{utilization, percent, genOne}, true
	case "power_usage":
		return field{power, watts, genOne}, true
	case "total_energy_consumption":
		return field{energy, millijoules, genOne}, true
	case "fb_used":
		return field{fbUsed, mebibytes, genOne}, true
	case "fb_free":
		return field{fbFree, mebibytes, genOne}, true
	case "xid_errors":
		return field{xid, number, genOne}, true
	case "sm_clock", "memory_clock", "gpu_temp", "memory_temp", "mem_copy_utilization",
		"enc_utilization", "dec_utilization", "pcie_replay_counter", "nvlink_bandwidth_total":
		return field{}, true
	}
	return field{}, false
}
