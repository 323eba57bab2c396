package local

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// engineName is the zeroth argument of the engine's process. RunChildIfAsked recognises itself by it, and
// so does whoever reads a process list.
const engineName = "idlewatt-clickhouse"

// RunChildIfAsked turns this process into the ClickHouse engine if Start launched it as one, and then never
// returns. It must be the first call in main, and in the TestMain of every test binary that calls Start:
// the engine runs in a re-execution of our own binary, for it cannot share a process with NATS.
func RunChildIfAsked() {
	if len(os.Args) < 2 || os.Args[0] != engineName {
		return
	}
	if err := runEngine(os.Args[1], os.Args[2:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runEngine loads the library and runs `clickhouse local` with args. It returns when the engine has ended.
func runEngine(library string, args []string, out io.Writer) error {
	runtime.LockOSThread()
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return fmt.Errorf("loading %s: %w", library, err)
	}
	var (
		cmdline      func(argc int32, argv **byte) uintptr
		resultError  func(result uintptr) *byte
		resultBuffer func(result uintptr) *byte
		resultLength func(result uintptr) uintptr
	)
	purego.RegisterLibFunc(&cmdline, handle, "chdb_query_cmdline")
	purego.RegisterLibFunc(&resultError, handle, "chdb_result_error")
	purego.RegisterLibFunc(&resultBuffer, handle, "chdb_result_buffer")
	purego.RegisterLibFunc(&resultLength, handle, "chdb_result_length")

	argv := cStrings(append([]string{"clickhouse"}, args...))
	result := cmdline(int32(len(argv)-1), &argv[0])
	runtime.KeepAlive(argv)
	if result == 0 {
		return nil // ends like this on a lock or port conflict as well: the exit code says nothing
	}
	if text := resultError(result); text != nil {
		return fmt.Errorf("running the engine: %s", goString(text))
	}
	if n := resultLength(result); n > 0 {
		if _, err := out.Write(unsafe.Slice(resultBuffer(result), n)); err != nil {
			return fmt.Errorf("writing the engine's answer: %w", err)
		}
	}
	return nil
}

// cStrings returns args as a null-terminated vector of null-terminated strings.
func cStrings(args []string) []*byte {
	argv := make([]*byte, 0, len(args)+1)
	for _, arg := range args {
		b := append([]byte(arg), 0)
		argv = append(argv, &b[0])
	}
	return append(argv, nil)
}

// goString copies a null-terminated string.
func goString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
