package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	pollInterval = 10 * time.Millisecond
	// stopPatience is how long an engine may take to end by itself: 25 ms, or 5 s while a client keeps a
	// connection open, and for that we do not wait. What it acknowledged survives a kill.
	stopPatience = time.Second
	maxOutput    = 1 << 20
)

// errEndedEarly is what a taken port or lock looks like.
var errEndedEarly = errors.New("the engine ended before it was ready")

// engine knows how to run one ClickHouse on one data directory. It is not safe for concurrent use.
type engine struct {
	layout            Layout
	library           string
	config            engineConfig
	tcpPort, httpPort int
	startTimeout      time.Duration
	log               *slog.Logger
	client            *http.Client
}

// child is one running process of the engine.
type child struct {
	pid  int
	pipe io.Closer     // the engine serves until this is closed
	done chan struct{} // closed when the process has ended
	err  error         // how, once done is closed
}

func newEngine(layout Layout, library string, config engineConfig, options Options) *engine {
	return &engine{
		layout: layout, library: library, config: config,
		startTimeout: options.StartTimeout,
		log:          options.Log.With(slog.String("engine", "clickhouse")),
		// No connection is kept: an open one would hold up the engine's end.
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// start waits for an earlier engine on the directory to end, launches a new one and waits until it is ready.
func (e *engine) start(ctx context.Context) (*child, error) {
	if err := awaitOrphan(ctx, e.layout, e.log); err != nil {
		return nil, err
	}
	c, err := e.launch()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.startTimeout)
	defer cancel()
	if err := e.awaitReady(ctx, c); err != nil {
		c.stop(0)
		return nil, err
	}
	return c, nil
}

// launch starts the process. The thread it is started from lives as long as the process does, because on Linux
// the process dies with that thread.
func (e *engine) launch() (*child, error) {
	output, err := e.openOutput()
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting ClickHouse: %w", err)
	}
	defer func() { _ = read.Close() }()
	binary, err := selfPath()
	if err != nil {
		_ = write.Close()
		return nil, fmt.Errorf("starting ClickHouse: %w", err)
	}
	cmd := &exec.Cmd{
		Path: binary, Args: e.args(), Env: childEnv(), Dir: e.layout.Archive(), // where file() looks for a relative name
		Stdout: output, Stderr: output, ExtraFiles: []*os.File{read}, SysProcAttr: childAttributes(),
	}
	c := &child{pipe: write, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		_ = write.Close()
		return nil, fmt.Errorf("starting ClickHouse: %w", err)
	}
	c.pid = cmd.Process.Pid
	return c, nil
}

// args is the command line of the child: who it is, the library, and what `clickhouse local` gets.
func (e *engine) args() []string {
	return []string{
		engineName, e.library,
		"--path", e.layout.EngineData(),
		"--config-file", e.config.path("config.xml"),
		"--log-level", "warning",
		"--listen_host", loopback,
		"--tcp_port", strconv.Itoa(e.tcpPort),
		"--http_port", strconv.Itoa(e.httpPort),
		"--output-format", "TSV",
		"--queries-file", e.config.path("start.sql"), "/dev/fd/3",
	}
}

// openOutput opens the file the child prints to. It starts again when the file has grown.
func (e *engine) openOutput() (*os.File, error) {
	path := filepath.Join(e.layout.Log(), "engine.out")
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if info, err := os.Stat(path); err == nil && info.Size() > maxOutput {
		flags |= os.O_TRUNC
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the engine's output: %w", err)
	}
	return file, nil
}

// awaitReady polls until the engine returns this start's nonce.
func (e *engine) awaitReady(ctx context.Context, c *child) error {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	var last error
	for {
		answer, err := e.query(ctx, "SELECT getMacro('"+nonceMacro+"')")
		if err == nil && answer == e.config.Nonce {
			return nil
		}
		if err == nil {
			err = errors.New("another engine answers on its port")
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-c.done:
			return fmt.Errorf("starting ClickHouse: %w: %s", errEndedEarly, e.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("starting ClickHouse: %w; last answer: %w", ctx.Err(), last)
		case <-poll.C:
		}
	}
}

// query asks over HTTP as the owner and returns the answer without its line end.
func (e *engine) query(ctx context.Context, sql string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.httpAddr()+"/", strings.NewReader(sql))
	if err != nil {
		return "", fmt.Errorf("asking ClickHouse: %w", err)
	}
	request.Header.Set("X-ClickHouse-User", OwnerUser)
	request.Header.Set("X-ClickHouse-Key", e.config.OwnerPassword)
	response, err := e.client.Do(request)
	if err != nil {
		return "", fmt.Errorf("asking ClickHouse: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	if err != nil {
		return "", fmt.Errorf("asking ClickHouse: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("asking ClickHouse: status %d: %s", response.StatusCode, strings.TrimSpace(string(body)))
	}
	return strings.TrimRight(string(body), "\n"), nil
}

func (e *engine) tcpAddr() string  { return net.JoinHostPort(loopback, strconv.Itoa(e.tcpPort)) }
func (e *engine) httpAddr() string { return net.JoinHostPort(loopback, strconv.Itoa(e.httpPort)) }

// lastWords returns the end of what the child printed.
func (e *engine) lastWords() string {
	content, err := os.ReadFile(filepath.Join(e.layout.Log(), "engine.out"))
	text := strings.TrimSpace(string(content))
	if err != nil || text == "" {
		return "it said nothing; see " + e.config.LogFile()
	}
	return text[max(0, len(text)-500):]
}

// stop lets the engine end by itself for at most patience, then ends its process group. It returns when the
// process is gone.
func (c *child) stop(patience time.Duration) {
	_ = c.pipe.Close() // a second close changes nothing
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		_ = syscall.Kill(-c.pid, syscall.SIGKILL) // gone already is fine
		<-c.done
	}
}

// childEnv is our environment with the engine's time zone.
func childEnv() []string {
	env := make([]string, 0, len(os.Environ())+1)
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "TZ=") {
			env = append(env, entry)
		}
	}
	return append(env, "TZ=UTC")
}
