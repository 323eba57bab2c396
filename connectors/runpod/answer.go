package runpod

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/money"
)

// amount is a JSON number kept by its text, or the same number in quotes (v1 wrote both). Null
// is absent.
type amount struct {
	money.Decimal
	set bool
}

// UnmarshalJSON reads the number's text; it never becomes a float.
func (a *amount) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if text == "null" {
		*a = amount{}
		return nil
	}
	d, _, err := money.Parse(text)
	if err != nil {
		return err
	}
	*a = amount{Decimal: d, set: true}
	return nil
}

// pointer is the amount, nil if absent.
func (a amount) pointer() *money.Decimal {
	if !a.set {
		return nil
	}
	return &a.Decimal
}

// Statuses of a pod that say something about its cost. Others are on their way or gone.
const (
	statusRunning = "RUNNING"
	statusExited  = "EXITED"
)

// pod is one of GET /v2/pods, or of v1's bare list. Of env only its names in the configuration
// are read on.
type pod struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Cost   amount `json:"cost"` // USD per hour of the whole pod, without storage as it seems; 0 when stopped
	GPU    *struct {
		ID    string `json:"id"`
		Count amount `json:"count"`
	} `json:"gpu"`
	CPU *struct {
		ID string `json:"id"`
	} `json:"cpu"`
	Cloud      string  `json:"cloud"`
	DataCenter *string `json:"dataCenterId"`
	Disk       amount  `json:"disk"` // container disk, GB
	Mounts     struct {
		Persistent *struct {
			Size amount `json:"size"` // GB
		} `json:"persistent"`
	} `json:"mounts"`
	Env       map[string]json.RawMessage `json:"env"`
	CreatedAt *time.Time                 `json:"createdAt"`
	StartedAt *time.Time                 `json:"startedAt"`
	Cluster   *struct {
		ID string `json:"id"`
	} `json:"cluster"`
	Runtime *struct {
		GPUs []struct {
			Util *json.Number `json:"util"` // percent
		} `json:"gpus"`
	} `json:"runtime"`

	// v1 names; see legacy.go
	CostPerHr     amount `json:"costPerHr"`
	DesiredStatus string `json:"desiredStatus"`
}

// endpoint is one of GET /v2/serverless.
type endpoint struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	GPU  *struct {
		Pools    []string `json:"pools"`
		Excluded []string `json:"excludedTypes"`
		Count    amount   `json:"count"`
	} `json:"gpu"`
	Workers struct {
		Min amount `json:"min"`
		Max amount `json:"max"`
	} `json:"workers"`
	DataCenters []string                   `json:"dataCenterIds"`
	Env         map[string]json.RawMessage `json:"env"`
}

// worker is one of GET /v2/serverless/{id}/workers.
type worker struct {
	Status    string     `json:"status"`
	GPU       *string    `json:"gpuTypeId"` // null until it is placed
	Count     amount     `json:"gpuCount"`
	StartedAt *time.Time `json:"startedAt"`
}

// volume is one of GET /v2/network-volumes.
type volume struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Size       amount `json:"size"` // GB
	DataCenter string `json:"dataCenter"`
	Type       string `json:"type"`
}

// cluster is one of GET /v2/clusters.
type cluster struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Compute struct {
		GPU    string `json:"gpuTypeId"`
		PerPod amount `json:"gpuCountPerPod"`
		Pods   amount `json:"podCount"`
	} `json:"compute"`
	DataCenter string `json:"dataCenterId"`
}

// offer is one of GET /v2/catalog/gpus: USD per hour of one GPU. It is also what the cursor
// remembers.
type offer struct {
	ID        string  `json:"id,omitempty"`
	Pool      *string `json:"pool,omitempty"` // null: in no serverless pool
	Secure    bool    `json:"secure,omitempty"`
	Community bool    `json:"community,omitempty"`
	Price     struct {
		Secure     amount `json:"secure"`
		Community  amount `json:"community"`
		Serverless amount `json:"serverless"`
	} `json:"price"`
}

// listing is an answer that lists resources: one of its lists is there.
type listing struct {
	Pods      []pod      `json:"pods"`
	Endpoints []endpoint `json:"endpoints"`
	Workers   []worker   `json:"workers"`
	Volumes   []volume   `json:"networkVolumes"`
	Clusters  []cluster  `json:"clusters"`
	GPUs      []offer    `json:"gpus"`

	paged
}

// named reports whether every resource has its id.
func (l *listing) named() bool {
	ok := true
	for _, x := range l.Pods {
		ok = ok && x.ID != ""
	}
	for _, x := range l.Endpoints {
		ok = ok && x.ID != ""
	}
	for _, x := range l.Volumes {
		ok = ok && x.ID != ""
	}
	for _, x := range l.Clusters {
		ok = ok && x.ID != ""
	}
	for _, x := range l.GPUs {
		ok = ok && x.ID != ""
	}
	return ok
}

// paged is what tells of further pages, in answers that have them.
type paged struct {
	Pagination *struct {
		NextCursor  *string `json:"nextCursor"`
		HasNextPage *bool   `json:"hasNextPage"`
	} `json:"pagination"`
}

// next returns the cursor of the next page, or "".
func (p paged) next() (string, error) {
	if p.Pagination == nil || p.Pagination.HasNextPage != nil && !*p.Pagination.HasNextPage {
		return "", nil
	}
	if p.Pagination.NextCursor == nil || *p.Pagination.NextCursor == "" {
		if p.Pagination.HasNextPage != nil {
			return "", errors.New("it says that a page follows and not which: pagination.nextCursor is empty")
		}
		return "", nil
	}
	return *p.Pagination.NextCursor, nil
}

// decode reads one JSON document into v and refuses what follows it.
func decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows after the document's end")
	}
	return nil
}

// tagsOf are the tags of a resource: the listed variables of env, its name, and the project
// that its name tells.
func (c *Config) tagsOf(name string, env map[string]json.RawMessage) map[string]string {
	out := map[string]string{}
	if name != "" {
		out["name"] = name
	}
	if p := c.projectOf(name); p != "" {
		out["project"] = p
	}
	for _, key := range c.EnvTags {
		var v string
		if json.Unmarshal(env[key], &v) == nil && v != "" {
			out[key] = v
		}
	}
	return out
}

// bucketText is a period for messages.
func bucketText(from, to time.Time) string {
	return fmt.Sprintf("%s to %s", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
}
