package slurm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
)

// asker is where answers come from.
type asker interface {
	// jobs lists the records of all attempts that were there within [from, to).
	jobs(ctx context.Context, from, to time.Time) (answer, error)
	// nodes lists all nodes as they are now.
	nodes(ctx context.Context) (answer, error)
	// running lists the jobs that slurmctld knows, with the indexes of their GRES.
	running(ctx context.Context) (answer, error)
}

// versions are the paths of slurmrestd that are known to answer as this package reads, the
// tested ones first. A slurmrestd serves three or four of them.
var versions = []string{"v0.0.42", "v0.0.41", "v0.0.40", "v0.0.43", "v0.0.44", "v0.0.45", "v0.0.46"}

// daemon asks slurmrestd.
type daemon struct {
	api     *rest.Client
	cluster string
	mu      sync.Mutex
	version string // empty until one has answered
}

func newDaemon(c Config) *daemon {
	api := &rest.Client{
		Provider: "slurmrestd", Base: strings.TrimSuffix(c.URL, "/"), Key: c.Key,
		HTTP: &http.Client{
			Timeout:       c.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Authorize: func(r *http.Request, token string) {
			// `scontrol token` prints SLURM_JWT=..., which is often saved as it is.
			r.Header.Set("X-SLURM-USER-NAME", c.User)
			r.Header.Set("X-SLURM-USER-TOKEN", strings.TrimPrefix(token, "SLURM_JWT="))
		},
	}
	return &daemon{api: api, cluster: c.Cluster, version: c.APIVersion}
}

// serves finds the version to use: the configured one, or the first that is not unknown.
func (d *daemon) serves(ctx context.Context) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.version != "" {
		return d.version, nil
	}
	for _, v := range versions {
		_, err := d.api.Do(ctx, rest.Call{Path: "/slurm/" + v + "/ping"}, nil)
		var s *rest.StatusError
		if errors.As(err, &s) && s.Status == http.StatusNotFound {
			continue
		}
		if err != nil {
			return "", err
		}
		d.version = v
		return v, nil
	}
	return "", connectors.Permanent(fmt.Errorf("asking slurmrestd: it serves none of %s: set api_version", strings.Join(versions, ", ")))
}

func (d *daemon) ask(ctx context.Context, plugin, path string, q url.Values) (answer, error) {
	v, err := d.serves(ctx)
	if err != nil {
		return answer{}, err
	}
	var a answer
	if _, err := d.api.Do(ctx, rest.Call{Path: "/" + plugin + "/" + v + path, Query: q}, &a); err != nil {
		return answer{}, err
	}
	return a, a.refusal()
}

// jobs asks for whole times: slurmdbd would cut a job's start and end to the window.
func (d *daemon) jobs(ctx context.Context, from, to time.Time) (answer, error) {
	q := url.Values{
		"start_time": {strconv.FormatInt(from.Unix(), 10)}, "end_time": {strconv.FormatInt(to.Unix(), 10)},
		"show_duplicates": {"true"}, "skip_steps": {"true"}, "disable_truncate_usage_time": {"true"},
	}
	if d.cluster != "" {
		q.Set("cluster", d.cluster)
	}
	return d.ask(ctx, "slurmdb", "/jobs", q)
}

func (d *daemon) nodes(ctx context.Context) (answer, error) {
	return d.ask(ctx, "slurm", "/nodes", nil)
}

func (d *daemon) running(ctx context.Context) (answer, error) {
	return d.ask(ctx, "slurm", "/jobs", nil)
}

// commands runs Slurm's own commands, with fixed arguments and no shell.
type commands struct {
	cluster string
	timeout time.Duration
	// run starts a command and returns what it prints; of tests.
	run func(ctx context.Context, name string, args ...string) ([]byte, error)
}

// maxOutput bounds what a command may print.
const maxOutput = 256 << 20

// bounder takes output up to a size.
type bounder struct{ bytes.Buffer }

func (b *bounder) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		return 0, rest.ErrTooLarge
	}
	return b.Buffer.Write(p)
}

func execute(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(cmd.Environ(), "TZ=UTC") // times without a zone are read in it
	var out bounder
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch text := strings.TrimSpace(said.String()); {
	case errors.Is(err, exec.ErrNotFound):
		return nil, connectors.Permanent(fmt.Errorf("running %s: it is not installed here, or not in PATH: %w", name, err))
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("running %s: %w", name, ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("running %s: %w: %.300s", name, err, text)
	}
	return out.Bytes(), nil
}

func (c commands) ask(ctx context.Context, name string, args ...string) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if c.cluster != "" {
		args = append(args, "--clusters="+c.cluster)
	}
	out, err := c.run(ctx, name, args...)
	if err != nil {
		return answer{}, err
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		return answer{}, fmt.Errorf("running %s: it printed no such JSON as documented (Slurm 22.05 or later has it): %w", name, err)
	}
	return a, a.refusal()
}

const commandTime = "2006-01-02T15:04:05"

func (c commands) jobs(ctx context.Context, from, to time.Time) (answer, error) {
	return c.ask(ctx, "sacct", "--json", "--allusers", "--duplicates", "--allocations",
		"--starttime="+from.UTC().Format(commandTime), "--endtime="+to.UTC().Format(commandTime))
}

func (c commands) nodes(ctx context.Context) (answer, error) {
	return c.ask(ctx, "scontrol", "--json", "show", "nodes")
}

func (c commands) running(ctx context.Context) (answer, error) {
	return c.ask(ctx, "scontrol", "--details", "--json", "show", "jobs")
}
