package demo

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/event"
)

// writeEvents writes what the schedulers and the cloud said: jobs and instances.
func writeEvents(path string) error {
	var all []event.Event
	var errs []error
	put := func(typ, source, key, version string, at time.Time, payload any) {
		e, err := event.New(typ, source, key, version, at, payload)
		all, errs = append(all, e), append(errs, err)
	}
	machines := fleet()
	for i := range machines {
		m := &machines[i]
		put(event.TypeInventoryInstance, "aws/"+m.account, m.id, "1", m.runs[0].start(), instance(m))
	}
	for _, w := range append(slurmJobs(), sweepJobs(machines)...) {
		slurmEvents(w, put)
	}
	servingEvents(put)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return writeLines(path, all)
}

func writeLines(path string, all []event.Event) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("creating events: %w", err)
	}
	w := bufio.NewWriter(f)
	var errs []error
	for _, e := range all {
		text, err := e.JSON()
		errs = append(errs, err)
		w.Write(append(text, '\n')) //nolint:errcheck // Flush reports it
	}
	if err := errors.Join(append(errs, w.Flush(), f.Close())...); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// instance is the machine as DescribeInstances would have shown it.
func instance(m *machine) event.Instance {
	count := decimal.NewFromInt(int64(m.shape.gpus))
	rate := m.shape.price
	switch m.pricing {
	case savingsPlan:
		rate = m.shape.planRate
	case spot:
		rate = spotRate(m.shape, m.runs[0].from/3600)
	}
	price := rate.decimal()
	last := m.runs[len(m.runs)-1].end()
	i := event.Instance{
		ResourceID: m.id, Provider: "aws", Account: m.account, Region: region, InstanceType: m.shape.name,
		Hosts: []string{m.host, m.host + ".northlight.internal"}, PricingModel: m.pricing, Rate: &price, Currency: currency,
		Tags: map[string]string{}, SeenFrom: m.runs[0].start(), SeenTo: &last,
	}
	if m.shape.gpus > 0 {
		i.GPUCount = &count
		i.GPUModel = map[bool]string{true: "H100", false: "L4"}[m.shape.gpus == 8]
	}
	for g := range m.shape.gpus {
		i.GPUs = append(i.GPUs, gpuUUID(m.host, g))
	}
	for _, t := range m.holder(m.id).tags {
		i.Tags[t.key[len("user_"):]] = t.value
	}
	return i
}

type putter func(typ, source, key, version string, at time.Time, payload any)

func slurmEvents(w work, put putter) {
	source := "slurm/" + slurmCluster
	key := w.id + "/" + strconv.Itoa(w.attempt)
	id := event.JobID{Scheduler: "slurm", Cluster: slurmCluster, ID: w.id, Attempt: w.attempt}
	put(event.TypeJobStarted, source, key, "started", w.from, event.Job{
		JobID: id, Name: w.name, User: w.user, Project: w.project, Team: w.team, Nodes: []string{w.node},
		GPUCount: len(w.gpus), Start: &w.from, Evidence: event.EvidenceScheduler,
	})
	placed := event.Job{JobID: id, Nodes: []string{w.node}, GPUCount: len(w.gpus), Start: &w.from, Evidence: event.EvidenceScheduler}
	for _, g := range w.gpus {
		placed.GPUs = append(placed.GPUs, gpuUUID(w.node, g))
	}
	put(event.TypeJobPlaced, source, key, "placed", w.from.Add(20*time.Second), placed)
	if !w.checkpoint.IsZero() {
		put(event.TypeJobCheckpointed, source, key, "checkpoint", w.checkpoint, event.Job{
			JobID: id, Checkpoint: &w.checkpoint, Evidence: event.EvidenceScheduler,
		})
	}
	code := 0
	if w.outcome != "COMPLETED" {
		code = 1
	}
	done := event.Job{JobID: id, End: &w.to, Outcome: w.outcome, ExitCode: &code, Evidence: event.EvidenceScheduler}
	if w.units > 0 {
		n := decimal.NewFromInt(w.units)
		done.AcceptedUnits, done.UnitName = &n, w.unit
	}
	put(event.TypeJobFinished, source, key, "finished", w.to, done)
}

// servingEvents states the pods of the serving cluster, one job per application. They ran
// through the month and were rolled at its end.
func servingEvents(put putter) {
	source := "kubernetes/" + eksCluster
	byApp := map[string]*event.Job{}
	var order []string
	start, end := monthStart, monthEnd
	for _, s := range append(servingPods(), canary()) {
		key := s.namespace + "/" + s.app
		j := byApp[key]
		if j == nil {
			j = &event.Job{
				JobID: event.JobID{Scheduler: "kubernetes", Cluster: eksCluster, ID: key}, Name: s.app, Project: s.project, Team: s.team,
				Namespace: s.namespace, Start: &start, Labels: map[string]string{"app": s.app}, Evidence: event.EvidenceScheduler,
			}
			byApp[key] = j
			order = append(order, key)
		}
		if len(j.Nodes) == 0 || j.Nodes[len(j.Nodes)-1] != s.node {
			j.Nodes = append(j.Nodes, s.node)
		}
		j.Pods = append(j.Pods, s.pod)
		j.GPUCount += len(s.gpus)
		for _, g := range s.gpus {
			j.GPUs = append(j.GPUs, gpuUUID(s.node, g))
		}
	}
	for _, key := range order {
		j := byApp[key]
		put(event.TypeJobStarted, source, key, "started", start, j)
		put(event.TypeJobFinished, source, key, "finished", end, event.Job{
			JobID: j.JobID, End: &end, Outcome: "COMPLETED", Evidence: event.EvidenceScheduler,
		})
	}
}
