package vast

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors/rest"
)

// Config is the section of a source of type vast.
type Config struct {
	rest.Key `yaml:",inline"`
	BaseURL  string `yaml:"base_url"`
	// Account is the billing account that charges and contracts belong to; the source's name if empty.
	Account string `yaml:"account"`
	// WindowDays are the complete days, up to yesterday (UTC), that are read again each time:
	// charges come late.
	WindowDays int `yaml:"window_days"`
	// Since is the first day, YYYY-MM-DD, that is read once on top.
	Since string `yaml:"since"`
	// ChargesEvery is how often charges are asked for; 0 never.
	ChargesEvery time.Duration `yaml:"charges_every"`
	// ProjectFromLabel finds the project in a contract's label: a regular expression with a
	// group named project. Empty: the label is the tag `label` and nothing more.
	ProjectFromLabel string `yaml:"project_from_label"`
	// Utilisation makes the GPU utilisation that Vast.ai shows of a contract into samples.
	Utilisation bool `yaml:"utilisation"`
	// Offers are GPU names, as Vast.ai writes them, whose market price is noted once a day.
	Offers []string `yaml:"offers"`
	// Wallet notes the prepaid balance once an hour, if the key may read it.
	Wallet bool `yaml:"wallet"`
	// Now is the clock, for tests; the machine's if nil.
	Now func() time.Time `yaml:"-"`
}

func defaults() *Config {
	return &Config{
		BaseURL: "https://console.vast.ai", WindowDays: 7, ChargesEvery: time.Hour, Utilisation: true, Wallet: true,
	}
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	if err := c.Key.Validate(); err != nil {
		errs = append(errs, err)
	}
	if u, err := url.Parse(c.BaseURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.HasSuffix(c.BaseURL, "/") {
		errs = append(errs, fmt.Errorf("base_url: %q is no URL such as https://console.vast.ai, without a slash at the end", c.BaseURL))
	}
	if c.WindowDays < 1 || c.WindowDays > 31 {
		errs = append(errs, fmt.Errorf("window_days: %d is not between 1 and 31", c.WindowDays))
	}
	if c.Since != "" {
		if _, err := time.Parse(time.DateOnly, c.Since); err != nil {
			errs = append(errs, fmt.Errorf("since: %q is no day such as 2026-09-01", c.Since))
		}
	}
	if c.ChargesEvery < 0 || c.ChargesEvery > 0 && c.ChargesEvery < time.Minute {
		errs = append(errs, errors.New("charges_every: must be a minute or more, or 0 for never"))
	}
	if c.ProjectFromLabel != "" {
		switch re, err := regexp.Compile(c.ProjectFromLabel); {
		case err != nil:
			errs = append(errs, fmt.Errorf("project_from_label: %w", err))
		case !slices.Contains(re.SubexpNames(), "project"):
			errs = append(errs, errors.New("project_from_label: wants a group named project, e.g. ^(?P<project>[^/]+)/"))
		}
	}
	return errors.Join(errs...)
}

// labeller makes tags of labels.
type labeller struct{ project *regexp.Regexp }

func newLabeller(pattern string) (labeller, error) {
	if pattern == "" {
		return labeller{}, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return labeller{}, fmt.Errorf("project_from_label: %w", err)
	}
	return labeller{project: re}, nil
}

// tags of a contract: its label, and the project in it. An empty label is none.
func (l labeller) tags(label string) map[string]string {
	if label == "" {
		return nil
	}
	out := map[string]string{"label": label}
	if l.project == nil {
		return out
	}
	if m := l.project.FindStringSubmatch(label); m != nil {
		if p := m[l.project.SubexpIndex("project")]; p != "" {
			out["project"] = p
		}
	}
	return out
}
