package slurm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
)

// Doctor asks for nodes, for the jobs of the last day and for what slurmctld knows, and says
// what keeps their GPUs from being seen.
func (c *connector) Doctor(ctx context.Context) []connectors.Finding {
	nodes, ok := c.doctorNodes(ctx)
	if !ok {
		return []connectors.Finding{nodes}
	}
	out := []connectors.Finding{nodes}
	now := c.now()
	a, err := c.slurm.jobs(ctx, now.Add(-24*time.Hour), now)
	if err != nil {
		return append(out, connectors.Finding{
			Level: connectors.Fail, What: "jobs of accounting", Said: err.Error(),
			Fix: "see that slurmdbd runs and that the user may see all jobs: with PrivateData=jobs it needs AdminLevel=Operator",
		})
	}
	running, withGPUs := map[string]bool{}, 0
	for _, raw := range a.Jobs {
		x, err := read(raw, c.cfg.Cluster, c.cfg.Naming, now)
		if err == nil {
			withGPUs++
		}
		if err == nil && x.held && now.Sub(x.start) > time.Hour {
			running[x.raw] = true
		}
	}
	f := connectors.Finding{Level: connectors.OK, What: "jobs of accounting", Said: fmt.Sprintf("%d records in 24 h, %d with GPUs", len(a.Jobs), withGPUs)}
	switch {
	case len(a.Jobs) == 0:
		f.Level, f.Fix = connectors.Warn, "nothing ran, or the user sees only its own jobs (PrivateData=jobs): give it AdminLevel=Operator"
	case withGPUs == 0:
		f.Level, f.Fix = connectors.Warn, "if jobs do use GPUs: set AccountingStorageTRES=gres/gpu in slurm.conf; without it no record says so"
	}
	return append(append(out, f), c.doctorRunaways(ctx, running))
}

func (c *connector) doctorNodes(ctx context.Context) (f connectors.Finding, ok bool) {
	f = connectors.Finding{Level: connectors.OK, What: "nodes of slurmctld"}
	a, err := c.slurm.nodes(ctx)
	if err != nil {
		f.Level, f.Said = connectors.Fail, err.Error()
		f.Fix = "see that slurmrestd answers at url and that the token of user is valid: scontrol token username=USER lifespan=SECONDS"
		if c.cfg.Command {
			f.Fix = "run idlewatt on a host with Slurm's commands and a slurm.conf, as a user that may see all jobs"
		}
		return f, false
	}
	gpus, out := 0, 0
	for _, raw := range a.Nodes {
		n, err := readNode(raw, c.cfg.Cluster)
		if err == nil {
			gpus++
		}
		if err == nil && n.State != event.NodeAvailable {
			out++
		}
	}
	f.Said = fmt.Sprintf("%d nodes, %d with GPUs, %d of these out of use", len(a.Nodes), gpus, out)
	if gpus == 0 {
		f.Level, f.Fix = connectors.Warn, "no node has a GRES named gpu: see GresTypes and Gres in slurm.conf"
	}
	return f, true
}

// doctorRunaways compares accounting with slurmctld. A job that only accounting takes for
// running would hold its GPUs for ever.
func (c *connector) doctorRunaways(ctx context.Context, running map[string]bool) connectors.Finding {
	f := connectors.Finding{Level: connectors.OK, What: "jobs of slurmctld"}
	a, err := c.slurm.running(ctx)
	if err != nil {
		f.Level, f.Said, f.Fix = connectors.Warn, err.Error(), "only gres_map and this check need it: let the user see jobs of slurmctld"
		return f
	}
	for _, raw := range a.Jobs {
		var j held
		if json.Unmarshal(raw, &j) == nil && j.JobID.set {
			delete(running, fmt.Sprint(j.JobID.value))
		}
	}
	f.Said = fmt.Sprintf("%d jobs", len(a.Jobs))
	if len(running) > 0 {
		f.Level = connectors.Warn
		f.Said += fmt.Sprintf("; %d run by accounting alone", len(running))
		f.Fix = "sacctmgr show runawayjobs lists and ends them; until then they hold GPUs that they do not have. If it lists none, the user does not see all jobs"
	}
	return f
}
