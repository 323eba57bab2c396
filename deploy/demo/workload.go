package demo

import (
	"fmt"
	"time"
)

const (
	slurmCluster = "hpc-use2"
	eksCluster   = "serve-use2"
	weekendJob   = "48213"
)

// work is one attempt of one job as its scheduler knows it.
type work struct {
	id, name, user string
	attempt        int
	project, team  string
	node           string
	gpus           []int // indexes on the node
	from, to       time.Time
	checkpoint     time.Time // zero: none
	outcome        string
	units          int64 // accepted
	unit           string
}

func eight() []int { return []int{0, 1, 2, 3, 4, 5, 6, 7} }

// slurmJobs returns the training nodes' jobs of the month. On trn-07 the pretraining run
// fails on Friday evening; nobody sees it before Monday.
func slurmJobs() []work {
	train := func(id, name, node string, from, to time.Time, outcome string, units int64) work {
		return work{id: id, name: name, user: "mara", project: projectTrain, team: "pretrain", node: node, gpus: eight(),
			from: from, to: to, checkpoint: to.Add(-50 * time.Minute), outcome: outcome, units: units, unit: "tokens"}
	}
	vision := func(id, name, user string, gpus []int, from, to time.Time, outcome string, units int64) work {
		return work{id: id, name: name, user: user, project: projectVision, team: "perception", node: "trn-09", gpus: gpus,
			from: from, to: to, checkpoint: to.Add(-25 * time.Minute), outcome: outcome, units: units, unit: "images"}
	}
	failed := train(weekendJob, "llm-pretrain-s2", "trn-07", october(12, 7, 30), october(16, 16, 4).Add(40*time.Second), "FAILED", 0)
	failed.checkpoint = october(16, 14, 10)
	retry := train(weekendJob, "llm-pretrain-s2", "trn-07", weekendEnd, october(28, 19, 20), "COMPLETED", 412_000_000_000)
	retry.attempt = 1
	lo, hi := []int{0, 1, 2, 3}, []int{4, 5, 6, 7}
	return []work{
		train("48010", "llm-pretrain-s1", "trn-07", october(1, 6, 10), october(12, 5, 55), "COMPLETED", 398_500_000_000),
		failed, retry,
		train("48390", "llm-eval-final", "trn-07", october(28, 20, 0), october(31, 22, 40), "COMPLETED", 96_000_000_000),
		train("48012", "llm-sft-a", "trn-08", october(1, 6, 30), october(13, 9, 15), "COMPLETED", 51_200_000_000),
		train("48190", "llm-sft-b", "trn-08", october(13, 10, 0), october(20, 15, 30), "COMPLETED", 40_400_000_000),
		train("48301", "llm-sft-c", "trn-08", october(20, 16, 5), october(31, 23, 10), "TIMEOUT", 0),
		train("48377", "llm-launch-check", "trn-06", october(27, 12, 20), october(29, 11, 40), "COMPLETED", 8_100_000_000),
		vision("48020", "seg-backbone", "ivo", eight(), october(1, 7, 0), october(6, 7, 50), "NODE_FAIL", 0),
		vision("48101", "seg-backbone", "ivo", eight(), october(6, 20, 30), october(14, 22, 0), "COMPLETED", 210_400_000),
		vision("48231", "seg-head-a", "ivo", lo, october(14, 23, 10), october(17, 21, 40), "COMPLETED", 18_300_000),
		vision("48232", "depth-tune", "lena", hi, october(14, 23, 15), october(16, 20, 5), "CANCELLED", 0),
		vision("48240", "seg-head-b", "ivo", eight(), october(18, 5, 15), october(22, 13, 0), "COMPLETED", 64_900_000),
		vision("48333", "depth-final", "lena", eight(), october(22, 14, 30), october(31, 21, 0), "COMPLETED", 130_000_000),
	}
}

// sweepJobs returns one job per spot night: where the price outbid it, it was preempted and
// came back as the next attempt on the next night's machine.
func sweepJobs(machines []machine) []work {
	var out []work
	id, attempt := 48500, 0
	for i := range machines {
		m := &machines[i]
		if m.pricing != spot || m.shape.gpus < 8 {
			continue
		}
		r := m.runs[0]
		w := work{
			id: fmt.Sprint(id), name: "aug-sweep", user: "lena", attempt: attempt, project: projectVision, team: "perception", node: m.host,
			gpus: eight(), from: r.start().Add(4 * time.Minute), to: r.end().Add(-30 * time.Second), outcome: "COMPLETED", units: 2_400_000, unit: "images",
		}
		w.checkpoint = w.to.Add(-18 * time.Minute)
		id, attempt = id+1, 0
		if len(out)%3 == 1 {
			w.outcome, w.units = "PREEMPTED", 0
			id, attempt = id-1, w.attempt+1
		}
		out = append(out, w)
	}
	return out
}

// serving is a pod of the serving cluster.
type serving struct {
	namespace, pod, uid, container, app string
	project, team, node, resource       string
	gpus                                []int
	idle                                bool // holds memory, does nothing
}

// servingPods returns the pods of the two serving nodes. The notebook's owner is on leave.
func servingPods() []serving {
	chat := serving{namespace: "serving", container: "vllm", app: "chat-serve-a", project: projectChat, team: "assistants"}
	pod := func(s serving, node, resource, name, uid string, gpus ...int) serving {
		s.node, s.resource, s.pod, s.uid, s.gpus = node, resource, name, uid, gpus
		return s
	}
	other, embed, notebook := chat, chat, serving{
		namespace: "notebooks", container: "notebook", app: "jupyter-lin", project: projectVision, team: "perception", idle: true,
	}
	other.app = "chat-serve-b"
	embed.app, embed.container = "embedder", "tei"
	const one, two = "i-0c77a0be51c301", "i-0c77a0be51c302"
	return []serving{
		pod(chat, "srv-01", one, "chat-serve-a-6d9c7b5f48-h2xkq", "1f0c2a9e-7b51-4d0e-8c11-0a4be2d10001", 0, 1),
		pod(chat, "srv-01", one, "chat-serve-a-6d9c7b5f48-m7t4z", "1f0c2a9e-7b51-4d0e-8c11-0a4be2d10002", 2, 3),
		pod(other, "srv-02", two, "chat-serve-b-58c4d7f9bb-q9w5n", "1f0c2a9e-7b51-4d0e-8c11-0a4be2d10003", 0, 1),
		pod(embed, "srv-02", two, "embedder-0", "1f0c2a9e-7b51-4d0e-8c11-0a4be2d10004", 2),
		pod(notebook, "srv-02", two, "jupyter-lin-0", "1f0c2a9e-7b51-4d0e-8c11-0a4be2d10005", 3),
	}
}

// canary is the pod on the staging machine, which has no exporter.
func canary() serving {
	return serving{
		namespace: "serving", pod: "chat-canary-7f6b9c4d55-x8k2p", app: "chat-canary", project: projectChat, team: "assistants",
		node: "srv-03", resource: "i-0c77a0be51c303", gpus: []int{0},
	}
}

// gpuUUID names a GPU of a machine.
func gpuUUID(host string, index int) string {
	n, m := noise(hash(host), uint64(index), 3), noise(hash(host), uint64(index), 4)
	return fmt.Sprintf("GPU-%08x-%04x-4%03x-%04x-%012x", n>>32, n>>16&0xffff, n&0xfff, 0x8000|m>>48&0x3fff, m&0xffffffffffff)
}

func hash(s string) uint64 {
	h := uint64(len(s))
	for i := range len(s) {
		h = noise(h, uint64(s[i]))
	}
	return h
}
