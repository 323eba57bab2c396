package local

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// selfPath names our own binary even after it was replaced or deleted.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// childAttributes gives the child a process group of its own, out of the terminal's reach, and lets it die
// with the thread that started it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// commandLine returns the arguments of a process.
func commandLine(pid int) ([]string, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, err
	}
	var args []string
	for _, arg := range bytes.Split(bytes.TrimRight(content, "\x00"), []byte{0}) {
		args = append(args, string(arg))
	}
	return args, nil
}
