package utilize

// hold is one owner's claim on a device at a time; the zero owner is nobody.
type hold struct {
	kind, owner, confidence            string
	job                                *Job
	project, team, environment         string
	hasProject, hasTeam, hasEnviroment bool
	engine                             float64 // the owner's own activity, NaN if not measured
	partial                            bool    // perhaps a job's: it holds some GPUs of this node
	conflict                           bool    // label and scheduler name different owners
}

func nobody() hold { return hold{engine: nan()} }

// id tells owners apart for streaks: attempts of one job are different holders.
func (h hold) id() string {
	id := h.kind + "\x00" + h.owner
	if h.job != nil {
		id += "\x00" + h.job.key()
	}
	return id
}

// holds says who holds the device of a sample: by the scrape's labels where they are
// believed, else by the scheduler's record; nobody if neither says so.
func (w World) holds(uuid string, s *Sample) []hold {
	onNode := w.GPUsOnNode(s.Node)
	claimed, partial := w.Jobs.claims(s.Node, uuid, s.At, onNode)
	if s.Owners != nil {
		if out := w.labelled(s, claimed); len(out) > 0 {
			return out
		}
	}
	if out := w.claimed(claimed); len(out) > 0 {
		return out
	}
	h := nobody()
	if partial {
		h.partial, h.confidence = true, confidenceLow
	}
	return []hold{h}
}

// labelled reads the owners a scrape states. The end of a pod or job by the scheduler's
// record ends its hold: labels stay behind for a while.
func (w World) labelled(s *Sample, claimed []*Job) []hold {
	var out []hold
	for i, name := range s.Owners.Names {
		job, ended := w.Jobs.named(s.Owners.Kind, name, s.At, s.Interval)
		if ended {
			continue
		}
		h := hold{kind: s.Owners.Kind, owner: name, confidence: s.Owners.Confidence, job: job, engine: nan()}
		if i < len(s.OwnerEngines) {
			h.engine = s.OwnerEngines[i]
		}
		if contradicted(job, claimed) {
			h.conflict = true
			h.confidence = lower(h.confidence, confidenceLow)
		}
		h.pay(w.Policy, s.Owners.Labels)
		out = append(out, h)
	}
	return out
}

// contradicted reports whether the scheduler gives the device to others than the label's job.
func contradicted(job *Job, claimed []*Job) bool {
	for _, c := range claimed {
		if c == job {
			return false
		}
	}
	return len(claimed) > 0
}

func (w World) claimed(jobs []*Job) []hold {
	var out []hold
	for _, j := range jobs {
		h := hold{confidence: confidenceHigh, job: j, engine: nan()}
		if j.Declared {
			h.confidence = confidenceLow
		}
		h.kind, h.owner = j.owner()
		h.pay(w.Policy, nil)
		out = append(out, h)
	}
	return out
}

// pay fills in who pays: the job's record first, then the pod's labels.
func (h *hold) pay(p Policy, labels map[string]string) {
	pick := func(record *string, names []string) (string, bool) {
		if record != nil && *record != "" {
			return *record, true
		}
		for _, n := range names {
			if v := labels[n]; v != "" {
				return v, true
			}
		}
		return "", false
	}
	var project, team, environment *string
	if h.job != nil {
		project, team, environment = h.job.Project, h.job.Team, h.job.Environment
	}
	h.project, h.hasProject = pick(project, p.ProjectLabels)
	h.team, h.hasTeam = pick(team, p.TeamLabels)
	h.environment, h.hasEnviroment = pick(environment, p.EnvironmentLabels)
}
