package connectors

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
)

// Nodes follows what a scheduler says of its hosts and tells what changed, by cluster and
// name. It is part of a cursor. What is new is kept (see Keep) before it is told, so that a
// crash neither loses a change nor moves it:
//
//	n.Tell   // what an earlier pull left
//	n.Poll(now, nodes)
//	Keep     // the cursor with n in it
//	n.Tell
type Nodes map[string]*SeenNode

// SeenNode is what was last seen of one node.
type SeenNode struct {
	Content string      `json:"c"`           // hash of what was seen, without its time
	At      time.Time   `json:"at"`          // since when
	Was     string      `json:"w,omitempty"` // the time before: part of the id of what is to tell
	Untold  *event.Node `json:"u,omitempty"`
}

// gone is the reason of a node that its scheduler does not list any more.
const gone = "not listed any more"

// Poll takes everything that a scheduler lists at a moment, complete. A node's own At counts
// as the time of a change where it lies between the last change and this moment. A node that
// is not listed any more is told as available: from then on nothing says that its GPUs are
// out of use.
func (n Nodes) Poll(at time.Time, listed []event.Node) {
	at = at.UTC().Truncate(time.Millisecond)
	there := map[string]bool{}
	for _, is := range listed {
		there[nodeKey(is)] = true
		n.change(is, at)
	}
	for key, s := range n {
		if !there[key] && s.Untold == nil {
			cluster, name, _ := strings.Cut(key, "\n")
			n.change(event.Node{Cluster: cluster, Name: name, State: event.NodeAvailable, Reason: gone}, at)
		}
	}
}

func nodeKey(n event.Node) string { return n.Cluster + "\n" + n.Name }

func (n Nodes) change(is event.Node, at time.Time) {
	since := is.At.UTC().Truncate(time.Millisecond)
	if since.IsZero() || since.After(at) {
		since = at
	}
	is.At = time.Time{}
	b, _ := json.Marshal(is) // texts and times always encode
	content := event.ID(string(b), "", "")[:16]
	s := n[nodeKey(is)]
	switch {
	case s != nil && s.Content == content:
		return
	case s == nil:
		s = &SeenNode{}
		n[nodeKey(is)] = s
	default:
		s.Was = s.At.Format(time.RFC3339Nano)
		if !since.After(s.At) {
			since = at
		}
		if !since.After(s.At) { // the clock went back
			since = s.At.Add(time.Millisecond)
		}
	}
	is.At = since
	s.Content, s.At, s.Untold = content, since, &is
}

// Tell publishes what changed and takes it for told. A node that is not listed any more is
// then forgotten.
func (n Nodes) Tell(ctx context.Context, emit Emitter, source string) error {
	for _, key := range slices.Sorted(maps.Keys(n)) {
		s := n[key]
		if s.Untold == nil {
			continue
		}
		told := *s.Untold
		told.Source = source
		e, err := event.New(event.TypeInventoryNode, "idlewatt/"+source, "node/"+told.Cluster+"/"+told.Name, s.Content+"<"+s.Was, told.At, told)
		if err != nil {
			return err
		}
		if err := emit.Event(ctx, e); err != nil {
			return err
		}
		if s.Untold = nil; told.Reason == gone {
			delete(n, key)
		}
	}
	return nil
}
