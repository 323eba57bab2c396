package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/catalog"
	"github.com/idlewatt/idlewatt/schema/event"
)

// maxFile bounds a file of answers.
const maxFile = 256 << 20

var (
	ofTypes       = regexp.MustCompile(`"price_cents_per_hour"\s*:`)
	ofFilesystems = regexp.MustCompile(`"mount_point"\s*:[^}]*"created"\s*:`)
	ofAudit       = regexp.MustCompile(`"(resource_lrns|resource_owner_lrn)"\s*:`)
	enveloped     = regexp.MustCompile(`^\s*\{\s*"(data|page_token)"\s*:`)
)

// sniff recognises answers of Lambda: an envelope, and a field that only it has.
func sniff(head []byte) bool {
	return enveloped.Match(head) && (ofTypes.Match(head) || ofFilesystems.Match(head) || ofAudit.Match(head))
}

// decode reads answers of one route, one after another in a file: all pages of /audit-events
// (runs between a launch and an end), or /instances and /instance-types as they were --at a
// moment. A list of machines proves a moment and no time: it names them, and costs nothing.
func decode(ctx context.Context, f connectors.File, emit connectors.Emitter) error {
	raw, err := io.ReadAll(io.LimitReader(f.Body, maxFile+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.Name, err)
	}
	if len(raw) > maxFile {
		return fmt.Errorf("reading %s: more than %d MiB: divide it", f.Name, maxFile>>20)
	}
	in := &imported{file: f, lives: lives{}}
	d := json.NewDecoder(bytes.NewReader(raw))
	for n := 1; ; n++ {
		var doc struct {
			Data  json.RawMessage `json:"data"`
			Token string          `json:"page_token"`
		}
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) && n > 1 {
			break
		}
		if err == nil && doc.Data == nil {
			err = errors.New("it has no data")
		}
		if err == nil {
			in.more = doc.Token != ""
			err = in.answer(doc.Data)
		}
		if err != nil {
			return fmt.Errorf("reading %s, answer %d: %w", f.Name, n, err)
		}
	}
	in.runs()
	if in.stored > 0 {
		f.Leave(fmt.Sprintf("%s: %d file systems: what is in them at one moment is no cost, only polls can tell it", f.Name, in.stored))
	}
	if err := connectors.TellRuns(ctx, emit, f.Source, in.told); err != nil {
		return err
	}
	for _, e := range in.events {
		if err := emit.Event(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// imported is what a file holds.
type imported struct {
	file   connectors.File
	lives  lives
	more   bool // the last answer has another page
	stored int  // file systems
	told   []connectors.Told
	events []event.Event
}

func (in *imported) account() string {
	if in.file.Account != "" {
		return in.file.Account
	}
	return in.file.Source
}

// answer tells the routes apart by what their rows have.
func (in *imported) answer(data json.RawMessage) error {
	var rows []json.RawMessage
	if err := json.Unmarshal(data, &rows); err != nil {
		return in.types(data)
	}
	for n, raw := range rows {
		var kind struct {
			Type    json.RawMessage `json:"instance_type"`
			Mount   *string         `json:"mount_point"`
			Action  *string         `json:"action"`
			Service *string         `json:"service_name"`
		}
		err := json.Unmarshal(raw, &kind)
		switch {
		case err != nil:
			err = errors.New("is no JSON object as documented")
		case kind.Action != nil || kind.Service != nil:
			err = in.auditEvent(raw)
		case kind.Type != nil:
			err = in.machine(raw)
		case kind.Mount != nil:
			in.stored++
		default:
			err = errors.New("is neither an instance nor a file system nor an audit event")
		}
		if err != nil {
			return fmt.Errorf("data[%d]: %w", n, err)
		}
	}
	return nil
}

// at is the moment of a list, which does not say it itself.
func (in *imported) at() (time.Time, error) {
	if in.file.At.IsZero() {
		return time.Time{}, errors.New("the answer carries no time: say with --at TIME when it was asked for")
	}
	return in.file.At.UTC().Truncate(time.Millisecond), nil
}

func (in *imported) auditEvent(raw []byte) error {
	var e auditEvent
	if err := object(raw, &e); err != nil {
		return err
	}
	return in.lives.take(e, time.Unix(1<<40, 0)) // nobody watched: only what says so is a launch
}

func (in *imported) machine(raw []byte) error {
	var i instance
	if err := object(raw, &i); err != nil {
		return err
	}
	if !i.billed() {
		return nil
	}
	run, err := i.run(in.account())
	if err != nil {
		return err
	}
	at, err := in.at()
	if err != nil {
		return err
	}
	// A record without type and rate is a name and no run: it ends none that polls know of.
	run.InstanceType, run.PricingModel, run.Rate, run.Currency, run.Step = "", "", nil, "", 0
	run.SeenFrom, run.SeenTo = at, &at
	in.told = append(in.told, connectors.Tell(run, at))
	return nil
}

func (in *imported) types(data []byte) error {
	var l typeList
	if err := object(data, &l.Data); err != nil {
		return err
	}
	for _, name := range l.names() {
		at, err := in.at()
		if err != nil {
			return err
		}
		p, err := l.Data[name].Type.price(in.file.Source, name, at)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		e, err := event.New(event.TypeInventoryPrice, "idlewatt/"+in.file.Source, "list/"+name, at.Format(time.RFC3339), at, p)
		if err != nil {
			return err
		}
		in.events = append(in.events, e)
	}
	return nil
}

// runs makes runs of the audit log. An instance without both ends, such as one that runs on,
// is left out and said.
func (in *imported) runs() {
	for _, id := range slices.Sorted(maps.Keys(in.lives)) {
		x := in.lives[id]
		switch {
		case !x.Launched.IsZero() && x.Ended.After(x.Launched):
			run := x.unseen(id, in.account(), false)
			named(&run)
			in.told = append(in.told, connectors.Tell(run, x.Ended))
		case !x.Launched.IsZero():
			in.leave(id, "end")
		case !x.Ended.IsZero():
			in.leave(id, "launch")
		}
	}
}

// typeName is how Lambda calls a type: gpu_8x_h100_sxm5, gpu_1x_a10, gpu_8x_a100_80gb_sxm4.
var typeName = regexp.MustCompile(`^gpu_(\d{1,3})x_([a-z0-9]+?)(?:_(\d+gb))?(?:_[a-z0-9_]+)?$`)

// named adds the GPUs that a type's name tells, where no list says them.
func named(run *event.Instance) {
	m := typeName.FindStringSubmatch(run.InstanceType)
	if m == nil || run.GPUCount != nil {
		return
	}
	if n, err := decimal.NewFromString(m[1]); err == nil && n.IsPositive() {
		run.GPUCount, run.GPUModel = &n, catalog.ShortModel(strings.TrimSpace(strings.ToUpper(m[2]+" "+m[3])))
	}
}

func (in *imported) leave(id, what string) {
	line := fmt.Sprintf("%s: instance %s has no %s in this file", in.file.Name, id, what)
	if in.more {
		line += ", whose last answer has a page_token: put all pages into one file, one after another"
	}
	in.file.Leave(line)
}

// object reads a part of an answer; what it cannot read is named without the part, which may
// hold secrets.
func object(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) {
			return fmt.Errorf("field %s is a %s", t.Field, t.Value)
		}
		return errors.New("is no JSON as documented")
	}
	return nil
}
