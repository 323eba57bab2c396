package alert

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/idlewatt/idlewatt/processors/alert/notify/slack"
)

// Config is the alert part of a configuration file as it stands there. It can be a field of
// a larger configuration; Compile reads and checks it.
type Config struct{ root node }

// UnmarshalYAML keeps the document for Compile, which reports all errors at once.
func (c *Config) UnmarshalYAML(n ast.Node) error {
	c.root = node{n}
	return nil
}

// Parse reads and checks a file that holds nothing but alert rules.
func Parse(data []byte) (Rules, error) {
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		return Rules{}, fmt.Errorf("reading YAML: %w", err)
	}
	if len(f.Docs) != 1 || f.Docs[0].Body == nil {
		return Rules{}, errors.New("reading YAML: want one document")
	}
	return Config{root: node{f.Docs[0].Body}}.Compile(nil)
}

// file is the form of the alert part.
type file struct {
	TimeZone string `yaml:"time_zone"`
	Interval string `yaml:"interval"`
	Channels node   `yaml:"channels"`
	Rules    []node `yaml:"rules"`
}

// ChannelConfig says where a channel's messages go: exactly one service.
type ChannelConfig struct {
	Slack slack.Config
}

// idleFile is an idle_gpu rule as written.
type idleFile struct {
	Name       string       `yaml:"name"`
	Kind       string       `yaml:"kind"`
	Channel    string       `yaml:"channel"`
	For        string       `yaml:"for"`
	MinIdle    string       `yaml:"min_idle"`
	MinWaste   []string     `yaml:"min_waste"`
	ClearAfter string       `yaml:"clear_after"`
	Calendar   calendarFile `yaml:"calendar"`
	Exempt     []exemptFile `yaml:"exempt"`
}

type calendarFile struct {
	TimeZone string   `yaml:"time_zone"`
	Days     []string `yaml:"days"`
	From     string   `yaml:"from"`
	To       string   `yaml:"to"`
}

type exemptFile struct {
	Node    string `yaml:"node"`
	Owner   string `yaml:"owner"`
	Project string `yaml:"project"`
}

// budgetFile is a budget rule as written.
type budgetFile struct {
	Name       string   `yaml:"name"`
	Kind       string   `yaml:"kind"`
	Channel    string   `yaml:"channel"`
	Scope      node     `yaml:"scope"`
	Amount     string   `yaml:"amount"`
	Currency   string   `yaml:"currency"`
	Period     string   `yaml:"period"`
	Cost       string   `yaml:"cost"`
	Thresholds []string `yaml:"thresholds"`
	MaxAge     string   `yaml:"max_age"`
}

// Compile checks everything and returns the rules; the error joins all that is wrong, each
// with its field. zone is the reporting time zone, for rules that name none; nil is UTC.
func (c Config) Compile(zone *time.Location) (Rules, error) {
	if zone == nil {
		zone = time.UTC
	}
	out := Rules{Zone: zone, Interval: time.Minute, Channels: map[string]ChannelConfig{}}
	if c.root.Node == nil {
		return out, nil
	}
	var f file
	k := compiler{rules: &out, names: map[string]bool{}}
	k.add(fill(c.root.Node, "", &f))
	k.header(f)
	k.channels(f.Channels.Node)
	for i, r := range f.Rules {
		k.rule(fmt.Sprintf("rules[%d]", i), r.Node)
	}
	return out, errors.Join(k.errs...)
}
