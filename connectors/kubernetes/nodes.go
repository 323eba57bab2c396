package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
)

// readNode turns a node into what it is to us; gpus is false for one without GPUs. A node
// whose device plugin is away has none for the moment: known says it had.
func readNode(raw json.RawMessage, cluster string, further []string, known func(name string) bool) (n event.Node, gpus bool, err error) {
	var o node
	if err := json.Unmarshal(raw, &o); err != nil {
		return n, false, fmt.Errorf("no node as documented: %w", err)
	}
	whole, parts := o.Status.Capacity.gpus(further)
	if whole+parts == 0 && o.Metadata.Labels["nvidia.com/gpu.present"] != "true" && !known(o.Metadata.Name) {
		return n, false, nil
	}
	n = event.Node{Cluster: cluster, Name: o.Metadata.Name, ResourceID: resource(o.Spec.ProviderID)}
	for _, a := range o.Status.Addresses {
		switch a.Type {
		case "Hostname", "InternalDNS", "InternalIP":
			if a.Address != n.Name && a.Address != "" && !contains(n.Hosts, a.Address) {
				n.Hosts = append(n.Hosts, a.Address)
			}
		}
	}
	var since *time.Time
	n.State, n.Reason, since = o.state(further)
	if since != nil {
		n.At = *since
	}
	return n, true, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// state is the worst that the cluster says of a node: failed, then to be removed, then closed
// to new work. since is the time of it, where it is said.
func (o node) state(further []string) (state, reason string, since *time.Time) {
	for _, c := range o.Status.Conditions {
		if broken(c) {
			return event.NodeFailed, strings.TrimSpace(c.Type + "=" + c.Status + " " + c.Reason), c.Changed
		}
	}
	taints := map[string]taint{}
	for _, t := range o.Spec.Taints {
		taints[t.Key] = t
	}
	if t, ok := taints["node.kubernetes.io/out-of-service"]; ok {
		return event.NodeFailed, t.Key, t.Added
	}
	whole, parts := o.Status.Capacity.gpus(further)
	if left, some := o.Status.Allocatable.gpus(further); whole+parts > 0 && left+some == 0 {
		return event.NodeFailed, "no GPU is allocatable: the device plugin takes all for unhealthy", nil
	}
	for _, key := range []string{"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"} {
		if t, ok := taints[key]; ok {
			return event.NodeDrained, key, t.Added
		}
	}
	if o.Spec.Unschedulable {
		return event.NodeCordoned, "unschedulable", taints["node.kubernetes.io/unschedulable"].Added
	}
	return event.NodeAvailable, "", nil
}

// broken reports whether a condition forbids work on the GPUs. Those of the node problem
// detector and of GPU operators are named by their makers: a GPU is broken where something
// with GPU, XID or NVLink in its name is true, or, if it is named after health, is not.
func broken(c condition) bool {
	name := strings.ToLower(c.Type)
	switch {
	case c.Type == "Ready":
		return c.Status != "True"
	case c.Type == "NetworkUnavailable":
		return c.Status == "True"
	case !strings.Contains(name, "gpu") && !strings.Contains(name, "xid") && !strings.Contains(name, "nvlink"):
		return false
	case strings.Contains(name, "unhealthy"):
		return c.Status == "True"
	case strings.Contains(name, "healthy"), strings.Contains(name, "ready"):
		return c.Status == "False"
	}
	return c.Status == "True"
}

// resource is the machine's id as its bill writes it, from spec.providerID. AWS bills the
// instance id, Azure the lower-cased path of a virtual machine. Not known are: Google's, whose
// bill has a number that the node does not say, and a member of an Azure scale set, which is
// billed under the set; these match by the machine's name.
func resource(providerID string) string {
	scheme, rest, ok := strings.Cut(providerID, "://")
	if !ok {
		return providerID // OCI gives its OCID bare
	}
	last := rest[strings.LastIndex(rest, "/")+1:]
	switch scheme {
	case "gce":
		return ""
	case "azure":
		path := strings.ToLower("/" + strings.TrimLeft(rest, "/"))
		if strings.Contains(path, "/virtualmachinescalesets/") {
			return ""
		}
		return path
	}
	if id, err := url.PathUnescape(last); err == nil {
		return id
	}
	return last
}
