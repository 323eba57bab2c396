package prometheus

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/snappy"
)

// saved is what an assembler leaves to the next process. Messages that are still on the bus
// come again; what was done with them must not be done again with a part of them.
type saved struct {
	Read     uint64               `json:"read"` // the last message that was taken
	Renaming []string             `json:"renaming,omitempty"`
	Lanes    map[string]savedLane `json:"lanes,omitempty"` // by a hash of their key
}

type savedLane struct {
	set
	Done int64   `json:"done"`           // scrapes up to this time are done
	Also []int64 `json:"also,omitempty"` // and those
	Late []int64 `json:"late,omitempty"` // done, but more of them had come and was not told yet
	Top  int64   `json:"top"`
	New  bool    `json:"new,omitempty"` // it was still being watched: the set says nothing
}

func laneHash(key string) string {
	h := fnv.New64a()
	h.Write([]byte(key))
	return strconv.FormatUint(h.Sum64(), 36)
}

func (s *saved) read(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	text, err := snappy.Decode(nil, b)
	if err != nil {
		return fmt.Errorf("reading the assembler's checkpoint: %w", err)
	}
	if err := json.Unmarshal(text, s); err != nil {
		return fmt.Errorf("reading the assembler's checkpoint: %w", err)
	}
	return nil
}

func (s *saved) restore(l *lane) {
	was, ok := s.Lanes[laneHash(l.key)]
	if !ok {
		return
	}
	l.saved, l.done, l.top = was.Done, was.Done, was.Top
	if !was.New {
		l.restored = &was.set
	}
	for _, at := range was.Late {
		l.again[at] = true
	}
	for _, at := range was.Also {
		l.doneAt[at] = nil
		l.done = max(l.done, at)
	}
}

// forgetLane is how long a target's series are remembered after its last scrape.
const forgetLane = 24 * time.Hour

// Checkpoint is what the next process needs to go on. It must be saved before messages are
// deleted. Targets that are long gone are forgotten.
func (a *Assembler) Checkpoint(now time.Time) ([]byte, error) {
	s := saved{Read: a.read, Renaming: a.memory.Renaming(), Lanes: make(map[string]savedLane, len(a.lanes))}
	for key, l := range a.lanes {
		if len(l.open) == 0 && now.UnixMilli()-l.top > forgetLane.Milliseconds() {
			l.forgotten = true
			delete(a.lanes, key)
			continue
		}
		s.Lanes[laneHash(key)] = l.save()
	}
	for hash, l := range a.saved.Lanes { // not seen since the start
		if _, ok := s.Lanes[hash]; !ok && now.UnixMilli()-l.Top <= forgetLane.Milliseconds() {
			s.Lanes[hash] = l
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("writing the assembler's checkpoint: %w", err)
	}
	return snappy.Encode(nil, text), nil
}

func (l *lane) save() savedLane {
	out := savedLane{set: l.set, Done: max(l.done, l.saved), Top: l.top, New: !l.settled(l.changed, l.top)}
	if l.restored != nil {
		out.set = *l.restored
	}
	for at, g := range l.open {
		if g.late {
			out.Late = append(out.Late, at)
		} else {
			out.Done = min(out.Done, at-1)
		}
	}
	for at := range l.doneAt {
		if at > out.Done {
			out.Also = append(out.Also, at)
		}
	}
	slices.Sort(out.Also)
	slices.Sort(out.Late)
	return out
}
