package gpuseries

import (
	"strings"

	"github.com/idlewatt/idlewatt/schema/event"
)

// Kinds and confidences of event.Owner.
const (
	kindPod   = "pod"
	kindSlurm = "slurm"

	confidenceHigh   = "high"
	confidenceLow    = "low"
	confidenceFailed = "failed"
)

type podName struct{ namespace, name string }

// owners knows how each scrape configuration of a body names workloads. A federated endpoint
// mixes configurations, so this is never decided once for the whole body.
type owners struct {
	renames  map[string]bool  // by job label: its lines carry exported_pod
	exporter map[podName]bool // pods that stand beside an exported_pod
	plain    map[string]*plainPods
}

// plainPods are the pods that the lines of one job name without renaming.
type plainPods struct {
	pod     podName
	several bool
	devices map[string]bool
}

func newOwners() owners {
	return owners{renames: map[string]bool{}, exporter: map[podName]bool{}, plain: map[string]*plainPods{}}
}

// see learns from one line.
func (o owners) see(l *labels) {
	if l.exPod != "" {
		o.renames[l.job] = true
		o.exporter[podName{l.namespace, l.pod}] = true
		return
	}
	if l.job == "" || l.pod == "" {
		return
	}
	p := o.plain[l.job]
	if p == nil {
		p = &plainPods{pod: podName{l.namespace, l.pod}, devices: map[string]bool{}}
		o.plain[l.job] = p
	}
	p.several = p.several || p.pod != podName{l.namespace, l.pod}
	p.devices[l.uuid] = true
}

// of returns who holds the device according to a line; ok is false if the line states no
// owner. A scheduler's job comes before a pod: the pod is then the scheduler's own.
func (o owners) of(l *labels) (owner event.Owner, ok bool) {
	if l.hpcJob != "" {
		return event.Owner{Kind: kindSlurm, Job: l.hpcJob, Labels: l.kept, Confidence: confidenceHigh}, true
	}
	pod, uid, container := podName{l.namespace, l.pod}, l.podUID, l.container
	confidence := confidenceHigh
	switch {
	case l.exPod != "":
		pod, container = podName{l.exNamespace, l.exPod}, l.exContainer
		if l.exPodID != "" {
			uid = l.exPodID
		}
	case l.pod == "":
		return owner, false
	case l.job != "" && o.renames[l.job], l.job == "" && o.exporter[pod]:
		return owner, false // pod, namespace and container are the target's labels
	case strings.Contains(l.pod, "dcgm-exporter"), strings.Contains(l.container, "dcgm-exporter"):
		return owner, false
	default:
		// Through Prometheus one pod on every device may be the exporter under another name.
		if p := o.plain[l.job]; p != nil && !p.several && len(p.devices) > 1 {
			confidence = confidenceLow
		}
	}
	return event.Owner{
		Kind: kindPod, Namespace: pod.namespace, Pod: pod.name, PodUID: uid, Container: container,
		Labels: l.kept, Confidence: confidence,
	}, true
}
