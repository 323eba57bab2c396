package runpod

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Owners of readings: a pod is held by who rents it. RunPod's one number per GPU is weak
// evidence, so the confidence is low.
const (
	ownerKind  = "pod"
	ownerSpace = "runpod"
	lowTrust   = "low"
)

const (
	generation    = "runpod" // where an exporter would say which units it has
	rejectMissing = "no_signal"
	rejectBounds  = "out_of_bounds"
)

// samples makes one scrape of each running GPU pod from what RunPod shows of it. A pod of
// which it shows nothing is a failed scrape: a gap, never idle.
//
// runtime.gpus[].util is a percentage of the moment. Whether memoryUtil is memory in use or
// memory traffic is not documented, so it is left out. Neither list names the device: its UUID
// is runpod:<pod>:<index>.
func (c *connector) samples(ctx context.Context, s *sight, now time.Time, emit connectors.Emitter) error {
	var old map[string][]*json.Number
	var oldErr error
	asked := false
	for _, p := range s.Pods {
		if p.Status != statusRunning || p.GPU == nil {
			continue
		}
		var utils []*json.Number
		if p.Runtime != nil {
			for _, g := range p.Runtime.GPUs {
				utils = append(utils, g.Util)
			}
		}
		if len(utils) == 0 && !asked {
			asked = true
			old, oldErr = c.api.readings(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if len(utils) == 0 {
			utils = old[p.ID]
		}
		x := c.scrape(p, utils, now)
		if !x.OK && oldErr != nil {
			x.Error += ", and: " + oldErr.Error()
		}
		e, err := event.New(event.TypeGPUSamples, "idlewatt/"+c.source, x.Target+"@"+now.Format(time.RFC3339Nano), "", now, x)
		if err != nil {
			return err
		}
		if err := emit.Event(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (c *connector) scrape(p pod, utils []*json.Number, now time.Time) event.GPUSamples {
	x := event.GPUSamples{Target: "runpod/" + p.ID, Node: p.ID, At: now, ReceivedAt: now, Generation: generation}
	if len(utils) == 0 {
		x.Error = "RunPod shows no GPU of this pod (runtime.gpus is empty)"
		return x
	}
	x.OK, x.Complete, x.Lines = true, true, len(utils)
	owner := event.Owner{Kind: ownerKind, Namespace: ownerSpace, Pod: p.Name, Confidence: lowTrust, Labels: c.cfg.tagsOf("", p.Env)}
	if owner.Pod == "" {
		owner.Pod = p.ID
	}
	if project := c.cfg.projectOf(p.Name); project != "" {
		owner.Labels["project"] = project
	}
	for n, u := range utils {
		ratio, why := ratioOf(u)
		if why != "" {
			if x.Rejected == nil {
				x.Rejected = map[string]int{}
			}
			x.Rejected[why]++
			continue
		}
		x.GPUs = append(x.GPUs, event.GPUSample{
			UUID: "runpod:" + p.ID + ":" + strconv.Itoa(n), Model: model(p.GPU.ID), Utilization: &ratio, Owners: []event.Owner{owner},
		})
	}
	return x
}

// ratioOf turns a percentage into 0..1; what is out of bounds is not believed.
func ratioOf(u *json.Number) (float64, string) {
	if u == nil {
		return 0, rejectMissing
	}
	v, err := u.Float64()
	if err != nil || v < 0 || v > 100 {
		return 0, rejectBounds
	}
	return v / 100, ""
}
