package kubernetes

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Only the fields named here are read of an object.
type meta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	UID         string            `json:"uid"`
	Created     *time.Time        `json:"creationTimestamp"`
	Deleted     *time.Time        `json:"deletionTimestamp"` // when its grace is over
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Owners      []ownerRef        `json:"ownerReferences"`
}

type ownerRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller"`
}

// controller is the one owner that manages the object, if any.
func (m meta) controller() (ownerRef, bool) {
	for _, o := range m.Owners {
		if o.Controller {
			return o, o.Kind != "Node" // static pods belong to their node
		}
	}
	return ownerRef{}, false
}

type condition struct {
	Type    string     `json:"type"`
	Status  string     `json:"status"`
	Reason  string     `json:"reason"`
	Changed *time.Time `json:"lastTransitionTime"`
}

type pod struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		NodeName       string      `json:"nodeName"`
		Containers     []container `json:"containers"`
		InitContainers []container `json:"initContainers"`
	} `json:"spec"`
	Status struct {
		Phase      string            `json:"phase"`
		Reason     string            `json:"reason"`
		Started    *time.Time        `json:"startTime"`
		Conditions []condition       `json:"conditions"`
		Containers []containerStatus `json:"containerStatuses"`
	} `json:"status"`
}

type container struct {
	RestartPolicy string `json:"restartPolicy"` // Always: an init container that stays
	Resources     struct {
		Limits   quantities `json:"limits"`
		Requests quantities `json:"requests"`
	} `json:"resources"`
}

type containerStatus struct {
	State struct {
		Terminated *struct {
			ExitCode int        `json:"exitCode"`
			Reason   string     `json:"reason"`
			Finished *time.Time `json:"finishedAt"`
		} `json:"terminated"`
	} `json:"state"`
}

// quantities are amounts of resources. Extended resources are whole numbers, written as text;
// what is no whole number here is of no interest.
type quantities map[string]int

func (q *quantities) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*q = quantities{}
	for name, v := range raw {
		if n, err := strconv.Atoi(strings.Trim(string(v), `"`)); err == nil && n > 0 && n <= 1_000_000 {
			(*q)[name] = n
		}
	}
	return nil
}

type node struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		ProviderID    string  `json:"providerID"`
		Unschedulable bool    `json:"unschedulable"`
		Taints        []taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		Capacity    quantities  `json:"capacity"`
		Allocatable quantities  `json:"allocatable"`
		Conditions  []condition `json:"conditions"`
		Addresses   []struct {
			Type    string `json:"type"`
			Address string `json:"address"`
		} `json:"addresses"`
	} `json:"status"`
}

type taint struct {
	Key   string     `json:"key"`
	Added *time.Time `json:"timeAdded"`
}

// gpus counts what a list of quantities has: whole GPUs, and parts of GPUs (MIG instances,
// time slices under a name of their own), whose number says nothing about devices.
func (q quantities) gpus(further []string) (whole, parts int) {
	for name, n := range q {
		switch {
		case name == "nvidia.com/gpu", name == "amd.com/gpu":
			whole += n
		case strings.HasPrefix(name, "nvidia.com/mig-"), strings.HasSuffix(name, "/gpu.shared"):
			parts += n
		default:
			for _, f := range further {
				if f == name {
					whole += n
				}
			}
		}
	}
	return whole, parts
}

// gpus is what a pod holds: the sum of its containers and of the init containers that stay, or
// what its largest other init container takes before them.
func (p pod) gpus(further []string) (whole, parts int) {
	ask := func(c container) (int, int) {
		if w, s := c.Resources.Limits.gpus(further); w+s > 0 {
			return w, s
		}
		return c.Resources.Requests.gpus(further)
	}
	firstWhole, firstParts := 0, 0
	for _, c := range p.Spec.Containers {
		w, s := ask(c)
		whole, parts = whole+w, parts+s
	}
	for _, c := range p.Spec.InitContainers {
		w, s := ask(c)
		if c.RestartPolicy == "Always" {
			whole, parts = whole+w, parts+s
			continue
		}
		firstWhole, firstParts = max(firstWhole, w), max(firstParts, s)
	}
	return max(whole, firstWhole), max(parts, firstParts)
}
