package kubernetes

import (
	"context"
	"net/http"
	"strings"
	"sync"
)

// owner is the topmost object that a pod belongs to, with what may say whose it is.
type owner struct {
	kind, name string
	status     string // where the nearest owner that ends by itself is found, if one does
	chain      []meta // the pod first
}

// maxChain bounds how far up owners are followed: CronJob, Job, pod are three.
const maxChain = 8

// owners finds topmost owners. Objects keep their owners for life, so each is asked for once.
type owners struct {
	api    *server
	mu     sync.Mutex
	known  map[string]meta // by UID
	denied map[string]bool // kinds that may not be read
}

func newOwners(api *server) *owners {
	return &owners{api: api, known: map[string]meta{}, denied: map[string]bool{}}
}

// of follows controllers upwards from a pod. An owner that is gone or may not be read ends the
// chain: its name is known and stands for what would be above it.
func (o *owners) of(ctx context.Context, m meta) (owner, error) {
	out := owner{kind: "Pod", name: m.Name, chain: []meta{m}}
	for range maxChain {
		at := out.chain[len(out.chain)-1]
		ref, ok := at.controller()
		if !ok {
			break
		}
		out.kind, out.name = ref.Kind, ref.Name
		path := objectPath(ref.APIVersion, ref.Kind, m.Namespace, ref.Name)
		if out.status == "" && batch(ref.Kind) {
			out.status = path
		}
		above, found, err := o.read(ctx, ref, path)
		if err != nil {
			return out, err
		}
		if !found {
			// A ReplicaSet is named after its Deployment and the pods' template.
			if hash := m.Labels["pod-template-hash"]; ref.Kind == "ReplicaSet" && hash != "" && strings.HasSuffix(ref.Name, "-"+hash) {
				out.kind, out.name = "Deployment", strings.TrimSuffix(ref.Name, "-"+hash)
			}
			break
		}
		out.chain = append(out.chain, above)
	}
	out.fromLabels()
	return out, nil
}

// fromLabels names owners that no controller stands for: pods that SkyPilot makes, groups of
// plain pods of Kueue, and a RayCluster whose RayJob or RayService may not be read.
func (o *owner) fromLabels() {
	switch o.kind {
	case "Pod":
		labels := o.chain[0].Labels
		for _, x := range []struct{ label, kind string }{
			{"skypilot-cluster-name", "SkyPilotCluster"}, {"skypilot-cluster", "SkyPilotCluster"},
			{"kueue.x-k8s.io/pod-group-name", "PodGroup"}, {"scheduling.x-k8s.io/pod-group", "PodGroup"},
		} {
			if name := labels[x.label]; name != "" {
				o.kind, o.name = x.kind, name
				return
			}
		}
	case "RayCluster":
		top := o.chain[len(o.chain)-1].Labels
		if kind, name := top["ray.io/originated-from-crd"], top["ray.io/originated-from-cr-name"]; kind != "" && name != "" && kind != "RayCluster" {
			o.kind, o.name = kind, name
		}
	}
}

func (o *owners) read(ctx context.Context, ref ownerRef, path string) (m meta, found bool, err error) {
	o.mu.Lock()
	m, found = o.known[ref.UID]
	denied := o.denied[ref.Kind]
	o.mu.Unlock()
	if found || denied {
		return m, found && m.Name != "", nil
	}
	m, err = o.api.metadata(ctx, path)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch s := status(err); {
	case s == http.StatusForbidden:
		o.denied[ref.Kind] = true
		return meta{}, false, nil
	case s == http.StatusNotFound, err == nil && m.UID != ref.UID:
		m = meta{} // gone, or of a kind that this does not know the path of
	case err != nil:
		return meta{}, false, err
	}
	if len(o.known) > 20_000 {
		clear(o.known)
	}
	o.known[ref.UID] = m
	return m, m.Name != "", nil
}

// forgetDenials lets a right that was given since be used.
func (o *owners) forgetDenials() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.denied)
}

// batch reports whether an owner's work comes to an end by itself: deleting it is then an end
// before its time, while deleting a service, a notebook or a cluster is how they end.
func batch(kind string) bool {
	switch kind {
	case "JobSet", "Workflow", "CronWorkflow", "PipelineRun", "TaskRun", "PodGroup", "AppWrapper", "SparkApplication":
		return true
	}
	return strings.HasSuffix(kind, "Job")
}

// first finds what a list of places says, in the pod first and then upwards.
func (o owner) first(places []string) string {
	for _, p := range places {
		kind, key, _ := strings.Cut(p, ":")
		if kind == "namespace" {
			return o.chain[0].Namespace
		}
		for _, m := range o.chain {
			v := m.Labels[key]
			if kind == "annotation" {
				v = m.Annotations[key]
			}
			if v != "" {
				return v
			}
		}
	}
	return ""
}

// keptLabels are labels that say what a job is part of.
var keptLabels = []string{
	"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/part-of",
	"kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/priority-class",
	"ray.io/cluster", "ray.io/group", "ray.io/node-type",
	"skypilot-cluster", "skypilot-cluster-name", "skypilot-user",
	"training.kubeflow.org/job-name", "training.kubeflow.org/replica-type",
	"jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name",
	"volcano.sh/job-name", "volcano.sh/queue-name", "runai/queue",
}

// maxLabel bounds a value, as of all labels from outside.
const maxLabel = 256

func (o owner) labels(further []string) map[string]string {
	out := map[string]string{"kind": o.kind}
	for _, list := range [][]string{keptLabels, further} {
		for _, key := range list {
			if v := o.first([]string{"label:" + key}); v != "" && len(out) < 32 {
				out[key] = v[:min(len(v), maxLabel)]
			}
		}
	}
	return out
}
