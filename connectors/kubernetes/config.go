package kubernetes

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
)

// Config is the section of a source of type kubernetes. The defaults are those of a pod with a
// service account in the cluster itself.
type Config struct {
	Server    string `yaml:"server"`     // the API server's URL
	TokenFile string `yaml:"token_file"` // read at every request: projected tokens are renewed
	CAFile    string `yaml:"ca_file"`    // of the API server; empty trusts the system's
	// Cluster names the cluster in jobs; empty takes the source's name.
	Cluster string `yaml:"cluster"`
	// Namespaces limits pods to these; empty reads all.
	Namespaces []string `yaml:"namespaces"`
	// Resources are further extended resources of which one is one whole GPU.
	Resources []string `yaml:"resources"`
	// Project, Team, Environment and User name places, the first that has something wins:
	// label:KEY or annotation:KEY of the pod and then of its owners upwards, or namespace.
	Project     []string `yaml:"project"`
	Team        []string `yaml:"team"`
	Environment []string `yaml:"environment"`
	User        []string `yaml:"user"`
	// Labels are further labels to keep with a job.
	Labels []string `yaml:"labels"`
	// Timeout ends one request.
	Timeout time.Duration `yaml:"timeout"`
}

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"

func defaults() *Config {
	return &Config{
		Server: "https://kubernetes.default.svc", TokenFile: serviceAccount + "token", CAFile: serviceAccount + "ca.crt",
		Project: []string{"label:project", "annotation:project"}, Team: []string{"label:team", "annotation:team"},
		Environment: []string{"label:environment", "label:env"}, User: []string{"label:user", "label:skypilot-user"},
		Timeout: 30 * time.Second,
	}
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	u, err := url.Parse(c.Server)
	bad(err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http", "server: %q is no URL of an API server", c.Server)
	bad(err == nil && u.User != nil, "server: must not hold credentials: use token_file")
	bad(c.TokenFile == "", "token_file: is required")
	bad(c.Cluster != "" && !plainName.MatchString(c.Cluster), "cluster: %q has other characters than letters, digits, - _ and .", c.Cluster)
	for i, n := range c.Namespaces {
		bad(!plainName.MatchString(n), "namespaces[%d]: %q is no name", i, n)
	}
	for i, r := range c.Resources {
		domain, name, ok := strings.Cut(r, "/")
		bad(!ok || domain == "" || name == "", "resources[%d]: %q is not of the form vendor.com/gpu", i, r)
	}
	for field, list := range map[string][]string{"project": c.Project, "team": c.Team, "environment": c.Environment, "user": c.User} {
		for i, p := range list {
			kind, key, _ := strings.Cut(p, ":")
			bad(p != "namespace" && (kind != "label" && kind != "annotation" || key == ""), "%s[%d]: %q is none of label:KEY, annotation:KEY, namespace", field, i, p)
		}
	}
	bad(c.Timeout <= 0, "timeout: must be positive")
	return errors.Join(errs...)
}

// Factory describes the connector. Its clock is the machine's.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "kubernetes", Summary: "Kubernetes: which pods of which jobs hold GPUs, and node states, from the API server", Every: 30 * time.Second,
		NewConfig: func() connectors.Config { return defaults() },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: config is a %T", source, cfg)
			}
			return newConnector(source, *c), nil
		},
	}
}
