package demo

import (
	"strconv"
	"time"
)

// The trouble that real telemetry has.
var (
	outageNode             = "trn-08" // its exporter was restarted by hand
	outageStart, outageEnd = october(18, 11, 10), october(18, 11, 35)

	stalledNode, stalledGPU  = "trn-08", 5 // full utilisation, no work
	stalledStart, stalledEnd = october(17, 1, 0), october(17, 7, 0)

	blankNode, blankGPU = "trn-09", 3
	blankAt             = october(17, 10, 0)
)

// device is one GPU with what it has used so far.
type device struct {
	index  int
	uuid   string
	energy uint64 // millijoules since the driver was loaded
}

// target is one node with an exporter.
type target struct {
	node    string
	shape   shape
	devices []device
	jobs    []work
	pods    []serving
}

func targets() []target {
	out := []target{
		{node: "trn-07", shape: p5}, {node: "trn-08", shape: p5}, {node: "trn-09", shape: p5},
		{node: "srv-01", shape: g6Twelve}, {node: "srv-02", shape: g6Twelve},
	}
	for i := range out {
		t := &out[i]
		for g := range t.shape.gpus {
			t.devices = append(t.devices, device{index: g, uuid: gpuUUID(t.node, g), energy: noise(hash(t.node), uint64(g)) % 4e12})
		}
		for _, w := range slurmJobs() {
			if w.node == t.node {
				t.jobs = append(t.jobs, w)
			}
		}
		for _, s := range servingPods() {
			if s.node == t.node {
				t.pods = append(t.pods, s)
			}
		}
	}
	return out
}

// Scrapes yields what dcgm-exporter served on each node, minute by minute, in the order of
// time. A nil body is a scrape that failed: the exporter did not answer. The body is good
// until yield returns. An error of yield ends the walk and is returned.
func Scrapes(yield func(node string, at time.Time, body []byte) error) error {
	all := targets()
	var body []byte
	for at := scrapeStart; at.Before(scrapeEnd); at = at.Add(time.Minute) {
		for i := range all {
			t := &all[i]
			body = t.scrape(body[:0], at)
			text := body
			if t.node == outageNode && !at.Before(outageStart) && at.Before(outageEnd) {
				text = nil
			}
			if err := yield(t.node, at, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// reading is what one device shows at one time.
type reading struct {
	owner      string // labels, with a leading comma
	util       int
	engine, sm int // millionths
	power      int // milliwatts
	memory     int // MiB
	blank      bool
}

var families = []struct{ name, help, kind string }{
	{"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", "gauge"},
	{"DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", "gauge"},
	{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ).", "counter"},
	{"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", "gauge"},
	{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", "gauge"},
	{"DCGM_FI_PROF_SM_ACTIVE", "The ratio of cycles an SM has at least 1 warp assigned.", "gauge"},
}

// scrape appends the text of all devices and moves their counters on by a minute.
func (t *target) scrape(b []byte, at time.Time) []byte {
	readings := make([]reading, len(t.devices))
	for i := range t.devices {
		r := t.read(&t.devices[i], at)
		t.devices[i].energy += uint64(r.power) * 60
		readings[i] = r
	}
	for f, family := range families {
		b = append(b, "# HELP "+family.name+" "+family.help+"\n# TYPE "+family.name+" "+family.kind+"\n"...)
		for i := range t.devices {
			d, r := &t.devices[i], &readings[i]
			b = append(b, family.name...)
			b = append(b, `{gpu="`...)
			b = strconv.AppendInt(b, int64(d.index), 10)
			b = append(b, `",UUID="`...)
			b = append(b, d.uuid...)
			b = append(b, `",device="nvidia`...)
			b = strconv.AppendInt(b, int64(d.index), 10)
			b = append(b, `",modelName="`...)
			b = append(b, t.shape.gpu...)
			b = append(b, `",Hostname="`...)
			b = append(b, t.node...)
			b = append(b, '"')
			b = append(b, r.owner...)
			b = append(b, "} "...)
			b = append(value(b, f, d, r), '\n')
		}
	}
	return b
}

func value(b []byte, family int, d *device, r *reading) []byte {
	switch family {
	case 0:
		return strconv.AppendInt(b, int64(r.util), 10)
	case 1:
		if r.blank {
			return append(b, "140737488355328.000000"...) // DCGM's word for no value
		}
		return micros(b, r.power*1000)
	case 2:
		return strconv.AppendUint(b, d.energy, 10)
	case 3:
		return strconv.AppendInt(b, int64(r.memory), 10)
	case 4:
		return micros(b, r.engine)
	default:
		return micros(b, r.sm)
	}
}

// micros appends millionths as the exporter prints doubles: six digits.
func micros(b []byte, v int) []byte {
	b = strconv.AppendInt(b, int64(v/1e6), 10)
	b = append(b, '.')
	frac := strconv.Itoa(1e6 + v%1e6)
	return append(b, frac[1:]...)
}
