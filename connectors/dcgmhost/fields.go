package dcgmhost

import (
	"slices"
	"strconv"
	"time"

	"github.com/idlewatt/idlewatt/connectors/gpuseries"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Field is DCGM's number of a field, as in dcgm_fields.h; numbers do not change between versions.
type Field uint16

// Fields that are read for their words and not as series.
const (
	FieldName    Field = 50
	FieldUUID    Field = 54
	FieldMIGMode Field = 67
)

// fieldNames are the fields that are read, under the name that dcgm-exporter gives them: one
// table of units and bounds holds for both. Their units are those of DCGM 3 and 4.
func fieldNames() map[Field]string {
	return map[Field]string{
		155:  "DCGM_FI_DEV_POWER_USAGE",              // W
		156:  "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", // mJ
		203:  "DCGM_FI_DEV_GPU_UTIL",                 // percent
		230:  "DCGM_FI_DEV_XID_ERRORS",
		251:  "DCGM_FI_DEV_FB_FREE", // MiB
		252:  "DCGM_FI_DEV_FB_USED",
		253:  "DCGM_FI_DEV_FB_RESERVED",
		1001: "DCGM_FI_PROF_GR_ENGINE_ACTIVE", // 0..1
		1002: "DCGM_FI_PROF_SM_ACTIVE",
		1004: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
		1005: "DCGM_FI_PROF_DRAM_ACTIVE",
	}
}

const (
	fieldXID       Field = 230
	firstProfiling Field = 1001
)

// OfParent reports whether a field is the whole device's, for a MIG instance too.
func (f Field) OfParent() bool { return f == 155 || f == 156 || f == fieldXID }

// Fields lists the numbers that are read, profiling ones or the others, in order.
func Fields(profiling bool) []Field {
	var out []Field
	for f := range fieldNames() {
		if (f >= firstProfiling) == profiling {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	return out
}

// Device is one GPU, or one MIG instance of it.
type Device struct {
	UUID     string
	Model    string
	GPU      uint   // the host engine's number, a label only
	Instance string // MIG GPU instance id
	Profile  string // MIG profile, such as 1g.10gb
	Values   []Value
}

// Value is the newest value that the host engine has of a field.
type Value struct {
	Field  Field
	Status int       // DCGM's return code; only 0 is a value
	At     time.Time // when the host engine read it
	Number float64   // blanks as DCGM codes them
}

// Reasons of this package, beside those of gpuseries.
const (
	reasonNoValue = "no_value" // the host engine has none, for instance because nobody collects it
	reasonStale   = "stale"    // it was read too long ago
)

// samples states what the values say. An XID is an event and keeps the time of its own.
func samples(devices []Device, o gpuseries.Options, maxAge time.Duration) []event.GPUSamples {
	names, rejected := fieldNames(), map[string]int{}
	reader := gpuseries.NewReader(nil, nil)
	var list []gpuseries.Sample
	for _, d := range devices {
		for _, v := range d.Values {
			name, known := names[v.Field]
			switch {
			case !known:
			case v.Status != 0:
				rejected[reasonNoValue]++
			case v.Field != fieldXID && o.At.Sub(v.At) > maxAge:
				rejected[reasonStale]++
			default:
				list = append(list, gpuseries.Sample{Series: reader.Series(labels(name, d)), Value: v.Number})
			}
		}
	}
	if len(list) == 0 {
		e := o.Failed(errNoReading, o.Node)
		e.Rejected = rejected
		return []event.GPUSamples{e}
	}
	events := gpuseries.Fold(list, o, nil)
	for why, n := range rejected {
		if events[0].Rejected == nil {
			events[0].Rejected = map[string]int{}
		}
		events[0].Rejected[why] += n
	}
	return events
}

func labels(name string, d Device) []gpuseries.Label {
	out := []gpuseries.Label{
		{Name: "__name__", Value: name}, {Name: "UUID", Value: d.UUID}, {Name: "gpu", Value: strconv.FormatUint(uint64(d.GPU), 10)}, {Name: "modelName", Value: d.Model},
	}
	if d.Instance != "" {
		out = append(out, gpuseries.Label{Name: "GPU_I_ID", Value: d.Instance}, gpuseries.Label{Name: "GPU_I_PROFILE", Value: d.Profile})
	}
	return out
}
