package local

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Options says what Start shall run, and where.
type Options struct {
	// Dir is the data directory. It is made if missing.
	Dir string
	// Log receives what the engines and their supervisor have to say; nil discards it.
	Log *slog.Logger

	// NATSURL and ClickHouseURL name external engines; the local one is then not started.
	// ClickHouseURL is clickhouse://USER:PASSWORD@HOST:9000?http_port=8123&secure=false
	// or http(s)://USER:PASSWORD@HOST:8123?tcp_port=9000.
	NATSURL, ClickHouseURL string

	// MaxServerMemory limits the local ClickHouse, in bytes. 0 means 60 % of the memory this process may
	// use, at least 2 GB.
	MaxServerMemory int64
	// StartTimeout ends the wait for an engine that loads its data. 0 means two minutes.
	StartTimeout time.Duration
	// CheckInterval is how often the supervisor looks at the listeners. 0 means two seconds.
	CheckInterval time.Duration
	// Relaxed lets the bus sync to disk now and then instead of at every event: four times as
	// fast, and a power loss may take the last minutes. For data that can be made again.
	Relaxed bool
	// Now is the clock for the instance's start time; nil means time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxServerMemory == 0 {
		o.MaxServerMemory = defaultServerMemory()
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 2 * time.Minute
	}
	if o.CheckInterval == 0 {
		o.CheckInterval = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// library finds the library, unless the engine is external.
func (o Options) library() (string, error) {
	if o.ClickHouseURL != "" {
		return "", nil
	}
	return FindLibrary()
}

// options are the connection options for one user.
func (i *Instance) options(user, password string, settings clickhouse.Settings) *clickhouse.Options {
	options := &clickhouse.Options{
		Addr:        []string{i.Addr},
		Auth:        clickhouse.Auth{Username: user, Password: password},
		Settings:    settings,
		Compression: &clickhouse.Compression{Method: clickhouse.CompressionLZ4},
		DialTimeout: 10 * time.Second,
	}
	if i.Secure {
		options.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return options
}

// useClickHouse fills in an external server from its URL.
func (i *Instance) useClickHouse(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return fmt.Errorf("reading the ClickHouse URL: %w", errWithoutURL(err))
	}
	query := u.Query()
	port := func(given, parameter, plain, secure string) string {
		switch {
		case given != "":
			return given
		case query.Has(parameter):
			return query.Get(parameter)
		case i.Secure:
			return secure
		default:
			return plain
		}
	}
	var native, web string
	switch u.Scheme {
	case "clickhouse", "tcp", "native":
		i.Secure = query.Get("secure") == "true" || query.Get("secure") == "1"
		native, web = port(u.Port(), "tcp_port", "9000", "9440"), port("", "http_port", "8123", "8443")
	case "http", "https":
		i.Secure = u.Scheme == "https"
		native, web = port("", "tcp_port", "9000", "9440"), port(u.Port(), "http_port", "8123", "8443")
	default:
		return fmt.Errorf("reading the ClickHouse URL: scheme %q is none of clickhouse, http, https", u.Scheme)
	}
	if u.Hostname() == "" {
		return fmt.Errorf("reading the ClickHouse URL: it names no host")
	}
	scheme := "http"
	if i.Secure {
		scheme = "https"
	}
	i.Addr = net.JoinHostPort(u.Hostname(), native)
	i.HTTPURL = scheme + "://" + net.JoinHostPort(u.Hostname(), web)
	i.User, i.LocalFiles = "default", false
	if name := u.User.Username(); name != "" {
		i.User = name
	}
	i.Password, _ = u.User.Password()
	i.AnalystUser, i.AnalystPassword, i.EngineVersion = "", "", ""
	return nil
}

// errWithoutURL drops the URL, which may hold a password, from a parse error.
func errWithoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}

// secret returns 128 random bits as text.
func secret() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b)
}
