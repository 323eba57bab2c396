package local_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/deploy/local/localtest"
)

const (
	testTimeout = time.Minute
	testMemory  = 3_000_000_000
	// roleEnv makes the test binary play one of the processes in parentRoles.
	roleEnv = "IDLEWATT_TEST_ROLE"
	dirEnv  = "IDLEWATT_TEST_DIR"
)

// webClient keeps no connection, for the engine waits at its end for those that are open.
var webClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func TestMain(m *testing.M) {
	local.RunChildIfAsked()
	if role, ok := parentRoles()[os.Getenv(roleEnv)]; ok {
		if err := role(os.Getenv(dirEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	localtest.QuickExit()
	goleak.VerifyTestMain(m)
}

// role prepares another process of this binary.
func role(t *testing.T, name, dir string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), roleEnv+"="+name, dirEnv+"="+dir)
	return cmd
}

// start starts engines that end with the test.
func start(t *testing.T, options local.Options) *local.Engines {
	t.Helper()
	if options.Dir == "" {
		options.Dir = t.TempDir()
	}
	options.MaxServerMemory = testMemory
	e, err := local.Start(timed(t), options)
	if err != nil {
		t.Fatalf("starting the engines: %v", err)
	}
	t.Cleanup(func() { stop(t, e) })
	return e
}

func stop(t *testing.T, e *local.Engines) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Errorf("stopping the engines: %v", err)
	}
}

func timed(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls a condition until it holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(testTimeout)
	defer deadline.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("still not so after %s: %s", testTimeout, what)
		case <-poll.C:
		}
	}
}

// ask runs a statement over HTTP and returns the answer.
func ask(ctx context.Context, url, user, password, sql string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(sql))
	if err != nil {
		return "", err
	}
	request.Header.Set("X-ClickHouse-User", user)
	request.Header.Set("X-ClickHouse-Key", password)
	response, err := webClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(body))
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s", text)
	}
	return text, nil
}

// asOwner runs a statement that must succeed.
func asOwner(t *testing.T, i *local.Instance, sql string) string {
	t.Helper()
	answer, err := ask(timed(t), i.HTTPURL, i.User, i.Password, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// enginePID is the process the engine's own status file names.
func enginePID(t *testing.T, dir string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "clickhouse", "data", "status"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(string(content), "PID: "), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// gone tells whether no process has this id. A zombie that its parent has not yet collected counts as gone.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
