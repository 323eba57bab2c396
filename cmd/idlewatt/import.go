package main

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/all"
	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/ingest"
	"github.com/idlewatt/idlewatt/processors/normalize"
	"github.com/idlewatt/idlewatt/schema/event"
	schemanorm "github.com/idlewatt/idlewatt/schema/normalize"
)

type importCmd struct {
	Source        string   `required:"" help:"Name of the source these files belong to; the same name supersedes." placeholder:"NAME"`
	Format        string   `default:"auto" help:"One of ${formats}, or auto." placeholder:"FORMAT"`
	Version       string   `name:"version" help:"The provider's version of this delivery: a time or a number. Needed once the scope has another live load." placeholder:"V"`
	Replaces      []string `help:"A source whose bill of the same account and period this one replaces." placeholder:"SOURCE"`
	Covers        []string `help:"A month (or, of Azure, a day) this delivery is whole for even if it has no rows there: what was live there goes." placeholder:"YYYY-MM"`
	At            string   `help:"Time of a scrape that carries none (RFC 3339)." placeholder:"TIME"`
	Period        string   `help:"Billing period of files without such a column." placeholder:"YYYY-MM"`
	Currency      string   `help:"Currency of files without such a column (ISO 4217)." placeholder:"CUR"`
	Account       string   `help:"Billing account of files without such a column." placeholder:"ID"`
	CapacityBlock string   `help:"Regular expression of the AWS rows (usage type, reservation type, description) that are Capacity Blocks, if they do not say so." placeholder:"REGEXP"`
	Quiet         bool     `short:"q" help:"Print the outcome only, not what was found."`
	Paths         []string `arg:"" name:"path" help:"Files or folders. The files of one call are one delivery."`
}

// formatNames lists every format that import reads.
func formatNames() string {
	names := schemanorm.Names()
	for n := range all.Formats() {
		names = append(names, n)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

func (c *importCmd) Run(e *env) (err error) {
	if c.Source == "" || strings.ContainsAny(c.Source, "/|") {
		return usagef("--source %q: want a name without / and |", c.Source)
	}
	assume := event.Assumptions{Period: c.Period, Currency: c.Currency, Account: c.Account, CapacityBlock: c.CapacityBlock}
	if err := normalize.CheckAssumptions(assume); err != nil {
		return usageError{err}
	}
	var at time.Time
	if c.At != "" {
		if at, err = time.Parse(time.RFC3339Nano, c.At); err != nil {
			return usagef("--at %q: want a time such as 2026-10-31T22:00:00Z", c.At)
		}
	}
	paths, err := ingest.Expand(c.Paths)
	if err != nil {
		return usageError{err}
	}
	if err := c.settleFormat(e, paths); err != nil {
		return err
	}
	a, err := e.open(local.Options{})
	if err != nil {
		return err
	}
	defer closing(a, &err)
	x, ok := all.Formats()[c.Format]
	switch {
	case ok && x.Lines != nil:
		return a.importLines(c, x, paths)
	case ok:
		return a.importEvents(c, x.Name, at, paths)
	default:
		return a.importBill(c, assume, paths)
	}
}

// settleFormat checks the format's name, or guesses and says what it guessed.
func (c *importCmd) settleFormat(e *env, paths []string) error {
	if c.Format != ingest.Auto {
		if _, ok := schemanorm.Find(c.Format); ok {
			return nil
		}
		if _, ok := all.Formats()[c.Format]; ok {
			return nil
		}
		return usagef("--format %q: want one of %s, or auto", c.Format, formatNames())
	}
	for _, p := range paths {
		g, err := ingest.Guess(p, all.Formats())
		if err != nil {
			return err
		}
		if c.Format != ingest.Auto && g != c.Format {
			return usagef("%s looks like %s, the files before it like %s; import them apart, or say --format", p, g, c.Format)
		}
		c.Format = g
	}
	fmt.Fprintf(e.errOut, "format: %s (guessed from the header)\n", c.Format)
	return nil
}

func (a *app) importEvents(c *importCmd, format string, at time.Time, paths []string) error {
	d, err := a.publisher().Decode(a.ctx, all.Formats()[format], c.Source, at, paths)
	if err != nil {
		return err
	}
	if err := a.settle(); err != nil {
		return err
	}
	for _, line := range d.LeftOut {
		a.leftOut(line)
	}
	fmt.Fprintf(a.out, "%s: %d events taken", format, d.Events)
	if d.Bad > 0 {
		fmt.Fprintf(a.out, ", %d refused (see `idlewatt dead list`)\n", d.Bad)
		return fmt.Errorf("%d of %d parts were refused, the first: %w", d.Bad, d.Bad+d.Events, d.First)
	}
	fmt.Fprintln(a.out)
	return nil
}

// leftOut says what of an import has no place in it.
func (a *app) leftOut(line string) { fmt.Fprintf(a.errOut, "left out: %s\n", line) }

func (a *app) importBill(c *importCmd, assume event.Assumptions, paths []string) error {
	objects, err := a.publisher().ArchiveAll(a.ctx, paths)
	if err != nil {
		return a.refuseFiles(c, err)
	}
	d := c.delivery(a.now())
	d.Format, d.Assume, d.Objects = c.Format, assume, objects
	return a.deliver(c, d)
}

// importLines reads saved answers of a provider's API.
func (a *app) importLines(c *importCmd, x connectors.Format, paths []string) error {
	account := c.Account
	if account == "" {
		account = c.Source
	}
	d, err := a.publisher().Lines(a.ctx, x, c.delivery(a.now()), account, paths, a.leftOut)
	if err != nil {
		return a.refuseFiles(c, err)
	}
	return a.deliver(c, d)
}

// delivery is what the flags say of a delivery.
func (c *importCmd) delivery(now time.Time) ingest.Delivery {
	return ingest.Delivery{Source: c.Source, Version: c.Version, Replaces: c.Replaces, Covers: c.Covers, Attempt: now.Format(time.RFC3339Nano)}
}

// deliver announces a delivery, waits for its outcome and tells it.
func (a *app) deliver(c *importCmd, made ingest.Delivery) error {
	began := a.now()
	bar := a.progress(made.Objects)
	d, err := a.publisher().Deliver(a.ctx, made)
	if err != nil {
		return err
	}
	out, err := a.awaitDelivery(d.Delivery, bar)
	bar.done()
	if err != nil {
		return err
	}
	if err := a.outcome(c, out, a.now().Sub(began)); err != nil {
		return err
	}
	if err := a.settle(); err != nil {
		return err
	}
	if c.Quiet || out.Status == normalize.Older {
		return nil
	}
	return a.findings(c.Source)
}

// refuseFiles puts a delivery whose files are plainly not whole among the dead letters, so
// that it is not forgotten when the terminal scrolls on.
func (a *app) refuseFiles(c *importCmd, reason error) error {
	raw := fmt.Sprintf(`{"source":%q,"format":%q,"version":%q,"paths":%q}`, c.Source, c.Format, c.Version, c.Paths)
	return errors.Join(reason, a.publisher().PutAside(a.ctx, "import", []byte(raw), reason))
}

// deliveryRow is what the log says of a delivery.
type deliveryRow struct {
	Status, Message string
	Rows, Rounded   uint64
	Billed          map[string]string
	Defects         map[string]uint64
	Scopes          []string
	Seconds         float64
}

// awaitDelivery waits for the processor's word on a delivery. If no instance runs, the
// processor runs here.
func (a *app) awaitDelivery(id string, bar *progressBar) (deliveryRow, error) {
	if !a.attached {
		rules, err := normalize.RulesInForce(a.ctx, a.db)
		if err != nil {
			return deliveryRow{}, err
		}
		p, err := a.normalizer(rules, func(_ string, rows uint64) { bar.set(rows) })
		if err != nil {
			return deliveryRow{}, err
		}
		stop := a.background(p.Consumer())
		defer stop()
	}
	return a.awaitOutcome(id)
}

// awaitOutcome waits until the log has a word on a delivery.
func (a *app) awaitOutcome(id string) (deliveryRow, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var r deliveryRow
		rows, err := a.db.Query(a.ctx, `SELECT Status, Message, Rows, RoundedRows, mapApply((k, v) -> (k, toString(v)), BilledCost), Defects, Scopes, Seconds
			FROM idlewatt_store.delivery_log WHERE Delivery = ? ORDER BY At DESC LIMIT 1`, id)
		if err != nil {
			return r, fmt.Errorf("asking for the outcome: %w", err)
		}
		found := rows.Next()
		if found {
			err = rows.Scan(&r.Status, &r.Message, &r.Rows, &r.Rounded, &r.Billed, &r.Defects, &r.Scopes, &r.Seconds)
		}
		if err = errors.Join(err, rows.Close()); err != nil {
			return r, fmt.Errorf("reading the outcome: %w", err)
		}
		if found {
			return r, nil
		}
		select {
		case <-a.ctx.Done():
			return r, fmt.Errorf("interrupted: the files are archived and announced, the next `idlewatt up` or import goes on with them")
		case <-tick.C:
		}
	}
}

// outcome prints what became of a delivery; a refusal is an error.
func (a *app) outcome(c *importCmd, r deliveryRow, took time.Duration) error {
	switch r.Status {
	case normalize.Refused, normalize.Held:
		if strings.Contains(r.Message, "--version") || strings.Contains(r.Message, "--replaces") {
			return usageError{fmt.Errorf("%s: %s", r.Status, r.Message)}
		}
		return fmt.Errorf("%s: %s (kept in `idlewatt dead list`; what was live before stays live)", r.Status, r.Message)
	}
	fmt.Fprintf(a.out, "%s: %s: %d rows", c.Source, r.Status, r.Rows)
	for _, cur := range sortedKeys(r.Billed) {
		fmt.Fprintf(a.out, ", billed %s %s", r.Billed[cur], cur)
	}
	fmt.Fprintf(a.out, ", scopes %s", strings.Join(r.Scopes, " "))
	if r.Message != "" {
		fmt.Fprintf(a.out, " (%s)", r.Message)
	}
	fmt.Fprintln(a.out)
	if r.Rounded > 0 {
		fmt.Fprintf(a.out, "rounded to 18 digits, half-even: %d rows\n", r.Rounded)
	}
	for _, d := range sortedKeys(r.Defects) {
		fmt.Fprintf(a.out, "defect: %d rows: %s\n", r.Defects[d], d)
	}
	if s := took.Seconds(); r.Status == normalize.Live && s > 0 {
		fmt.Fprintf(a.errOut, "%.0f rows/s (%.1f s)\n", float64(r.Rows)/s, s)
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
