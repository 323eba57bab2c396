package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"
)

// Names of the engine's users.
const (
	// OwnerUser has all rights, and is the definer of the public views.
	OwnerUser = "idlewatt"
	// AnalystUser reads database idlewatt and nothing else.
	AnalystUser = "analyst"
)

// ErrNotRunning says that no live instance holds the data directory.
var ErrNotRunning = errors.New("no instance runs on this data directory")

// Instance tells how to reach the engines of one data directory: the content of instance.json.
// It holds secrets; never log it.
type Instance struct {
	// PID and Started name the process that holds the lock. PID is 0 after an orderly end.
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Ready is set when both engines answer.
	Ready bool `json:"ready"`

	NATSURL   string `json:"nats_url"`
	NATSToken string `json:"nats_token,omitempty"`

	// Addr is ClickHouse's native port as host:port; HTTPURL is its HTTP interface.
	Addr            string `json:"clickhouse_addr"`
	HTTPURL         string `json:"clickhouse_http_url"`
	Secure          bool   `json:"clickhouse_secure,omitempty"`
	User            string `json:"clickhouse_user"`
	Password        string `json:"clickhouse_password"`
	AnalystUser     string `json:"analyst_user,omitempty"`
	AnalystPassword string `json:"analyst_password,omitempty"`
	EngineVersion   string `json:"engine_version,omitempty"`
	// LocalFiles tells whether ClickHouse's file() sees our disk.
	LocalFiles bool `json:"local_files"`

	// WebAddr and WriteToken belong to the HTTP door. Announce sets them.
	WebAddr    string `json:"web_addr,omitempty"`
	WriteToken string `json:"write_token,omitempty"`
}

// ReadInstance reads DIR/instance.json. It says nothing about whether that instance lives: Attach does.
func ReadInstance(dir string) (*Instance, error) {
	layout, err := NewLayout(dir)
	if err != nil {
		return nil, err
	}
	return readInstance(layout)
}

// Attach returns the instance that runs on dir, waiting while it starts, or ErrNotRunning. The lock decides:
// what a killed process left in instance.json is not trusted.
func Attach(ctx context.Context, dir string) (*Instance, error) {
	layout, err := NewLayout(dir)
	if err != nil {
		return nil, err
	}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		live, err := held(layout)
		if err != nil {
			return nil, err
		}
		if !live {
			return nil, fmt.Errorf("attaching to %s: %w", layout.Root, ErrNotRunning)
		}
		if instance, err := readInstance(layout); err == nil && instance.Ready {
			return instance, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the instance on %s to be ready: %w", layout.Root, ctx.Err())
		case <-poll.C:
		}
	}
}

// ConnectNATS opens a connection to the bus. The caller closes it.
func (i *Instance) ConnectNATS(opts ...nats.Option) (*nats.Conn, error) {
	if i.NATSToken != "" {
		opts = append(opts, nats.Token(i.NATSToken))
	}
	conn, err := nats.Connect(i.NATSURL, opts...)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	return conn, nil
}

// ClickHouseOptions returns fresh options for the native port as the owner, with the pinned
// settings.
func (i *Instance) ClickHouseOptions() *clickhouse.Options {
	return i.options(i.User, i.Password, PinnedSettings(i.EngineVersion))
}

// AnalystOptions returns fresh options for the native port as the analyst, who may not change what limits him.
func (i *Instance) AnalystOptions() *clickhouse.Options {
	return i.options(i.AnalystUser, i.AnalystPassword, nil)
}

func readInstance(layout Layout) (*Instance, error) {
	content, err := os.ReadFile(layout.Instance())
	if err != nil {
		return nil, fmt.Errorf("reading the instance file: %w", err)
	}
	instance := new(Instance)
	if err := json.Unmarshal(content, instance); err != nil {
		return nil, fmt.Errorf("reading %s: %w", layout.Instance(), err)
	}
	return instance, nil
}

func (i *Instance) write(layout Layout) error {
	content, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the instance file: %w", err)
	}
	return writeFile(layout.Instance(), append(content, '\n'))
}
