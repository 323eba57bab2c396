package slurm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// maxFile bounds a saved answer.
const maxFile = 1 << 30

// sniff knows an answer with jobs or nodes by fields of its first record: what says that it is
// Slurm's may stand at the end.
func sniff(head []byte) bool {
	has := func(field string) bool { return bytes.Contains(head, []byte(`"`+field+`"`)) }
	return bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")) &&
		(has("jobs") && has("allocation_nodes") && has("derived_exit_code") || has("nodes") && has("slurmd_start_time"))
}

// decodeFile reads a saved `sacct --json`, with or without --duplicates, or a saved
// `scontrol show nodes --json`. What it says of a job counts as of the job's own times, so
// that an old file never overrules what was seen later. Nodes are as of --at, or of now.
func decodeFile(ctx context.Context, f connectors.File, emit connectors.Emitter) error {
	text, err := io.ReadAll(io.LimitReader(f.Body, maxFile+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.Name, err)
	}
	if len(text) > maxFile {
		return fmt.Errorf("reading %s: over %d bytes: save shorter times with sacct --starttime and --endtime", f.Name, maxFile)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("%s: no answer of sacct --json: %w", f.Name, err)
	}
	if err := a.refusal(); err != nil && len(a.Jobs)+len(a.Nodes) == 0 {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	if err := decodeJobs(ctx, f, a, emit); err != nil {
		return err
	}
	at := f.At
	if at.IsZero() {
		at = f.Now
	}
	var listed []event.Node
	for i, raw := range a.Nodes {
		n, err := readNode(raw, a.Meta.Slurm.Cluster)
		if errors.Is(err, errNoGPUNode) {
			continue
		}
		if err != nil {
			if err := f.Bad(ctx, raw, fmt.Errorf("%s, nodes[%d]: %w", f.Name, i, err)); err != nil {
				return err
			}
			continue
		}
		listed = append(listed, n)
	}
	nodes := connectors.Nodes{}
	nodes.Poll(at, listed)
	return nodes.Tell(ctx, emit, f.Source)
}

func decodeJobs(ctx context.Context, f connectors.File, a answer, emit connectors.Emitter) error {
	var found []attempt
	for i, raw := range a.Jobs {
		x, err := read(raw, a.Meta.Slurm.Cluster, defaults().Naming, time.Unix(maxUnix, 0))
		if errors.Is(err, errNoGPUs) {
			continue
		}
		if err != nil {
			if err := f.Bad(ctx, raw, fmt.Errorf("%s, jobs[%d]: %w", f.Name, i, err)); err != nil {
				return err
			}
			continue
		}
		found = append(found, x)
	}
	m := memory{Told: map[string]*told{}}
	m.number(found)
	for _, x := range found {
		at := x.start
		if x.finished {
			at = x.end
		}
		if err := m.tell(ctx, emit, f.Source, x, at); err != nil {
			return err
		}
	}
	return nil
}
