// Package deploy_test holds the container files against each other and against the code.
package deploy_test

import (
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/goccy/go-yaml"
)

var secrets = []string{"NATS_PASSWORD", "CLICKHOUSE_PASSWORD", "ANALYST_PASSWORD", "GRAFANA_PASSWORD"}

func load(t *testing.T, env ...string) (*types.Project, error) {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{"../docker-compose.yml"}, cli.WithEnv(env), cli.WithName("idlewatt"))
	if err != nil {
		return nil, err
	}
	return o.LoadProject(t.Context())
}

func project(t *testing.T) *types.Project {
	t.Helper()
	var env []string
	for _, s := range secrets {
		env = append(env, s+"=x"+s)
	}
	p, err := load(t, env...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeHasTheFourServices(t *testing.T) {
	t.Parallel()
	p := project(t)
	if got := slices.Sorted(maps.Keys(p.Services)); !slices.Equal(got, []string{"clickhouse", "grafana", "idlewatt", "nats"}) {
		t.Fatalf("services %v", got)
	}
	tag := regexp.MustCompile(`^[a-z/-]+:[0-9]+\.[0-9]+\.[0-9]+([.-][a-z0-9]+)*$`)
	for name, s := range p.Services {
		if s.Build == nil && !tag.MatchString(s.Image) {
			t.Errorf("%s: image %q is not pinned to a full version", name, s.Image)
		}
		if s.HealthCheck == nil || s.Restart == "" {
			t.Errorf("%s has no health check or no restart policy", name)
		}
		if s.Privileged || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may gain privileges", name)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to other machines", name, port.Published)
			}
		}
		for dependency, d := range s.DependsOn {
			if d.Condition != types.ServiceConditionHealthy {
				t.Errorf("%s does not wait until %s is healthy", name, dependency)
			}
		}
	}
	for _, engine := range []string{"nats", "clickhouse"} {
		if len(p.Services[engine].Ports) > 0 {
			t.Errorf("%s is reachable from outside the project's network", engine)
		}
	}
}

func TestComposeMountsFilesThatExist(t *testing.T) {
	t.Parallel()
	for name, s := range project(t).Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind || filepath.Base(v.Source) == "bills" {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !v.ReadOnly {
				t.Errorf("%s may write %s", name, v.Target)
			}
		}
	}
}

func TestComposeAsksForSecrets(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("compose/env.example")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range secrets {
		var env []string
		for j, other := range secrets {
			if j != i {
				env = append(env, other+"=x")
			}
		}
		if _, err := load(t, env...); err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("without %s: %v", s, err)
		}
		if !strings.Contains(string(example), "\n"+s+"=\n") {
			t.Errorf("compose/env.example does not name %s, or holds a value", s)
		}
	}
}

func TestComposeConfigurationsParse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"grafana-datasources.yaml", "idlewatt.yaml"} {
		b, err := os.ReadFile(filepath.Join("compose", name))
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := yaml.UnmarshalWithOptions(b, &v, yaml.Strict()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	b, err := os.ReadFile("compose/clickhouse-users.xml")
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(string(b)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(b), "GRANT SELECT, SHOW ON idlewatt.*") || !strings.Contains(string(b), "<readonly>2</readonly>") {
		t.Error("the analyst is not what deploy/local makes of it: read only, database idlewatt")
	}
	conf, err := os.ReadFile("compose/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(conf), "sync_interval: always") {
		t.Error("nats.conf: an acknowledged message may be lost with the power")
	}
}

// TestDockerfile checks the image's promises: pinned stages, the locked library, no root.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	stages := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1)
	if len(stages) != 3 {
		t.Errorf("%d stages, want engine, build and the image itself", len(stages))
	}
	for _, s := range stages {
		if !strings.Contains(s[1], ":") || strings.HasSuffix(s[1], ":latest") {
			t.Errorf("stage %s is not pinned", s[1])
		}
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	minor := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))[1]
	for _, want := range []string{"golang:" + minor, "npm ci", "USER 10001", "CGO_ENABLED=0", "IDLEWATT_DATA=/var/lib/idlewatt"} {
		if !strings.Contains(text, want) {
			t.Errorf("Dockerfile lacks %q", want)
		}
	}
	if strings.LastIndex(text, "USER ") < strings.LastIndex(text, "FROM ") {
		t.Error("the image runs as root")
	}
}
