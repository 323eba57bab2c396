package slurm

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
)

// Config is the section of a source of type slurm: either url, user and a token, or command.
type Config struct {
	// URL of slurmrestd, e.g. http://slurm-ctl:6820.
	URL string `yaml:"url"`
	// User is sent as X-SLURM-USER-NAME; the key is the JSON Web Token that `scontrol token`
	// makes for it.
	User     string `yaml:"user"`
	rest.Key `yaml:",inline"`
	// APIVersion is as in the path, e.g. v0.0.42; empty tries the known ones, newest first.
	APIVersion string `yaml:"api_version"`
	// Command runs sacct and scontrol on this machine instead of asking slurmrestd.
	Command bool `yaml:"command"`
	// Cluster names the cluster; empty takes the name that Slurm says.
	Cluster string `yaml:"cluster"`
	// Since is how far back the first pull goes.
	Since time.Duration `yaml:"since"`
	// Overlap is read again at every pull: accounting comes late while slurmdbd is away.
	Overlap time.Duration `yaml:"overlap"`
	// Timeout ends one question or command.
	Timeout time.Duration `yaml:"timeout"`
	Naming  `yaml:",inline"`
	// GRESMap lists the UUIDs of a node's GPUs in the order of Slurm's GRES indexes. Without
	// it an index says nothing: Slurm, NVML and CUDA may count differently.
	GRESMap map[string][]string `yaml:"gres_map"`
}

// Naming says whose a job is. Each list names places in a record, the first that has
// something wins: account, wckey, partition, qos, reservation, name, user, or comment:KEY for
// KEY=value in the job's or the administrator's comment.
type Naming struct {
	// Accounts come first: what an account stands for.
	Accounts    map[string]Payer `yaml:"accounts"`
	Project     []string         `yaml:"project"`
	Team        []string         `yaml:"team"`
	Environment []string         `yaml:"environment"`
}

// Payer is what an account stands for.
type Payer struct {
	Project     string `yaml:"project"`
	Team        string `yaml:"team"`
	Environment string `yaml:"environment"`
}

func defaults() *Config {
	return &Config{
		Since: 7 * 24 * time.Hour, Overlap: 6 * time.Hour, Timeout: time.Minute,
		Naming: Naming{
			Project: []string{"comment:project", "wckey", "account"}, Team: []string{"comment:team"}, Environment: []string{"comment:environment"},
		},
	}
}

var (
	versionText = regexp.MustCompile(`^v0\.0\.[0-9]{2}$`)
	clusterText = regexp.MustCompile(`^[A-Za-z0-9_.-]*$`)
	places      = []string{"account", "wckey", "partition", "qos", "reservation", "name", "user"}
)

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if c.Command {
		bad(c.URL != "" || c.User != "" || c.Env != "" || c.File != "", "command: takes no url, user or key")
	} else {
		u, err := url.Parse(c.URL)
		bad(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https", "url: %q is no URL of slurmrestd; or set command: true", c.URL)
		bad(err == nil && u.User != nil, "url: must not hold credentials")
		bad(c.User == "", "user: is required, the one that the token was made for")
		errs = append(errs, c.Key.Validate())
	}
	bad(c.APIVersion != "" && !versionText.MatchString(c.APIVersion), "api_version: %q is not of the form v0.0.42", c.APIVersion)
	bad(!clusterText.MatchString(c.Cluster), "cluster: %q has other characters than letters, digits, - _ and .", c.Cluster)
	bad(c.Since <= 0, "since: must be positive")
	bad(c.Overlap <= 0, "overlap: must be positive")
	bad(c.Timeout <= 0, "timeout: must be positive")
	for field, list := range map[string][]string{"project": c.Project, "team": c.Team, "environment": c.Environment} {
		for i, p := range list {
			key, comment := strings.CutPrefix(p, "comment:")
			bad(!slices.Contains(places, p) && (!comment || key == ""), "%s[%d]: %q is none of %s, comment:KEY", field, i, p, strings.Join(places, ", "))
		}
	}
	for node, uuids := range c.GRESMap {
		for i, u := range uuids {
			bad(!strings.HasPrefix(u, "GPU-") && !strings.HasPrefix(u, "MIG-"), "gres_map.%s[%d]: %q is no UUID of a GPU", strings.ToLower(node), i, u)
		}
	}
	return errors.Join(errs...)
}

// Factory describes the connector. Its clock is the machine's.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "slurm", Summary: "Slurm: jobs with their nodes and GPUs, and node states, by slurmrestd, sacct or a saved sacct --json", Every: time.Minute,
		NewConfig: func() connectors.Config { return defaults() },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: config is a %T", source, cfg)
			}
			return newConnector(source, *c), nil
		},
		Formats: []connectors.Format{{Name: "slurm", Sniff: sniff, Decode: decodeFile}},
	}
}
