package slurm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
)

// number is an integer in any of the forms of the data parsers: a bare number up to v0.0.38,
// {"set":true,"infinite":false,"number":5} after it where a field may be without a value.
type number struct {
	value int64
	set   bool
}

func (n *number) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || string(b) == "null" {
		return nil
	}
	if b[0] == '{' {
		var v struct {
			Set, Infinite bool
			Number        json.Number
		}
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
		if !v.Set || v.Infinite {
			return nil
		}
		b = []byte(v.Number)
	}
	i, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	if err != nil {
		return fmt.Errorf("%s is no whole number", b)
	}
	n.value, n.set = i, true
	return nil
}

// maxUnix is a time that no record has; Slurm writes its "no value" as large numbers, too.
const maxUnix = 1 << 33

// time reads Unix seconds; zero is none.
func (n number) time() *time.Time {
	if !n.set || n.value <= 0 || n.value > maxUnix {
		return nil
	}
	t := time.Unix(n.value, 0).UTC()
	return &t
}

// words are one or several words: "IDLE" and "IDLE+DRAIN" up to v0.0.39, a list after it.
type words []string

func (w *words) UnmarshalJSON(b []byte) error {
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return fmt.Errorf("want a word or a list of words")
		}
		list = strings.FieldsFunc(s, func(r rune) bool { return r == '+' || r == ',' || r == ' ' })
	}
	for _, s := range list {
		*w = append(*w, strings.ToUpper(strings.TrimSpace(s)))
	}
	return nil
}

func (w words) has(some ...string) bool {
	for _, x := range w {
		for _, y := range some {
			if x == y {
				return true
			}
		}
	}
	return false
}

// held reports whether the words are of a job that has its nodes now.
func (w words) held() bool {
	return w.has("RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING") && !w.has("REQUEUED", "RESIZING", "REVOKED")
}

// outcome maps how a record ended to the words of event.Job. A requeue by hand or by
// preemption ends an attempt whose work is done again: PREEMPTED, or NODE_FAIL if a node
// failed. ended is false while it runs or waits; a record of a job that changed its size has
// ended without an outcome.
func (w words) outcome(failedNode string) (outcome string, ended bool) {
	switch {
	case w.has("NODE_FAIL", "BOOT_FAIL"), w.has("REQUEUED") && failedNode != "":
		return "NODE_FAIL", true
	case w.has("PREEMPTED", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"):
		return "PREEMPTED", true
	case w.has("OUT_OF_MEMORY"):
		return "OUT_OF_MEMORY", true
	case w.has("TIMEOUT", "DEADLINE"):
		return "TIMEOUT", true
	case w.has("CANCELLED", "REVOKED"):
		return "CANCELLED", true
	case w.has("FAILED", "LAUNCH_FAILED", "SPECIAL_EXIT"):
		return "FAILED", true
	case w.has("RESIZING"):
		return "", true
	case w.has("COMPLETED"):
		return "COMPLETED", true
	}
	return "", false
}

// nodeState maps the states and flags of a node. A maintenance reservation explains a node
// that is down in it. A node that drains while jobs run on it goes on with them; RESERVED
// alone is a reservation for somebody, who has the use of it. A node that is powered down or
// comes up is as available as Slurm takes it to be.
func (w words) nodeState() (state string, there bool) {
	down := w.has("DOWN", "FAIL", "FAILING", "ERROR", "UNKNOWN", "INVALID", "INVALID_REG")
	off := w.has("POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP")
	switch {
	case len(w) == 0, w.has("FUTURE", "DYNAMIC_FUTURE"):
		return "", false
	case w.has("MAINT", "MAINTENANCE", "REBOOT_ISSUED", "REBOOT"):
		return event.NodeMaintenance, true
	case down, w.has("NOT_RESPONDING", "NO_RESPOND") && !off:
		return event.NodeFailed, true
	case w.has("DRAIN", "DRAINED", "DRAINING") && w.has("ALLOCATED", "MIXED", "COMPLETING", "DRAINING"):
		return event.NodeCordoned, true
	case w.has("DRAIN", "DRAINED"):
		return event.NodeDrained, true
	}
	return event.NodeAvailable, true
}
