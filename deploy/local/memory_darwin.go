package local

import (
	"math"

	"golang.org/x/sys/unix"
)

// usableMemory is the machine's memory in bytes.
func usableMemory() int64 {
	size, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return math.MaxInt64
	}
	return int64(size)
}
