package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
)

// answer is what slurmrestd, sacct and scontrol print, of any data parser. Only the fields
// that are named here are read: scripts, environments and command lines stay where they are.
type answer struct {
	Jobs  []json.RawMessage `json:"jobs"`
	Nodes []json.RawMessage `json:"nodes"`
	Meta  struct {
		Slurm struct {
			Cluster string `json:"cluster"`
		} `json:"slurm"`
	} `json:"meta"`
	Errors []struct {
		Error       string `json:"error"`
		Description string `json:"description"`
	} `json:"errors"`
}

// refusal is the first error that an answer states, if any.
func (a answer) refusal() error {
	for _, e := range a.Errors {
		if said := strings.TrimSpace(e.Error + " " + e.Description); said != "" {
			return fmt.Errorf("slurm says: %.300s", said)
		}
	}
	return nil
}

// record is one job's record in the accounting database.
type record struct {
	JobID number `json:"job_id"`
	Array struct {
		JobID  number `json:"job_id"`
		TaskID number `json:"task_id"`
	} `json:"array"`
	Cluster string `json:"cluster"`
	Name    string `json:"name"`
	User    string `json:"user"`
	Account string `json:"account"`
	WCKey   struct {
		WCKey string `json:"wckey"`
	} `json:"wckey"`
	Partition   string `json:"partition"`
	QOS         string `json:"qos"`
	Reservation struct {
		Name string `json:"name"`
	} `json:"reservation"`
	Comment struct {
		Administrator string `json:"administrator"`
		Job           string `json:"job"`
	} `json:"comment"`
	Nodes      string  `json:"nodes"`
	FailedNode string  `json:"failed_node"`
	Restarts   *number `json:"restart_cnt"` // from Slurm 24.11 on
	State      struct {
		Current words `json:"current"`
	} `json:"state"`
	ExitCode struct {
		Code number `json:"return_code"`
	} `json:"exit_code"`
	Time struct {
		Start number `json:"start"`
		End   number `json:"end"`
	} `json:"time"`
	TRES struct {
		Allocated []tres `json:"allocated"`
		Requested []tres `json:"requested"`
	} `json:"tres"`
}

type tres struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Count number `json:"count"`
}

// attempt is a record as far as it matters: one run of a job, with its nodes.
type attempt struct {
	job        event.Job // without attempt
	raw        string    // Slurm's own id of the task
	key        string    // names the record: task and start
	task       string    // names the job's task over its attempts
	restarts   *int      // as Slurm counts them, if it says
	held       bool
	finished   bool
	start, end time.Time
}

// errNoGPUs marks a record that is right and of no interest.
var errNoGPUs = errors.New("a job without GPUs, or that never ran")

// read checks one record. cluster is used where the record names none.
func read(raw json.RawMessage, cluster string, n Naming, now time.Time) (attempt, error) {
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return attempt{}, fmt.Errorf("no job as documented: %w", err)
	}
	if !r.JobID.set || r.JobID.value <= 0 {
		return attempt{}, errors.New("job_id is missing")
	}
	id := strconv.FormatInt(r.JobID.value, 10)
	gpus, whole := gpus(r.TRES.Allocated)
	start := r.Time.Start.time()
	if gpus == 0 || start == nil || start.After(now.Add(time.Minute)) {
		return attempt{}, errNoGPUs
	}
	nodes, err := expand(r.Nodes)
	if err != nil {
		return attempt{}, fmt.Errorf("job %s: %w", id, err)
	}
	a := attempt{raw: id, start: *start, held: r.State.Current.held()}
	outcome, ended := r.State.Current.outcome(r.FailedNode)
	if end := r.Time.End.time(); ended && end != nil {
		if end.Before(*start) {
			return attempt{}, fmt.Errorf("job %s: ended %s before it started %s", id, end.Format(time.RFC3339), start.Format(time.RFC3339))
		}
		a.finished, a.end = true, *end
		a.job.End, a.job.Outcome = end, outcome
		if c := r.ExitCode.Code; c.set {
			code := int(c.value)
			a.job.ExitCode = &code
		}
	}
	if !a.finished && !a.held || a.finished && (len(nodes) == 0 || a.end.Equal(a.start)) {
		return attempt{}, errNoGPUs
	}
	a.job.Start, a.job.Nodes = start, nodes
	if a.job.GPUCount = gpus; !whole {
		a.job.GPUCount, a.job.Nodes = 0, nil
	}
	r.identify(&a, id, cluster)
	r.name(&a.job, n)
	return a, nil
}

// identify fills in which job it is: an array's task is its array's id and the task's number.
func (r record) identify(a *attempt, id, cluster string) {
	j := &a.job
	j.Scheduler, j.Cluster, j.ID, j.Evidence = "slurm", cluster, id, event.EvidenceScheduler
	if r.Cluster != "" {
		j.Cluster = r.Cluster
	}
	if r.Array.JobID.value > 0 && r.Array.TaskID.set {
		j.ID, j.ArrayTask = strconv.FormatInt(r.Array.JobID.value, 10), strconv.FormatInt(r.Array.TaskID.value, 10)
	}
	if r.Restarts != nil && r.Restarts.set {
		n := int(r.Restarts.value)
		a.restarts = &n
	}
	// A job that changed its size goes on as another record of the same attempt. What it held
	// before is told as a task of its own, so that no GPU is held by a job that gave it back.
	if a.finished && r.State.Current.has("RESIZING") {
		j.ArrayTask = strings.TrimPrefix(j.ArrayTask+"-until-"+strconv.FormatInt(a.end.Unix(), 10), "-")
	}
	a.task = j.Cluster + "/" + id
	a.key = a.task + "@" + strconv.FormatInt(a.start.Unix(), 10)
}

// name fills in whose job it is.
func (r record) name(j *event.Job, n Naming) {
	j.Name, j.User = r.Name, r.User
	// The key of a user's default comes with a star (sacct(1), WCKEY).
	wckey := strings.TrimPrefix(r.WCKey.WCKey, "*")
	at := map[string]string{
		"account": r.Account, "wckey": wckey, "partition": r.Partition, "qos": r.QOS, "reservation": r.Reservation.Name, "name": r.Name, "user": r.User,
	}
	pick := func(first string, places []string) string {
		for _, p := range places {
			if first != "" {
				break
			}
			if key, ok := strings.CutPrefix(p, "comment:"); ok {
				if first = said(r.Comment.Job, key); first == "" {
					first = said(r.Comment.Administrator, key)
				}
				continue
			}
			first = at[p]
		}
		return first
	}
	payer := n.Accounts[r.Account]
	j.Project, j.Team, j.Environment = pick(payer.Project, n.Project), pick(payer.Team, n.Team), pick(payer.Environment, n.Environment)
	j.Labels = map[string]string{"slurm_job_id": strconv.FormatInt(r.JobID.value, 10)}
	for _, p := range []string{"account", "wckey", "partition", "qos", "reservation"} {
		if at[p] != "" {
			j.Labels[p] = at[p]
		}
	}
}

// said finds KEY=value in a comment; pairs are parted by blanks, commas or semicolons.
func said(comment, key string) string {
	for _, f := range strings.FieldsFunc(comment, func(r rune) bool { return strings.ContainsRune(" ,;\t\n", r) }) {
		if k, v, ok := strings.Cut(f, "="); ok && strings.EqualFold(k, key) {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// migType is the type of a GRES that is a part of a GPU, such as gpu:1g.10gb.
var migType = regexp.MustCompile(`(?i)^gpu:(.*[^0-9])?[1-7]g\.[0-9]+gb`)

// gpus counts a record's GPUs: gres/gpu where it stands, else its types. whole is false where
// the parts are MIG instances or shards: their number says nothing about devices.
func gpus(list []tres) (n int, whole bool) {
	total, typed, parts := int64(0), int64(0), int64(0)
	for _, t := range list {
		if t.Type != "gres" || t.Count.value <= 0 || t.Count.value > 1_000_000 {
			continue
		}
		switch {
		case t.Name == "gpu":
			total += t.Count.value
		case migType.MatchString(t.Name), t.Name == "shard", strings.HasPrefix(t.Name, "shard:"):
			parts += t.Count.value
		case strings.HasPrefix(t.Name, "gpu:"):
			typed += t.Count.value
		}
	}
	return int(max(total, typed, parts)), parts == 0
}
