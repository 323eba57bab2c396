package connectors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// notes keeps the nodes that were told, with their ids.
type notes struct {
	nodes []event.Node
	ids   map[string]bool
	fail  bool
}

func (n *notes) Event(_ context.Context, e event.Event) error {
	if n.fail {
		return io.ErrClosedPipe
	}
	var x event.Node
	if err := e.Decode(&x); err != nil {
		return err
	}
	n.nodes, n.ids[e.ID] = append(n.nodes, x), true
	return nil
}

func (n *notes) Archive(context.Context, string, io.Reader) (event.Object, error) {
	return event.Object{}, nil
}

// TestNodesAreToldWhenTheyChange: once each, at the time of the change, also if telling fails at
// first; a node that is not listed any more is out of nothing.
func TestNodesAreToldWhenTheyChange(t *testing.T) {
	t.Parallel()
	t0 := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	n, out := connectors.Nodes{}, &notes{ids: map[string]bool{}}
	poll := func(minute int, states ...string) {
		t.Helper()
		var listed []event.Node
		for i, s := range states {
			x := event.Node{Cluster: "c", Name: fmt.Sprint("n", i), State: s}
			if s == event.NodeDrained { // the scheduler says since when
				x.At = t0.Add(90 * time.Second)
			}
			if s != "" {
				listed = append(listed, x)
			}
		}
		_ = n.Tell(t.Context(), out, "src")
		n.Poll(t0.Add(time.Duration(minute)*time.Minute), listed)
		b, err := json.Marshal(n) // as a cursor does
		if err != nil {
			t.Fatal(err)
		}
		n = connectors.Nodes{}
		if err := json.Unmarshal(b, &n); err != nil {
			t.Fatal(err)
		}
		_ = n.Tell(t.Context(), out, "src")
	}
	up, drained, failed := event.NodeAvailable, event.NodeDrained, event.NodeFailed
	poll(1, up, up)
	poll(2, up, drained)
	poll(3, up, drained)
	out.fail = true
	poll(4, failed, drained)
	out.fail = false
	poll(5, failed, "")
	poll(6, up, "")
	poll(7, up, "")
	var got []string
	for _, x := range out.nodes {
		got = append(got, fmt.Sprint(x.Name, " ", x.State, " ", x.At.Sub(t0), " ", x.Reason))
	}
	want := []string{
		"n0 available 1m0s ", "n1 available 1m0s ", "n1 drained 1m30s ", "n0 failed 4m0s ",
		"n1 available 5m0s not listed any more", "n0 available 6m0s ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(out.ids) != len(want) || len(n) != 1 {
		t.Errorf("%d ids, %d nodes are remembered", len(out.ids), len(n))
	}
}

func TestLargeCursorsArePacked(t *testing.T) {
	t.Parallel()
	for _, size := range []int{3, 20_000} {
		in, out := map[string]string{}, map[string]string{}
		for i := range size {
			in[fmt.Sprint("pod-", i)] = "a rather long text that says the same each time"
		}
		cur, err := connectors.Pack(in)
		if err != nil || !json.Valid(cur) || len(cur) > 900_000 {
			t.Fatalf("%d bytes, %v", len(cur), err)
		}
		again, _ := connectors.Pack(in)
		if err := connectors.Unpack(cur, &out); err != nil || !cmp.Equal(in, out) || string(cur) != string(again) {
			t.Errorf("%d entries do not come back: %v", size, err)
		}
	}
	for _, broken := range []string{`{`, `{"gzip":"AAAA"}`, `[1]`} {
		if err := connectors.Unpack(connectors.Cursor(broken), &map[string]string{}); !connectors.IsPermanent(err) {
			t.Errorf("%s: %v", broken, err)
		}
	}
}
