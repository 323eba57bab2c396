package utilize

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
)

// Job is one attempt of a job, folded from all its events.
type Job struct {
	event.JobID
	Project, Team, Environment *string
	Nodes, GPUs, Pods          []string
	Namespace                  string
	Raw                        string // Slurm's own id of an array's task, which is what a GPU's label says
	GPUCount                   int
	Start, End                 time.Time // zero: not known, or not yet
	Declared                   bool      // nobody but the user says so
}

// open is the end of a job that has none.
const open = math.MaxInt64

func (j *Job) span() (start, end int64) {
	start, end = math.MinInt64, open
	if !j.Start.IsZero() {
		start = j.Start.UnixMilli()
	}
	if !j.End.IsZero() {
		end = j.End.UnixMilli()
	}
	return start, end
}

func (j *Job) active(at int64) bool {
	start, end := j.span()
	return start <= at && at < end
}

// Jobs finds jobs by what they hold.
type Jobs struct {
	byNode map[string][]*Job
	byGPU  map[string][]*Job
	byName map[string][]*Job // label owner: pod:namespace/name or slurm:id
	byHost map[string][]*Machine
	hosts  map[string]host // the last answer of hostAt for each
}

// NewJobs indexes jobs, and the machines that they may name: jobs and telemetry may use
// different names of one.
func NewJobs(jobs []Job, machines []Machine) *Jobs {
	x := &Jobs{
		byNode: map[string][]*Job{}, byGPU: map[string][]*Job{}, byName: map[string][]*Job{}, byHost: map[string][]*Machine{}, hosts: map[string]host{},
	}
	for i := range machines {
		for _, n := range machines[i].Names {
			x.byHost[n] = append(x.byHost[n], &machines[i])
		}
	}
	sorted := slices.Clone(jobs)
	slices.SortFunc(sorted, func(a, b Job) int {
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.key(), b.key()))
	})
	for i := range sorted {
		j := &sorted[i]
		for _, n := range j.Nodes {
			n = strings.ToLower(n)
			x.byNode[n] = append(x.byNode[n], j)
		}
		for _, g := range j.GPUs {
			x.byGPU[g] = append(x.byGPU[g], j)
		}
		for _, name := range j.ownerNames() {
			x.byName[name] = append(x.byName[name], j)
		}
	}
	return x
}

func (j *Job) key() string {
	return strings.Join([]string{j.Scheduler, j.Cluster, j.ID, j.ArrayTask, string(rune('0' + j.Attempt))}, "\x00")
}

// ownerNames are the labels under which a scrape may name this job.
func (j *Job) ownerNames() []string {
	var out []string
	for _, p := range j.Pods {
		out = append(out, "pod:"+j.Namespace+"/"+p)
	}
	switch j.Scheduler {
	case "kubernetes":
		out = append(out, "pod:"+j.ID)
	case "slurm":
		// The array's id is the label of its last task alone, where that is known.
		out = append(out, "slurm:"+cmp.Or(j.Raw, j.ID))
		if j.ArrayTask != "" {
			out = append(out, "slurm:"+j.ID+"_"+j.ArrayTask)
		}
	default:
		out = append(out, "slurm:"+j.ID)
		if j.ArrayTask != "" {
			out = append(out, "slurm:"+j.ID+"_"+j.ArrayTask)
		}
	}
	return out
}

// owner is how the job is named as an owner.
func (j *Job) owner() (kind, name string) {
	if j.Scheduler == "kubernetes" {
		return "pod", j.ID
	}
	if j.ArrayTask != "" {
		return j.Scheduler, j.ID + "_" + j.ArrayTask
	}
	return j.Scheduler, j.ID
}

// named finds the attempt that a label speaks of. ended is true if the scheduler says that
// every attempt of it is over: the label is then left behind.
func (x *Jobs) named(kind, name string, at, grace int64) (job *Job, ended bool) {
	over := true
	var found *Job
	for _, j := range x.byName[kind+":"+name] {
		if j.active(at) {
			job = j // the latest start wins
		}
		_, end := j.span()
		if j.Declared || at < end+grace {
			over = false
		}
		found = j
	}
	if job != nil {
		return job, false
	}
	if found == nil {
		return nil, false
	}
	return nil, over
}

// claims are the jobs that hold a device by the scheduler's record. partial is true if a job
// holds some of the node's GPUs and the record does not say which.
func (x *Jobs) claims(node, uuid string, at int64, onNode int) (held []*Job, partial bool) {
	for _, j := range x.byGPU[uuid] {
		if j.active(at) && !j.Start.IsZero() {
			held = append(held, j)
		}
	}
	if len(held) > 0 {
		return held, false
	}
	var whole *Job
	for _, j := range x.onNode(node, at) {
		if !j.active(at) || j.Start.IsZero() || len(j.GPUs) > 0 && x.knowsGPUs(j) {
			continue
		}
		if j.GPUCount == 0 || j.GPUCount >= onNode*len(j.Nodes) {
			if whole == nil || !j.Start.Before(whole.Start) {
				whole = j
			}
			continue
		}
		partial = true
	}
	if whole != nil {
		return []*Job{whole}, false
	}
	return nil, partial
}

// knowsGPUs reports whether the job's record lists all its GPUs.
func (x *Jobs) knowsGPUs(j *Job) bool { return len(j.GPUs) >= j.GPUCount }

// onNode lists jobs on a machine under any of its names at a time, in order of start.
func (x *Jobs) onNode(node string, at int64) []*Job {
	node = strings.ToLower(node)
	if len(x.byHost[node]) == 0 {
		return x.byNode[node]
	}
	var out []*Job
	for _, n := range x.hostAt(node, at).names {
		for _, j := range x.byNode[n] {
			if !slices.Contains(out, j) {
				out = append(out, j)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *Job) int { return a.Start.Compare(b.Start) })
	return out
}

// lastEnded is the job that held the device last and was over at a time.
func (x *Jobs) lastEnded(node, uuid string, at int64) *Job {
	var last *Job
	consider := func(j *Job) {
		_, end := j.span()
		if end > at {
			return
		}
		if last == nil {
			last = j
			return
		}
		if _, before := last.span(); end > before || end == before && j.key() > last.key() {
			last = j
		}
	}
	for _, j := range x.byGPU[uuid] {
		consider(j)
	}
	for _, j := range x.onNode(node, at) {
		if len(j.GPUs) == 0 || !x.knowsGPUs(j) || slices.Contains(j.GPUs, uuid) {
			consider(j)
		}
	}
	return last
}

// edges are the times within (from, to) at which the record says that holding may change.
func (x *Jobs) edges(node, uuid string, from, to int64) []int64 {
	var out []int64
	add := func(j *Job) {
		start, end := j.span()
		for _, t := range []int64{start, end} {
			if t > from && t < to {
				out = append(out, t)
			}
		}
	}
	for _, j := range x.byGPU[uuid] {
		add(j)
	}
	for _, j := range x.onNode(node, from) {
		add(j)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
