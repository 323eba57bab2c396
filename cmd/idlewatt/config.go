package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/all"
	"github.com/idlewatt/idlewatt/ingest"
	"github.com/idlewatt/idlewatt/processors/alert"
	"github.com/idlewatt/idlewatt/processors/normalize"
	"github.com/idlewatt/idlewatt/processors/utilize"
)

// config is the configuration file. Unknown keys are errors.
type config struct {
	Data       string            `yaml:"data"`
	TimeZone   string            `yaml:"time_zone"`
	Dimensions *normalize.Rules  `yaml:"dimensions"`
	Sources    []sourceConfig    `yaml:"sources"`
	Hosts      map[string]string `yaml:"hosts"`
	Alerts     *alert.Config     `yaml:"alerts"`
	HTTP       httpConfig        `yaml:"http"`
	Write      writeConfig       `yaml:"remote_write"`
	Telemetry  telemetryConfig   `yaml:"telemetry"`
	NATS       externalConfig    `yaml:"nats"`
	ClickHouse externalConfig    `yaml:"clickhouse"`
}

type httpConfig struct {
	Listen string `yaml:"listen"`
	// AllowRemote lets the page listen off loopback without TLS, behind a proxy that has it.
	AllowRemote bool `yaml:"allow_remote"`
}

// telemetryConfig says how long raw samples are kept. What was derived from them stays.
type telemetryConfig struct {
	KeepRawDays int `yaml:"keep_raw_days"` // 0: 400
}

const keepRawDays = 400

func (t telemetryConfig) days() int { return cmp.Or(t.KeepRawDays, keepRawDays) }

func (t telemetryConfig) check() error {
	if t.days() < utilize.MinKeepDays {
		return fmt.Errorf("telemetry.keep_raw_days: %d is less than %d: a bill may be restated for so long, and its hours need the samples", t.KeepRawDays, utilize.MinKeepDays)
	}
	return nil
}

// check refuses to listen where anybody could reach the page, unless that is said.
func (h httpConfig) check() error {
	host, _, err := net.SplitHostPort(h.Listen)
	if err != nil {
		return fmt.Errorf("http.listen: %q: want host:port", h.Listen)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && !h.AllowRemote {
		return fmt.Errorf("http.listen: %q is not loopback: put a proxy with TLS in front of it and set http.allow_remote: true", h.Listen)
	}
	return nil
}

// externalConfig names an engine that somebody else runs. The URL holds credentials, so it
// comes from the environment.
type externalConfig struct {
	URLEnv string `yaml:"url_env"`
}

func (e externalConfig) url() string {
	if e.URLEnv == "" {
		return ""
	}
	return os.Getenv(e.URLEnv)
}

// sourceConfig is one source: its own keys here, the rest is the connector's section.
type sourceConfig struct {
	Name  string
	Type  string
	Every time.Duration
	rest  ast.Node
	wrong error // of its own keys, told with the source's name
}

// UnmarshalYAML splits off the keys that every source has.
func (s *sourceConfig) UnmarshalYAML(n ast.Node) error {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return errors.New("a source is a mapping with name, type and the keys of its type")
	}
	rest := ast.Mapping(m.Start, m.IsFlowStyle)
	for _, v := range m.Values {
		var err error
		switch v.Key.String() {
		case "name":
			err = yaml.NodeToValue(v.Value, &s.Name)
		case "type":
			err = yaml.NodeToValue(v.Value, &s.Type)
		case "every":
			var text string
			if err = yaml.NodeToValue(v.Value, &text); err == nil {
				s.Every, err = time.ParseDuration(text)
			}
		default:
			rest.Values = append(rest.Values, v)
		}
		if err != nil {
			s.wrong = errors.Join(s.wrong, fmt.Errorf("line %d: %s: %w", v.Key.GetToken().Position.Line, v.Key, err))
		}
	}
	s.rest = rest
	return nil
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)

// loaded is a configuration that was checked and built.
type loaded struct {
	config
	sources []ingest.Source
	rules   normalize.Rules
	alerts  *alert.Rules
}

// loadConfig reads a file and reports everything that is wrong with it at once.
func loadConfig(path string) (*loaded, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usageError{fmt.Errorf("reading configuration: %w", err)}
	}
	l := &loaded{rules: normalize.DefaultRules()}
	if err := yaml.UnmarshalWithOptions(text, &l.config, yaml.Strict()); err != nil {
		return nil, usageError{fmt.Errorf("%s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, true)))}
	}
	var errs []error
	zone, err := time.LoadLocation(l.TimeZone) // "" is UTC
	if err != nil {
		errs = append(errs, fmt.Errorf("time_zone: %q is no IANA time zone", l.TimeZone))
	}
	if l.Dimensions != nil {
		l.rules = *l.Dimensions
		errs = append(errs, l.rules.Validate())
	}
	seen := map[string]bool{}
	for i, s := range l.Sources {
		src, err := build(s)
		if err == nil && seen[s.Name] {
			err = fmt.Errorf("name: %q is used twice", s.Name)
		}
		seen[s.Name] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("sources[%d] (%s): %w", i, s.Name, err))
			continue
		}
		l.sources = append(l.sources, src)
	}
	if l.Alerts != nil {
		r, err := l.Alerts.Compile(zone)
		if err != nil {
			errs = append(errs, fmt.Errorf("alerts: %w", err))
		}
		l.alerts = &r
	}
	errs = append(errs, l.Telemetry.check())
	if l.HTTP.Listen != "" {
		errs = append(errs, l.HTTP.check())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, usageError{fmt.Errorf("%s:\n%w", path, err)}
	}
	return l, nil
}

func build(s sourceConfig) (ingest.Source, error) {
	if s.wrong != nil {
		return ingest.Source{}, s.wrong
	}
	if !plainName.MatchString(s.Name) {
		return ingest.Source{}, fmt.Errorf("name: %q: want letters, digits, _ and -", s.Name)
	}
	var types []string
	for _, f := range all.Factories() {
		if f.New == nil {
			continue
		}
		types = append(types, f.Type)
		if f.Type != s.Type {
			continue
		}
		cfg := f.NewConfig()
		if err := decodeSection(s.rest, cfg); err != nil {
			return ingest.Source{}, err
		}
		if err := cfg.Validate(); err != nil {
			return ingest.Source{}, err
		}
		c, err := f.New(s.Name, cfg)
		if err != nil {
			return ingest.Source{}, err
		}
		every := s.Every
		if every <= 0 {
			every = f.Every
		}
		return ingest.Source{Name: s.Name, Every: every, Connector: c}, nil
	}
	return ingest.Source{}, fmt.Errorf("type: %q is none of %s", s.Type, strings.Join(types, ", "))
}

func decodeSection(n ast.Node, cfg connectors.Config) error {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) == 0 {
		return nil
	}
	if err := yaml.NodeToValue(n, cfg, yaml.Strict()); err != nil {
		return errors.New(strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	return nil
}

type checkConfigCmd struct {
	File string `arg:"" default:"idlewatt.yaml" help:"Configuration file."`
}

func (c *checkConfigCmd) Run(e *env) error {
	l, err := loadConfig(c.File)
	if err != nil {
		return err
	}
	rules := 0
	if l.alerts != nil {
		rules = len(l.alerts.Idle) + len(l.alerts.Budgets)
	}
	if l.alerts != nil {
		for name, ch := range l.alerts.Channels {
			if v := ch.Slack.WebhookURLEnv; v != "" && os.Getenv(v) == "" {
				fmt.Fprintf(e.errOut, "channel %s: the variable %s is not set here; `idlewatt up` will need it\n", name, v)
			}
		}
	}
	_, err = fmt.Fprintf(e.out, "%s is right: %d sources, %d alert rules\n", c.File, len(l.sources), rules)
	return err
}
