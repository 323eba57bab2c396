// Package files watches a folder into which a provider, a sync job or a person puts bills.
//
// One pull takes what changed as one delivery: all files that match, since a delivery is
// replaced whole. How a bill is read is schema/normalize's matter.
package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// Config is the section of a source of type files.
type Config struct {
	Path     string `yaml:"path"`     // glob; every match belongs to one delivery
	Format   string `yaml:"format"`   // as in `idlewatt import --format`
	Currency string `yaml:"currency"` // for files without a currency column
	Account  string `yaml:"account"`  // for files without a billing account column
	// CapacityBlock matches AWS rows that are Capacity Blocks, where they do not say so.
	CapacityBlock string `yaml:"capacity_block"`
	// Settle is how long a file must have been left alone, so that none is read half-written.
	Settle time.Duration `yaml:"settle"`
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("path: is required, e.g. /srv/billing/aws/*.parquet"))
	} else if _, err := filepath.Match(c.Path, ""); err != nil {
		errs = append(errs, fmt.Errorf("path: %q is no glob: %w", c.Path, err))
	}
	if _, ok := normalize.Find(c.Format); !ok {
		errs = append(errs, fmt.Errorf("format: %q is none of %s", c.Format, strings.Join(normalize.Names(), ", ")))
	}
	if _, err := regexp.Compile(c.CapacityBlock); err != nil {
		errs = append(errs, fmt.Errorf("capacity_block: %w", err))
	}
	if c.Settle < 0 {
		errs = append(errs, errors.New("settle: must not be negative"))
	}
	return errors.Join(errs...)
}

// Factory describes the connector.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "files", Summary: "a folder that gets bills, in any format of `idlewatt import`", Every: 15 * time.Minute,
		NewConfig: func() connectors.Config { return &Config{Settle: 10 * time.Second} },
		New: func(source string, cfg connectors.Config) (connectors.Connector, error) {
			c, ok := cfg.(*Config)
			if !ok {
				return nil, fmt.Errorf("building source %s: config is a %T", source, cfg)
			}
			return &connector{source: source, cfg: *c, now: time.Now}, nil
		},
	}
}

type connector struct {
	source string
	cfg    Config
	now    func() time.Time
}

// cursor remembers the last delivery: a hash over names, sizes and times of its files.
type cursor struct {
	Seen string `json:"seen"`
}

// Pull delivers the folder's files if they differ from the last delivery. Its version is the
// time of the newest file. Files still being written postpone the whole delivery.
func (c *connector) Pull(ctx context.Context, cur connectors.Cursor, emit connectors.Emitter) (connectors.Cursor, error) {
	var last cursor
	if cur != nil {
		if err := json.Unmarshal(cur, &last); err != nil {
			return cur, connectors.Permanent(fmt.Errorf("reading cursor: %w", err))
		}
	}
	paths, err := filepath.Glob(c.cfg.Path)
	if err != nil {
		return cur, connectors.Permanent(fmt.Errorf("listing %s: %w", c.cfg.Path, err))
	}
	slices.Sort(paths)
	seen, newest, err := c.look(paths)
	if err != nil {
		return cur, err
	}
	if len(paths) == 0 || seen == last.Seen || c.now().Sub(newest) < c.cfg.Settle {
		return cur, nil
	}
	objects, err := c.archive(ctx, paths, emit)
	if err != nil {
		return cur, err
	}
	if err := c.announce(ctx, objects, newest, emit); err != nil {
		return cur, err
	}
	return json.Marshal(cursor{Seen: seen})
}

func (c *connector) look(paths []string) (seen string, newest time.Time, err error) {
	h := sha256.New()
	for _, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			return "", newest, fmt.Errorf("looking at %s: %w", p, err)
		}
		fmt.Fprintln(h, p, st.Size(), st.ModTime().UnixNano())
		if st.ModTime().After(newest) {
			newest = st.ModTime()
		}
	}
	return hex.EncodeToString(h.Sum(nil)), newest, nil
}

func (c *connector) archive(ctx context.Context, paths []string, emit connectors.Emitter) ([]event.Object, error) {
	var out []event.Object
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return nil, fmt.Errorf("opening %s: %w", p, err)
		}
		o, err := emit.Archive(ctx, filepath.Base(p), f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

func (c *connector) announce(ctx context.Context, objects []event.Object, newest time.Time, emit connectors.Emitter) error {
	version := newest.UTC().Format(time.RFC3339Nano)
	key := c.cfg.Format + "/" + version
	for _, o := range objects {
		key += "/" + o.SHA256
	}
	d := event.BillingDelivery{
		Delivery: event.ID(c.source, key, "1"), Source: c.source, Format: c.cfg.Format, Objects: objects, Version: version,
		Assume: event.Assumptions{Currency: c.cfg.Currency, Account: c.cfg.Account, CapacityBlock: c.cfg.CapacityBlock},
	}
	e, err := event.New(event.TypeBillingDelivery, "idlewatt/"+c.source, d.Delivery, "1", newest, d)
	if err != nil {
		return err
	}
	return emit.Event(ctx, e)
}
