package dcgmhost

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Config is the section of a `dcgmhost` source.
type Config struct {
	// Address of the host engine: host:port, or the path of its unix socket.
	Address string `yaml:"address"`
	// Node names the host as the bill or the inventory knows it. A host engine does not say
	// what its host is called: for a remote one it is required, else this host's name counts.
	Node string `yaml:"node"`
	// Interval is how often the host engine reads the GPUs for us.
	Interval time.Duration `yaml:"interval"`
	// MaxAge is how old a reading may be; what is older is unknown.
	MaxAge time.Duration `yaml:"max_age"`
	// Profiling asks the host engine to collect profiling counters, which only one client of a
	// GPU can have. Without it they are read where somebody else collects them.
	Profiling bool `yaml:"profiling"`

	// Engine takes the place of DCGM, in tests.
	Engine Engine `yaml:"-"`
}

const defaultAddress = "127.0.0.1:5555"

func defaults() *Config {
	return &Config{Address: defaultAddress, Interval: 10 * time.Second, MaxAge: 90 * time.Second}
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	if !c.socket() {
		if _, port, err := net.SplitHostPort(c.Address); err != nil || port == "" {
			errs = append(errs, fmt.Errorf("address: %q is neither host:port nor the path of a unix socket", c.Address))
		}
	}
	if c.Node == "" && !c.local() {
		errs = append(errs, fmt.Errorf("node: is required for the host engine at %s: it does not say what its host is called", c.Address))
	}
	if c.Interval < time.Second {
		errs = append(errs, errors.New("interval: must be at least 1s"))
	}
	if c.MaxAge < 2*c.Interval {
		errs = append(errs, errors.New("max_age: must be at least twice the interval, or every reading may be too old"))
	}
	return errors.Join(errs...)
}

func (c *Config) socket() bool { return strings.HasPrefix(c.Address, "/") }

func (c *Config) local() bool {
	host, _, _ := net.SplitHostPort(c.Address)
	ip := net.ParseIP(host)
	return c.socket() || host == "localhost" || ip != nil && ip.IsLoopback()
}
