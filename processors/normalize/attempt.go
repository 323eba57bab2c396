package normalize

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/archive"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// rulesVersion changes when the meaning of a format's SQL changes, so that the same bytes
// are loaded anew. Bump it with every change of a figure.
const rulesVersion = "2"

// attempt is one try to load one delivery. Its loads are load+ordinal, one per scope.
type attempt struct {
	p          *Processor
	d          event.BillingDelivery
	format     normalize.Format
	version    string
	hash       string
	load       uint64
	sources    []source
	remainders []remainder
	written    time.Time // when the last part became visible
	scopes     []Scope
	committed  bool
}

// contentHash tells equal deliveries apart from changed ones: same bytes, same reading.
func contentHash(d event.BillingDelivery) string {
	var parts []string
	for _, o := range d.Objects {
		parts = append(parts, o.SHA256)
	}
	slices.Sort(parts)
	sum := sha256.Sum256([]byte(strings.Join(append(parts, d.Format, d.Assume.Period, d.Assume.Currency, d.Assume.Account, d.Assume.CapacityBlock, strings.Join(d.Covers, ","), rulesVersion), "\n")))
	return hex.EncodeToString(sum[:])
}

// open reads every object's header before a row of any is loaded.
func (a *attempt) open() error {
	if len(a.d.Objects) == 0 {
		return fmt.Errorf("delivery %s has no files", a.d.Delivery)
	}
	for _, o := range a.d.Objects {
		h, err := normalize.ReadHeader(archive.Path(a.p.Archive, o.SHA256), o)
		if err != nil {
			return RefusedError{File: o.Name, Reason: err.Error()}
		}
		s, err := newSource(a.format, o, h, a.d.Assume)
		if err != nil {
			return err
		}
		if twin := a.twin(s); twin != "" {
			return RefusedError{File: o.Name, Reason: "is the same bytes as " + twin + ": its rows would count twice; deliver it once"}
		}
		a.sources = append(a.sources, s)
	}
	return nil
}

// twin names an earlier file of the delivery with the same rows: an old folder or a listing
// that was read twice. Files without rows may be alike.
func (a *attempt) twin(s source) string {
	i := slices.IndexFunc(a.sources, func(t source) bool { return t.object.SHA256 == s.object.SHA256 })
	if i < 0 || s.header.Rows == 0 {
		return ""
	}
	if s.object.Encoding == "csv" {
		body, done, err := a.p.bytes(s)
		if err != nil {
			return "" // reading it for its rows says what is wrong
		}
		defer done()
		r := csv.NewReader(normalize.DropBlankLines(body))
		r.FieldsPerRecord, r.LazyQuotes = -1, true
		for range 2 {
			if _, err := r.Read(); err != nil {
				return ""
			}
		}
	}
	return a.sources[i].object.Name
}

// write inserts every object under a new load. What only the whole of it tells makes it do so
// once more, since rows are never edited: covered usage and its negations that do not cancel
// (the remainder goes on a row), and discounts that are rows and in net costs as well.
func (a *attempt) write(ctx context.Context) error {
	for try := 0; ; try++ {
		a.load = a.p.Loads.Next()
		for i := range a.sources {
			if err := a.insert(ctx, &a.sources[i]); err != nil {
				return err
			}
		}
		a.written = a.p.Now()
		if err := a.survey(ctx); err != nil {
			return err
		}
		if err := a.notWhatItSays(ctx); err != nil {
			return err
		}
		if err := a.control(); err != nil {
			return runtime.Permanent(err)
		}
		if try > 0 {
			return nil
		}
		if again, err := a.corrections(ctx); err != nil || !again {
			return err
		}
		a.sweep(ctx)
	}
}

// table returns the table expression an object is read through and the expression of a
// row's number, counted from 1.
func (p *Processor) table(s source) (from, row string) {
	name := formatName(s.object)
	if p.streams(s) {
		return fmt.Sprintf("input(%s)", literal(s.structure())), "rowNumberInAllBlocks() + 1"
	}
	path := archive.Path(p.Archive, s.object.SHA256)
	return fmt.Sprintf("file(%s, %s, %s, %s)", literal(path), name, literal(s.structure()), literal(compression(s.object))), "_row_number + 1"
}

// streams reports whether an object's bytes go to the store through us.
func (p *Processor) streams(s source) bool { return !p.SharedDisk || s.filtered }

func formatName(o event.Object) string {
	if o.Encoding == "parquet" {
		return "Parquet"
	}
	return "CSVWithNames"
}

func compression(o event.Object) string {
	if o.Encoding == "parquet" || o.Compression == "" {
		return "none"
	}
	return o.Compression
}

// insert loads one object. The store's CSV reader refuses empty lines between rows: only a
// file that has some, and has failed for it, goes through a filter of ours.
func (a *attempt) insert(ctx context.Context, s *source) error {
	err := a.insertOnce(ctx, *s)
	if err == nil || s.filtered || s.object.Encoding != "csv" || temporary(ctx, err) {
		return a.verdict(ctx, *s, err)
	}
	blank, berr := a.p.hasBlankLines(*s)
	if berr != nil || !blank {
		return a.verdict(ctx, *s, err)
	}
	s.filtered = true
	a.sweepObject(ctx, *s)
	return a.verdict(ctx, *s, a.insertOnce(ctx, *s))
}

func temporary(ctx context.Context, err error) bool {
	var refused RefusedError
	return ctx.Err() != nil || !errors.As(err, &refused) && !store.Full(err) && store.Temporary(err)
}

// verdict says of a failed insert whether to try again, and if not, which cell is at fault.
func (a *attempt) verdict(ctx context.Context, s source, err error) error {
	if err == nil {
		return nil
	}
	if temporary(ctx, err) {
		return fmt.Errorf("loading %s: %w", s.object.Name, err)
	}
	if store.Full(err) {
		return runtime.Permanent(fmt.Errorf("loading %s: the store's disk is full (%s); make room, then `idlewatt dead retry` it", s.object.Name, store.ErrorText(err)))
	}
	return runtime.Permanent(a.p.explain(ctx, s, err))
}

func (a *attempt) insertOnce(ctx context.Context, s source) error {
	cols, err := a.p.shape(ctx, s)
	if err != nil {
		return err
	}
	from, row := a.p.table(s)
	stmt := a.statement(s, from, row, cols)
	if a.p.streams(s) {
		return a.p.stream(ctx, s, stmt)
	}
	var rows uint64
	ctx = clickhouse.Context(ctx,
		clickhouse.WithQueryID(fmt.Sprintf("idlewatt-load-%d-%.8s", a.load, s.object.SHA256)),
		clickhouse.WithSettings(loadSettings()),
		clickhouse.WithProgress(func(pr *clickhouse.Progress) {
			rows += pr.Rows
			if a.p.Progress != nil {
				a.p.Progress(a.d.Delivery, rows)
			}
		}))
	return a.p.db.Exec(ctx, stmt)
}

// loadSettings make a required null an error instead of a zero, and let a bill of many
// months through in one insert.
func loadSettings() clickhouse.Settings {
	return clickhouse.Settings{
		"insert_null_as_default": 0, "max_partitions_per_insert_block": 1000,
		"max_insert_threads": 2, "min_insert_block_size_rows": 1_048_576,
	}
}

// permanent marks what the store refuses for good; what it may take later stays as it is.
func permanent(err error) error {
	if store.Temporary(err) {
		return err
	}
	return runtime.Permanent(err)
}

// shape asks which columns the format's SQL makes, once per format.
func (p *Processor) shape(ctx context.Context, s source) ([]string, error) {
	if cols, ok := p.shapes[s.format.Name]; ok {
		return cols, nil
	}
	q := "DESCRIBE TABLE (WITH src AS (" + s.sql("null("+literal(s.structure())+")", "toUInt64(1)") + ") SELECT * FROM (" + s.format.SQL + "))"
	rows, err := p.db.Query(ctx, q)
	if err != nil {
		return nil, permanent(fmt.Errorf("reading the shape of %s: %w", s.format.Name, err))
	}
	defer rows.Close() //nolint:errcheck // read only
	var cols []string
	for rows.Next() {
		var name, rest string
		if err := rows.Scan(&name, &rest, &rest, &rest, &rest, &rest, &rest); err != nil {
			return nil, fmt.Errorf("reading the shape of %s: %w", s.format.Name, err)
		}
		cols = append(cols, name)
	}
	p.shapes[s.format.Name] = cols
	return cols, rows.Err()
}

func (a *attempt) focusVersion(s source) string {
	if a.format.Dataset != "focus" {
		return ""
	}
	return normalize.FocusVersion(s.header.Names())
}

// sweepObject removes what a failed insert of one object left behind.
func (a *attempt) sweepObject(ctx context.Context, s source) {
	if err := a.remove(ctx, " AND x_Object = "+literal(s.object.SHA256)); err != nil {
		a.p.Log.WarnContext(ctx, "sweeping rows of a failed insert", slog.String("error", err.Error()))
	}
}

// sweep removes the rows of an attempt that no commit names. They are invisible anyway, so
// a failure here costs disk and nothing else; the regular sweeper comes by later.
func (a *attempt) sweep(ctx context.Context) {
	if a.load == 0 || a.committed {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if err := a.remove(ctx, ""); err != nil {
		a.p.Log.WarnContext(ctx, "sweeping rows of a refused load", slog.String("error", err.Error()))
	}
}

// remove deletes rows of the attempt, months that hold none left alone: a deletion rewrites
// every part that it is let at.
func (a *attempt) remove(ctx context.Context, where string) error {
	where = fmt.Sprintf(" WHERE x_Load >= %d AND x_Load < %d%s", a.load, a.load+1<<16, where)
	rows, err := a.p.db.Query(ctx, "SELECT DISTINCT _partition_id FROM idlewatt_store.charges"+where)
	if err != nil {
		return err
	}
	var months []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return errors.Join(err, rows.Close())
		}
		months = append(months, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, id := range months {
		if err := a.p.db.Exec(ctx, "DELETE FROM idlewatt_store.charges IN PARTITION ID "+literal(id)+where); err != nil {
			return err
		}
	}
	return nil
}
