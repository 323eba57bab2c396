package utilize

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"
)

// derivation is the version of the rules in this package: a change that alters rows raises
// it, and every day is derived again.
const derivation = 2

// dayHash is what a card's samples of one day hash to: its first hour, its last one, and what
// lies between, so that the margins of the days beside it can be told.
type dayHash struct {
	first, middle, last uint64
	models, nodes       string
	targets             []string
}

type committed struct {
	print     uint64
	instances []string
}

// inputs is everything that a window of days is derived from, besides the samples themselves.
type inputs struct {
	policy    Policy
	hashes    map[cardDay]dayHash
	committed map[cardDay]committed
	intervals map[targetDay]int64
	likes     likeDays
	jobs      []Job
	machines  []Machine
	horizon   time.Time            // before it samples may be gone
	failed    map[cardDay][]string // instances that a fault took out of use before the day
	index     *Jobs
	onNode    map[nodeDay]map[string]bool
	static    string // policy and version, as text
}

type (
	targetDay struct {
		target string
		day    time.Time
	}
	nodeDay struct {
		node string
		day  time.Time
	}
)

// inputs reads everything that the given days, which are in order, are compared by.
func (p *Processor) inputs(ctx context.Context, days []time.Time) (*inputs, error) {
	from, to := days[0].Add(-oneDay), days[len(days)-1].Add(2*oneDay)
	in := &inputs{policy: p.Policy, likes: p.likes, onNode: map[nodeDay]map[string]bool{}}
	var err error
	if in.hashes, err = p.readHashes(ctx, from, to); err != nil {
		return nil, fmt.Errorf("comparing samples: %w", err)
	}
	if in.committed, err = p.readCommits(ctx, from, to); err != nil {
		return nil, fmt.Errorf("reading commits: %w", err)
	}
	if in.intervals, err = p.readIntervals(ctx, from, to); err != nil {
		return nil, fmt.Errorf("reading scrape intervals: %w", err)
	}
	if err = p.readLikes(ctx, days); err != nil {
		return nil, fmt.Errorf("reading the fleet's power: %w", err)
	}
	if in.jobs, err = p.readJobs(ctx, from, to); err != nil {
		return nil, fmt.Errorf("reading jobs: %w", err)
	}
	if in.machines, err = p.readMachines(ctx, from, to); err != nil {
		return nil, fmt.Errorf("reading machines: %w", err)
	}
	if in.horizon, err = p.horizon(ctx); err != nil {
		return nil, err
	}
	if in.failed, err = p.readFailed(ctx, days); err != nil {
		return nil, fmt.Errorf("reading faults: %w", err)
	}
	for k, h := range in.hashes {
		for _, n := range strings.Split(h.nodes, "\x00") {
			d := nodeDay{strings.ToLower(n), k.day}
			if in.onNode[d] == nil {
				in.onNode[d] = map[string]bool{}
			}
			in.onNode[d][k.uuid] = true
		}
	}
	in.index = NewJobs(in.jobs, in.machines)
	static, err := json.Marshal([]any{derivation, in.policy})
	in.static = string(static)
	return in, err
}

// due is what of one day has to be derived, with its new fingerprints.
type due struct {
	cards   map[string]uint64
	checked int
}

// due compares a day's fingerprints. A day counts for a card if it has samples there, had
// rows, or may be reached by the last sample of the day before. What was derived stands once
// its samples may be gone.
func (in *inputs) due(day time.Time) due {
	out := due{cards: map[string]uint64{}}
	cards := map[string]bool{}
	for k, h := range in.hashes {
		if k.day.Equal(day) || k.day.Equal(day.Add(-oneDay)) && h.last != 0 {
			cards[k.uuid] = true
		}
	}
	for k := range in.committed {
		if k.day.Equal(day) {
			cards[k.uuid] = true
		}
	}
	jobs := in.jobPrint(day)
	for uuid := range cards {
		if _, ok := in.committed[cardDay{uuid, day}]; ok && day.Before(in.horizon) {
			continue
		}
		out.checked++
		now := in.fingerprint(cardDay{uuid, day}, jobs)
		if c, ok := in.committed[cardDay{uuid, day}]; !ok || c.print != now {
			out.cards[uuid] = now
		}
	}
	return out
}

// fingerprint says from which inputs a card's rows of a day come.
func (in *inputs) fingerprint(k cardDay, jobs uint64) uint64 {
	h := fnv.New64a()
	own := in.hashes[k]
	before, after := in.hashes[cardDay{k.uuid, k.day.Add(-oneDay)}], in.hashes[cardDay{k.uuid, k.day.Add(oneDay)}]
	fmt.Fprintln(h, in.static, jobs, before.last, own.first, own.middle, own.last, after.first, in.failed[k])
	for _, model := range strings.Split(own.models+"\x00"+before.models, "\x00") {
		fmt.Fprintln(h, in.likes.like(model, k.day))
	}
	for _, d := range []dayHash{before, own, after} {
		for _, t := range d.targets {
			fmt.Fprintln(h, t, in.intervals[targetDay{t, k.day.Add(-oneDay)}], in.intervals[targetDay{t, k.day}], in.intervals[targetDay{t, k.day.Add(oneDay)}])
		}
	}
	for _, n := range strings.Split(own.nodes+"\x00"+before.nodes, "\x00") {
		fmt.Fprintln(h, n, in.gpusOnNode(n, k.day))
		if j := in.index.lastEnded(n, k.uuid, k.day.Add(-margin).UnixMilli()); j != nil {
			fmt.Fprintln(h, j.key(), j.End)
		}
	}
	return max(1, h.Sum64())
}

// jobPrint hashes all jobs and machines that touch a day and its margins.
func (in *inputs) jobPrint(day time.Time) uint64 {
	h := fnv.New64a()
	from, to := day.Add(-margin).UnixMilli(), day.Add(oneDay+margin).UnixMilli()
	for i := range in.jobs {
		j := &in.jobs[i]
		if start, end := j.span(); start < to && end >= from {
			text, _ := json.Marshal(j)
			h.Write(text)
		}
	}
	fmt.Fprintln(h, machinePrint(in.machines, day))
	return h.Sum64()
}

func (in *inputs) gpusOnNode(node string, day time.Time) int {
	return len(in.onNode[nodeDay{strings.ToLower(node), day}])
}

// world is what one day is judged by.
func (in *inputs) world(day time.Time) World {
	return World{
		Policy: in.policy, Jobs: in.index,
		Failed: func(uuid, instance string) bool { return slices.Contains(in.failed[cardDay{uuid, day}], instance) },
		Like:   remember(func(model string) Like { return in.likes.like(model, day) }),
		GPUsOnNode: remember(func(node string) int {
			return max(in.gpusOnNode(node, day), in.gpusOnNode(node, day.Add(-oneDay)))
		}),
	}
}

// remember asks once per key; it is for one goroutine.
func remember[V any](ask func(string) V) func(string) V {
	known := map[string]V{}
	return func(key string) V {
		v, ok := known[key]
		if !ok {
			v = ask(key)
			known[key] = v
		}
		return v
	}
}

// interval is how often a target was scraped on the day of a sample, in milliseconds.
func (in *inputs) interval(target string, at int64) int64 {
	return in.intervals[targetDay{target, startOfDay(time.UnixMilli(at))}]
}

// likeDays is what each day shows of each model.
type likeDays map[time.Time]map[string]Like

// likeWindow is how many days teach a model's idle floor.
const likeWindow = 30

func (l likeDays) forget(days map[time.Time]bool) {
	for d := range days {
		delete(l, d)
	}
}

// like is the lowest idle and the highest power of a model in the 30 days up to a day,
// rounded, so that a new extreme does not change every day's fingerprint.
func (l likeDays) like(model string, day time.Time) Like {
	var out Like
	for i := range likeWindow {
		k, ok := l[day.Add(-time.Duration(i)*oneDay)][model]
		if !ok {
			continue
		}
		if k.FloorW > 0 && (out.FloorW == 0 || k.FloorW < out.FloorW) {
			out.FloorW = k.FloorW
		}
		out.CeilingW = max(out.CeilingW, k.CeilingW)
	}
	return Like{FloorW: math.Ceil(out.FloorW/5) * 5, CeilingW: math.Floor(out.CeilingW/50) * 50}
}
