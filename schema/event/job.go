package event

import (
	"time"

	"github.com/idlewatt/idlewatt/schema/money"
)

// Evidence of a fact about a job. Declared never overrides the other two.
const (
	EvidenceScheduler = "scheduler"
	EvidenceCloud     = "cloud"
	EvidenceDeclared  = "declared"
)

// JobID identifies a job's attempt everywhere.
type JobID struct {
	Scheduler string `json:"scheduler"` // slurm, kubernetes, runpod, vast, local
	Cluster   string `json:"cluster,omitempty"`
	ID        string `json:"id"` // Slurm job id; namespace/name for Kubernetes
	ArrayTask string `json:"array_task,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
}

// Job is the payload of every job.* event: what is known of the attempt at that moment.
// Later events fill in what earlier ones left out.
type Job struct {
	JobID
	Name        string            `json:"name,omitempty"`
	User        string            `json:"user,omitempty"`
	Project     string            `json:"project,omitempty"`
	Team        string            `json:"team,omitempty"`
	Environment string            `json:"environment,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Nodes       []string          `json:"nodes,omitempty"` // host names or resource ids
	GPUs        []string          `json:"gpus,omitempty"`  // GPU UUIDs, if known
	GPUCount    int               `json:"gpu_count,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	Pods        []string          `json:"pods,omitempty"` // Kubernetes pods of this job, without namespace
	Start       *time.Time        `json:"start,omitempty"`
	End         *time.Time        `json:"end,omitempty"`
	Checkpoint  *time.Time        `json:"checkpoint,omitempty"`
	// Outcome is one of Slurm's words: COMPLETED, FAILED, CANCELLED, TIMEOUT, PREEMPTED,
	// NODE_FAIL, OUT_OF_MEMORY.
	Outcome       string         `json:"outcome,omitempty"`
	ExitCode      *int           `json:"exit_code,omitempty"`
	AcceptedUnits *money.Decimal `json:"accepted_units,omitempty"`
	UnitName      string         `json:"unit_name,omitempty"`
	Evidence      string         `json:"x_Evidence,omitempty"`
}
