package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Doctor lists nodes and pods, follows the owners of pods with GPUs, and names each right that
// is missing.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	defer c.api.rest()
	c.owners.forgetDenials()
	p := &pull{connector: c, m: &memory{Nodes: connectors.Nodes{}}, at: c.now(), shared: map[string]bool{}}
	nodes, ok := p.doctorNodes(ctx)
	out := []connectors.Finding{nodes}
	if !ok && !strings.Contains(nodes.Fix, "resources") {
		return out // what keeps nodes away keeps pods away
	}
	return append(out, p.doctorPods(ctx)...)
}

// cure says what to do about a refusal.
func cure(err error, verb, resource string) string {
	if s := status(err); s == http.StatusForbidden {
		return fmt.Sprintf("give the service account a rule with verbs [%s] for resources [%s]: see deploy/kubernetes/rbac.yaml", verb, resource)
	} else if s == http.StatusUnauthorized {
		return "the token is not one of this cluster, or has expired: see token_file"
	}
	return "see that server is reachable from here and that ca_file is the cluster's"
}

func (p *pull) doctorNodes(ctx context.Context) (f connectors.Finding, ok bool) {
	f = connectors.Finding{Level: connectors.OK, What: "list nodes"}
	items, err := p.api.list(ctx, "/api/v1/nodes")
	if err != nil {
		f.Level, f.Said, f.Fix = connectors.Fail, err.Error(), cure(err, "list", "nodes")
		return f, false
	}
	gpus, out := 0, 0
	for _, raw := range items {
		n, has, err := readNode(raw, p.cfg.Cluster, p.cfg.Resources, func(string) bool { return false })
		if err != nil || !has {
			continue
		}
		if gpus++; n.State != event.NodeAvailable {
			out++
		}
		if sharing(raw) {
			p.shared[n.Name] = true
		}
	}
	f.Said = fmt.Sprintf("%d nodes, %d with GPUs, %d of these out of use, %d shared", len(items), gpus, out, len(p.shared))
	if gpus == 0 {
		f.Level, f.Fix = connectors.Warn, "no node offers GPUs: see that the device plugin runs, or name its resource in resources"
	}
	return f, true
}

func (p *pull) doctorPods(ctx context.Context) []connectors.Finding {
	f := connectors.Finding{Level: connectors.OK, What: "list pods"}
	items, err := p.pods(ctx)
	if err != nil {
		f.Level, f.Said, f.Fix = connectors.Fail, err.Error(), cure(err, "list", "pods")
		return []connectors.Finding{f}
	}
	holds, kinds, claims := 0, map[string]int{}, 0
	for _, raw := range items {
		if claimed(raw) {
			claims++
		}
		h, err := readPod(raw, p.cfg.Resources, p.shared)
		if err != nil {
			continue
		}
		o, err := p.owners.of(ctx, h.meta)
		if err != nil && errors.Is(err, context.Canceled) {
			break
		}
		if !h.finished {
			holds++
			kinds[o.kind]++
		}
	}
	f.Said = fmt.Sprintf("%d pods, %d hold GPUs, owned by %v", len(items), holds, kinds)
	if claims > 0 {
		f.Level, f.Fix = connectors.Warn, "pods that get GPUs by resource claims (DRA) are not counted: only their labels in telemetry tell of them"
		f.Said += fmt.Sprintf("; %d have resource claims", claims)
	}
	out := []connectors.Finding{f}
	for _, kind := range slices.Sorted(maps.Keys(p.owners.denied)) {
		plural := strings.ToLower(kind) + "s"
		out = append(out, connectors.Finding{
			Level: connectors.Warn, What: "get " + plural, Said: "forbidden: jobs stop at " + kind + " and what owns it is not known",
			Fix: fmt.Sprintf("give the service account a rule with verbs [get] for resources [%s]: see deploy/kubernetes/rbac.yaml", plural),
		})
	}
	return append(out, p.doctorClock()...)
}

// claimed reports whether a pod asks for devices by claims.
func claimed(raw json.RawMessage) bool {
	var o struct {
		Spec struct {
			Claims []json.RawMessage `json:"resourceClaims"`
		} `json:"spec"`
	}
	return json.Unmarshal(raw, &o) == nil && len(o.Spec.Claims) > 0
}

// doctorClock compares clocks: ends of pods that vanish are by ours.
func (p *pull) doctorClock() []connectors.Finding {
	if skew, ok := p.api.whole.Skew(); ok && (skew > time.Minute || skew < -time.Minute) {
		return []connectors.Finding{{
			Level: connectors.Warn, What: "clock", Said: fmt.Sprintf("this machine's clock differs from the API server's by %s", skew.Round(time.Second)),
			Fix: "set both by NTP: ends of pods that vanish are told by this machine's clock",
		}}
	}
	return nil
}
