package event

import "time"

// GPUWrite is the payload of gpu.write: GPU series as a remote write request brought them,
// parts of many scrapes, until those are put together as gpu.samples.
type GPUWrite struct {
	// Part is a prometheus.WriteRequest in snappy's block form.
	Part []byte `json:"part"`
}

// GPUSamples is one scrape of one target. A failed scrape is an event too, with OK false
// and no samples: it marks a gap, which is never idle.
type GPUSamples struct {
	Target     string      `json:"target"`               // host:port, URL or file that was read
	Node       string      `json:"node"`                 // host the GPUs sit in; the target's own name if the text does not say
	At         time.Time   `json:"at"`                   // time of the sample
	ReceivedAt time.Time   `json:"received_at"`          // when we read it; a gross difference from At is clock skew
	OK         bool        `json:"ok"`                   //
	Error      string      `json:"error,omitempty"`      // why the scrape failed
	Complete   bool        `json:"complete"`             // false when the body was cut: work it shows stands, idleness does not
	Generation string      `json:"generation,omitempty"` // exporter generation that decided the units
	GPUs       []GPUSample `json:"gpus,omitempty"`
	// Rejected counts what was not believed, by reason (sentinel, out_of_bounds, bad_line,
	// unknown_name, no_uuid, conflict ...); Clamped and Duplicates what was repaired.
	Rejected   map[string]int `json:"rejected,omitempty"`
	Clamped    int            `json:"clamped,omitempty"`
	Duplicates int            `json:"duplicates,omitempty"`
	Lines      int            `json:"lines,omitempty"`
	Families   int            `json:"families,omitempty"`
	// Part counts from 1 where one scrape was too large for one message; zero is a whole scrape.
	Part  int `json:"part,omitempty"`
	Parts int `json:"parts,omitempty"`
}

// GPUSample is the reading of one device, or of one MIG instance of it. A nil value is
// unknown, never zero. Device facts (power, energy) of a MIG instance are its parent's.
type GPUSample struct {
	UUID     string `json:"uuid"`
	Instance string `json:"instance,omitempty"` // MIG GPU_I_ID, empty for a whole device
	Profile  string `json:"profile,omitempty"`  // MIG profile, e.g. 2g.20gb
	Model    string `json:"model,omitempty"`    // modelName as printed
	Node     string `json:"node,omitempty"`     // Hostname label: a hint, never a key

	Utilization *float64 `json:"utilization,omitempty"` // GPU_UTIL as a ratio 0..1; nil under MIG
	Engine      *float64 `json:"engine,omitempty"`      // GR_ENGINE_ACTIVE 0..1
	EngineRaw   *float64 `json:"engine_raw,omitempty"`  // as printed, where Engine was clamped
	SM          *float64 `json:"sm,omitempty"`          // SM_ACTIVE 0..1
	Tensor      *float64 `json:"tensor,omitempty"`      // PIPE_TENSOR_ACTIVE 0..1
	DRAM        *float64 `json:"dram,omitempty"`        // DRAM_ACTIVE 0..1
	PowerW      *float64 `json:"power_w,omitempty"`     // watts
	EnergyJ     *float64 `json:"energy_j,omitempty"`    // joules since driver load
	FBUsedMiB   *float64 `json:"fb_used_mib,omitempty"`
	FBTotalMiB  *float64 `json:"fb_total_mib,omitempty"`
	FBUsedRatio *float64 `json:"fb_used_ratio,omitempty"` // 0..1, where the exporter states only that
	XID         *int64   `json:"xid,omitempty"`           // last XID, an annotation

	Owners   []Owner  `json:"owners,omitempty"`
	Findings []string `json:"findings,omitempty"` // e.g. attribution_failed, profiling_contradicts, busy_suspect, low
}

// Owner is who holds a device according to the scrape. Several owners share it.
type Owner struct {
	Kind       string            `json:"kind"` // pod or slurm
	Namespace  string            `json:"namespace,omitempty"`
	Pod        string            `json:"pod,omitempty"`
	PodUID     string            `json:"pod_uid,omitempty"`
	Container  string            `json:"container,omitempty"`
	Job        string            `json:"job,omitempty"` // hpc_job
	Labels     map[string]string `json:"labels,omitempty"`
	Confidence string            `json:"confidence,omitempty"` // high, low or failed
	// Engine is the owner's own activity where the exporter measures it per process.
	Engine *float64 `json:"engine,omitempty"`
	// FBUsedMiB is the owner's own memory, likewise.
	FBUsedMiB *float64 `json:"fb_used_mib,omitempty"`
}

// Name is the owner as people write it: namespace/pod, or the scheduler's job id.
func (o Owner) Name() string {
	if o.Kind == "slurm" {
		return o.Job
	}
	if o.Namespace == "" {
		return o.Pod
	}
	return o.Namespace + "/" + o.Pod
}
