package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
)

// errOther marks a pod that is right and of no interest.
var errOther = errors.New("a pod without GPUs, or without a node yet")

// hold is a pod that has GPUs, or had.
type hold struct {
	meta     meta
	start    time.Time
	node     string
	gpus     int // 0: only parts, or shared
	finished bool
	end      time.Time // zero if the status does not say
	outcome  string
	exit     *int
	hint     string // what it will have been if it vanishes now
}

// readPod checks one pod. shared names nodes whose GPUs are time-sliced or shared by MPS: one
// resource is then no GPU.
func readPod(raw json.RawMessage, further []string, shared map[string]bool) (hold, error) {
	var p pod
	if err := json.Unmarshal(raw, &p); err != nil {
		return hold{}, fmt.Errorf("no pod as documented: %w", err)
	}
	if p.Metadata.UID == "" || p.Metadata.Name == "" || p.Metadata.Namespace == "" {
		return hold{}, errors.New("a pod without namespace, name or uid")
	}
	whole, parts := p.gpus(further)
	if whole+parts == 0 || p.Spec.NodeName == "" {
		return hold{}, errOther
	}
	h := hold{meta: p.Metadata, node: p.Spec.NodeName, gpus: whole, hint: p.disrupted()}
	if parts > 0 || shared[p.Spec.NodeName] {
		h.gpus = 0
	}
	start := p.start()
	if start == nil {
		return hold{}, errOther
	}
	h.start = start.UTC()
	if p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
		h.finished = true
		p.finish(&h)
	}
	return h, nil
}

// start is when the pod was bound: from then on nobody else gets its GPUs, whether images are
// still pulled or not.
func (p pod) start() *time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "True" && c.Changed != nil {
			return c.Changed
		}
	}
	if p.Status.Started != nil {
		return p.Status.Started
	}
	return p.Metadata.Created
}

func (p pod) finish(h *hold) {
	h.outcome = "COMPLETED"
	if p.Status.Phase == "Failed" {
		h.outcome = outcomeOf(p.Status.Reason)
		if h.outcome == "" {
			h.outcome = h.hint
		}
	}
	for _, c := range p.Status.Containers {
		t := c.State.Terminated
		if t == nil {
			continue
		}
		if t.Finished != nil && t.Finished.After(h.end) {
			h.end = t.Finished.UTC()
		}
		if h.exit == nil || t.ExitCode != 0 && *h.exit == 0 {
			code := t.ExitCode
			h.exit = &code
		}
		if why := outcomeOf(t.Reason); p.Status.Phase == "Failed" && (h.outcome == "" || h.outcome == "FAILED" && why == "OUT_OF_MEMORY") {
			h.outcome = why
		}
	}
	if h.outcome == "" {
		h.outcome = "FAILED"
	}
	if h.end.IsZero() {
		h.end = p.stopped()
	}
	if !h.end.IsZero() && h.end.Before(h.start) {
		h.end = h.start
	}
}

// stopped is when a pod whose containers say no end stopped being ready, or zero.
func (p pod) stopped() (at time.Time) {
	for _, c := range p.Status.Conditions {
		over := c.Status == "False" && (c.Type == "Ready" || c.Type == "ContainersReady") || c.Status == "True" && c.Type == "DisruptionTarget"
		if over && c.Changed != nil && c.Changed.After(at) {
			at = c.Changed.UTC()
		}
	}
	return at
}

// disrupted says what a pod that is about to be ended will have been.
func (p pod) disrupted() string {
	for _, c := range p.Status.Conditions {
		if c.Status == "True" && (c.Type == "DisruptionTarget" || c.Type == "TerminationTarget") {
			if o := outcomeOf(c.Reason); o != "" {
				return o
			}
			return "PREEMPTED"
		}
	}
	return outcomeOf(p.Status.Reason)
}

// outcomeOf maps reasons of pods, containers and disruptions to Slurm's words; no reason that
// it knows is empty.
func outcomeOf(reason string) string {
	switch reason {
	case "Completed":
		return "COMPLETED"
	case "Error", "ContainerCannotRun", "StartError", "ContainerStatusUnknown", "UnexpectedAdmissionError", "BackoffLimitExceeded", "PodFailurePolicy":
		return "FAILED"
	case "OOMKilled":
		return "OUT_OF_MEMORY"
	case "DeadlineExceeded":
		return "TIMEOUT"
	case "Evicted", "Preempting", "Preempted", "PreemptionByScheduler", "PreemptionByKubeScheduler", "EvictionByEvictionAPI":
		return "PREEMPTED"
	case "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet", "NodeAffinity":
		return "NODE_FAIL"
	}
	if strings.Contains(reason, "Preempt") {
		return "PREEMPTED"
	}
	return ""
}

// job is what a hold is told as.
func (h hold) job(o owner, c Config) event.Job {
	j := event.Job{
		JobID: event.JobID{Scheduler: "kubernetes", Cluster: c.Cluster, ID: h.meta.Namespace + "/" + o.name, ArrayTask: h.task(o), Attempt: h.attempt()},
		Name:  o.name, User: o.first(c.User), Project: o.first(c.Project), Team: o.first(c.Team), Environment: o.first(c.Environment),
		Labels: o.labels(c.Labels), Namespace: h.meta.Namespace, Pods: []string{h.meta.Name}, GPUCount: h.gpus, Start: &h.start,
		Evidence: event.EvidenceScheduler,
	}
	if h.gpus > 0 {
		j.Nodes = []string{h.node}
	}
	return j
}

// task names the pod within its job: what its name has beyond the owner's, and the beginning
// of its UID.
func (h hold) task(o owner) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(h.meta.Name, o.name), "-")
	return strings.TrimPrefix(rest+"."+h.meta.UID[:min(8, len(h.meta.UID))], ".")
}

func (h hold) attempt() int {
	for _, said := range []string{h.meta.Labels["jobset.sigs.k8s.io/restart-attempt"], h.meta.Annotations["batch.kubernetes.io/job-index-failure-count"]} {
		if n, err := strconv.Atoi(said); err == nil && n >= 0 && n <= 65535 {
			return n
		}
	}
	return 0
}
