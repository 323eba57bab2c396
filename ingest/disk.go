package ingest

import (
	"fmt"
	"syscall"
)

// reserve stays free when files are archived: on a disk that is full to the last byte neither
// the event log nor the store could even write down what went wrong.
const reserve = 16 << 20

// roomFor reports an error where less than the reserve is free beside what was written.
func roomFor(dir string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return nil //nolint:nilerr // a file system that does not tell is not full
	}
	if free := st.Bavail * uint64(st.Bsize); free < reserve { // the type differs by platform
		return fmt.Errorf("no space left on device: %d MiB free, %d MiB stay reserved for the event log and the store", free>>20, reserve>>20)
	}
	return nil
}
