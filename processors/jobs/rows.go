package jobs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

const insertJobs = `INSERT INTO idlewatt_store.job_events (Event, Type, At, Scheduler, Cluster, JobId, ArrayTask, Attempt,
	Name, User, Project, Team, Environment, Labels, Nodes, Gpus, GpuCount, Namespace, Pods, Start, End, Checkpoint,
	Outcome, AcceptedUnits, UnitName, Evidence, ReceivedAt)`

const insertInstances = `INSERT INTO idlewatt_store.instances (ResourceId, Kind, Source, Name, Provider, Account, Region,
	Zone, InstanceType, System, GpuModel, GpuCount, Hosts, Gpus, PricingModel, Rate, Currency, Tags, SeenFrom, SeenTo,
	StartedAfter, EndedBefore, Step, Evidence, Event, ReceivedAt)`

// jobRow checks a fact about a job and makes its row. A fact's own time fills in the moment
// that its type is about.
func jobRow(d runtime.Delivered, j event.Job, known time.Time) ([]any, error) {
	switch d.Type {
	case event.TypeJobStarted:
		j.Start = orTime(j.Start, d.Time)
	case event.TypeJobFinished:
		j.End = orTime(j.End, d.Time)
	case event.TypeJobCheckpointed:
		j.Checkpoint = orTime(j.Checkpoint, d.Time)
	}
	j.Outcome = strings.ToUpper(strings.TrimSpace(j.Outcome))
	if j.Evidence == "" {
		j.Evidence = event.EvidenceDeclared
	}
	if err := checkJob(d, j); err != nil {
		return nil, fmt.Errorf("checking %s: %w", d.Type, err)
	}
	return []any{
		d.ID, d.Type, d.Time, j.Scheduler, j.Cluster, j.ID, j.ArrayTask, uint16(j.Attempt), //nolint:gosec // checked
		j.Name, j.User, opt(j.Project), opt(j.Team), opt(j.Environment), labels(j.Labels), list(j.Nodes), list(j.GPUs),
		uint32(j.GPUCount), j.Namespace, list(j.Pods), j.Start, j.End, j.Checkpoint, //nolint:gosec // checked
		j.Outcome, j.AcceptedUnits, j.UnitName, j.Evidence, known,
	}, nil
}

func checkJob(d runtime.Delivered, j event.Job) error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(j.Scheduler == "", "scheduler is required")
	bad(j.ID == "", "id is required")
	bad(j.Attempt < 0 || j.Attempt > 65535, "attempt %d is not between 0 and 65535", j.Attempt)
	bad(j.GPUCount < 0 || j.GPUCount > 1_000_000, "gpu_count %d is not between 0 and 1,000,000", j.GPUCount)
	bad(!oneOf(j.Evidence, event.EvidenceScheduler, event.EvidenceCloud, event.EvidenceDeclared),
		"x_Evidence %q is none of scheduler, cloud, declared", j.Evidence)
	bad(!oneOf(j.Outcome, "", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY"),
		"outcome %q is none of Slurm's words", j.Outcome)
	bad(j.Start != nil && j.End != nil && j.End.Before(*j.Start), "end %v is before start %v", j.End, j.Start)
	bad(!storable(&d.Time), "time %v is not storable", d.Time)
	for name, t := range map[string]*time.Time{"start": j.Start, "end": j.End, "checkpoint": j.Checkpoint} {
		bad(!storable(t), "%s %v is not storable", name, t)
	}
	if j.AcceptedUnits != nil {
		if err := money.Check(*j.AcceptedUnits); err != nil {
			errs = append(errs, fmt.Errorf("accepted_units: %w", err))
		}
	}
	return errors.Join(errs...)
}

// storable reports whether a time fits the store's columns; no time does.
func storable(t *time.Time) bool {
	return t == nil || t.Year() >= 1970 && t.Year() < 2200
}

func orTime(t *time.Time, at time.Time) *time.Time {
	if t == nil && !at.IsZero() {
		return &at
	}
	return t
}

func oneOf(s string, words ...string) bool {
	for _, w := range words {
		if s == w {
			return true
		}
	}
	return false
}

func opt(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func labels(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
