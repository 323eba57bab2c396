package local

import (
	"bytes"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfPath names our own binary.
func selfPath() (string, error) { return os.Executable() }

// childAttributes gives the child a process group of its own. Its pipe alone tells it that we are gone.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// commandLine returns the arguments of a process: a count, the binary's path, padding, then the arguments.
func commandLine(pid int) ([]string, error) {
	content, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return nil, err
	}
	if len(content) < 4 {
		return nil, os.ErrNotExist
	}
	count := int(content[0]) | int(content[1])<<8
	_, rest, _ := bytes.Cut(content[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	var args []string
	for range count {
		arg, after, _ := bytes.Cut(rest, []byte{0})
		args, rest = append(args, string(arg)), after
	}
	return args, nil
}
