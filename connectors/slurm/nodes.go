package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
)

// nodeRecord is what slurmctld says of a node.
type nodeRecord struct {
	Name       string `json:"name"`
	Hostname   string `json:"hostname"`
	Address    string `json:"address"`
	InstanceID string `json:"instance_id"` // of a cloud, where the plugin or the admin says it
	Cluster    string `json:"cluster_name"`
	GRES       string `json:"gres"`
	TRES       string `json:"tres"`
	State      words  `json:"state"`
	Flags      words  `json:"state_flags"` // up to v0.0.38
	Reason     string `json:"reason"`
	Since      number `json:"reason_changed_at"`
}

// errNoGPUNode marks a node that is right and of no interest.
var errNoGPUNode = errors.New("a node without GPUs, or not there yet")

// readNode turns a node into what it is to us. What its reason says counts since the reason
// was set: Slurm clears it when a node comes back.
func readNode(raw json.RawMessage, cluster string) (event.Node, error) {
	var r nodeRecord
	if err := json.Unmarshal(raw, &r); err != nil {
		return event.Node{}, fmt.Errorf("no node as documented: %w", err)
	}
	if r.Name == "" {
		return event.Node{}, errors.New("a node's name is missing")
	}
	state, there := append(r.State, r.Flags...).nodeState()
	if !there || !strings.Contains(r.GRES, "gpu") && !strings.Contains(r.TRES, "gres/gpu") {
		return event.Node{}, errNoGPUNode
	}
	n := event.Node{Cluster: cluster, Name: r.Name, State: state, ResourceID: r.InstanceID}
	if r.Cluster != "" {
		n.Cluster = r.Cluster
	}
	for _, h := range []string{r.Hostname, r.Address} {
		if h != "" && h != r.Name && (len(n.Hosts) == 0 || n.Hosts[0] != h) {
			n.Hosts = append(n.Hosts, h)
		}
	}
	if state != event.NodeAvailable {
		n.Reason = r.Reason
		if n.Reason == "" {
			n.Reason = strings.Join(append(r.State, r.Flags...), "+")
		}
		if t := r.Since.time(); t != nil && r.Reason != "" {
			n.At = *t
		}
	}
	return n, nil
}

// held is what slurmctld says a running job has on its nodes, by index of the GRES.
type held struct {
	JobID  number   `json:"job_id"`
	State  words    `json:"job_state"`
	Nodes  string   `json:"nodes"`
	Detail []string `json:"gres_detail"` // one for each node, e.g. gpu:h100:4(IDX:0-3)
	Start  number   `json:"start_time"`
}

// uuids translates the indexes of one running job by the map. A job is translated whole or
// not at all: some of its GPUs would look like all of them.
func (h held) uuids(gres map[string][]string) (key string, uuids []string) {
	if !h.State.has("RUNNING", "SUSPENDED") || !h.Start.set || !h.JobID.set {
		return "", nil
	}
	nodes, err := expand(h.Nodes)
	if err != nil || len(nodes) != len(h.Detail) {
		return "", nil
	}
	for i, node := range nodes {
		list, ok := indexes(h.Detail[i])
		if !ok {
			return "", nil
		}
		for _, n := range list {
			if n >= len(gres[node]) {
				return "", nil
			}
			uuids = append(uuids, gres[node][n])
		}
	}
	return fmt.Sprint(h.JobID.value, "@", h.Start.value), uuids
}

// indexes reads gpu:h100:4(IDX:0,2-4),gpu:a100:1(IDX:5).
func indexes(detail string) (out []int, ok bool) {
	parts := strings.Split(detail, "(IDX:")
	for i, p := range parts {
		if i == 0 {
			continue
		}
		if !strings.Contains(lastGRES(parts[i-1]), "gpu") {
			continue
		}
		list, _, closed := strings.Cut(p, ")")
		numbers, err := ranges(list, 1024)
		if !closed || err != nil {
			return nil, false
		}
		for _, n := range numbers {
			var v int
			if _, err := fmt.Sscanf(n, "%d", &v); err != nil {
				return nil, false
			}
			out = append(out, v)
		}
	}
	return out, len(out) > 0
}

// lastGRES is the resource that an index list belongs to: what follows the last comma.
func lastGRES(s string) string { return s[strings.LastIndex(s, ",")+1:] }

// bounded keeps a moment within what was asked for.
func bounded(t, from, to time.Time) time.Time {
	if t.Before(from) {
		return from
	}
	if t.After(to) {
		return to
	}
	return t
}
