package utilize

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/processors/store"
	"github.com/idlewatt/idlewatt/schema/event"
)

const insertSamples = `INSERT INTO idlewatt_store.gpu_samples (Uuid, Instance, At, ReceivedAt, Target, Node, Profile, Model,
	Complete, Utilization, Engine, Sm, Tensor, Dram, PowerW, EnergyJ, FbUsedMiB, FbTotalMiB, FbUsedRatio, Xid,
	OwnerKind, Owners, OwnerLabels, OwnerConfidence, OwnerEngines, Findings, Event)`

const insertScrapes = `INSERT INTO idlewatt_store.scrapes (Target, At, ReceivedAt, Node, Ok, Complete, Error, Gpus,
	Rejected, SkewMs, Event)`

// refusals is how often the store may refuse one event, for a reason that does not look
// momentary, before it is put aside.
const refusals = 20

// handle stores a batch of scrapes and returns when the store has confirmed it.
func (p *Processor) handle(ctx context.Context, in []runtime.Delivered) []error {
	errs := make([]error, len(in))
	var good []scrape
	var of []int
	for i, d := range in {
		s, err := read(d, p.Policy)
		if err != nil {
			errs[i] = runtime.Permanent(err)
			continue
		}
		good, of = append(good, s), append(of, i)
	}
	for k, err := range p.insertAll(ctx, good) {
		errs[of[k]] = err
		if err != nil && !temporary(err) && in[of[k]].Tries >= refusals {
			errs[of[k]] = runtime.Permanent(err)
		}
	}
	days := map[time.Time]bool{}
	for k, s := range good {
		if errs[of[k]] == nil {
			touch(days, s.At)
			p.observe(s)
		}
	}
	p.markDirty(days)
	return errs
}

// observe counts one stored scrape; its further parts count for their readings alone.
func (p *Processor) observe(s scrape) {
	if p.Observe == nil {
		return
	}
	outcome := OutcomeOK
	switch {
	case s.Part > 1:
		outcome = ""
	case !s.OK:
		outcome = OutcomeFailed
	case !s.Complete:
		outcome = OutcomeIncomplete
	}
	p.Observe(outcome, s.Rejected)
}

// scrape is a checked event, with its time as it is believed.
type scrape struct {
	event.GPUSamples
	id   string
	skew time.Duration
}

// read decodes and checks one event. A sample's own time is not believed where it differs
// grossly from the time it was received: it would move use into an hour without an instance.
// Then the receive time counts for the work that it shows. Idleness does not follow from it:
// an old sample that something repeats looks the same.
func read(d runtime.Delivered, p Policy) (scrape, error) {
	s := scrape{id: d.ID}
	if err := d.Decode(&s.GPUSamples); err != nil {
		return s, err
	}
	if err := check(s.GPUSamples); err != nil {
		return s, fmt.Errorf("checking %s: %w", d.Type, err)
	}
	if s.ReceivedAt.IsZero() {
		s.ReceivedAt = s.At
	}
	if skew := s.At.Sub(s.ReceivedAt); skew > p.MaxSkew || skew < -p.MaxSkew {
		s.skew, s.At, s.Complete = skew, s.ReceivedAt, false
	}
	return s, nil
}

// check refuses what no connector of ours sends: events also come through the HTTP door.
func check(s event.GPUSamples) error {
	var errs []error
	for name, t := range map[string]time.Time{"at": s.At, "received_at": s.ReceivedAt} {
		if (name == "at" || !t.IsZero()) && (t.Year() < 2000 || t.Year() >= 2200) {
			errs = append(errs, fmt.Errorf("%s %v is not storable", name, t))
		}
	}
	if s.Target == "" {
		errs = append(errs, errors.New("target is required"))
	}
	for _, g := range s.GPUs {
		if g.UUID == "" {
			errs = append(errs, errors.New("a GPU has no uuid"))
		}
		for name, v := range map[string]*float64{
			"utilization": g.Utilization, "engine": g.Engine, "sm": g.SM, "tensor": g.Tensor, "dram": g.DRAM, "fb_used_ratio": g.FBUsedRatio,
		} {
			if v != nil && (*v < 0 || *v > 1) {
				errs = append(errs, fmt.Errorf("%s of %s: %v is no ratio between 0 and 1", name, g.UUID, *v))
			}
		}
		for name, v := range map[string]*float64{"power_w": g.PowerW, "energy_j": g.EnergyJ, "fb_used_mib": g.FBUsedMiB} {
			if v != nil && *v < 0 {
				errs = append(errs, fmt.Errorf("%s of %s is negative", name, g.UUID))
			}
		}
	}
	return errors.Join(errs...)
}

func temporary(err error) bool {
	var perm runtime.PermanentError
	return store.Temporary(err) && !errors.As(err, &perm)
}

// insertAll inserts scrapes together and, if something among them is refused, one by one. One
// that is refused while others are taken is at fault itself.
func (p *Processor) insertAll(ctx context.Context, in []scrape) []error {
	errs := make([]error, len(in))
	err := p.insert(ctx, in)
	if err == nil {
		return errs
	}
	taken := false
	for k := range in {
		if errs[k] = err; !temporary(err) && len(in) > 1 {
			errs[k] = p.insert(ctx, in[k:k+1])
			taken = taken || errs[k] == nil
		}
	}
	for k := range errs {
		if taken && errs[k] != nil && !temporary(errs[k]) {
			errs[k] = runtime.Permanent(errs[k])
		}
	}
	return errs
}

// insert writes samples before scrapes: a scrape without its samples would look like a gap.
func (p *Processor) insert(ctx context.Context, in []scrape) error {
	if len(in) == 0 {
		return nil
	}
	samples, err := p.DB.PrepareBatch(ctx, insertSamples, driver.WithReleaseConnection())
	if err != nil {
		return fmt.Errorf("storing samples: %w", err)
	}
	scrapes, err := p.DB.PrepareBatch(ctx, insertScrapes, driver.WithReleaseConnection())
	if err != nil {
		return fmt.Errorf("storing scrapes: %w", err)
	}
	for _, s := range in {
		for _, g := range s.GPUs {
			if err := samples.Append(s.sampleRow(g)...); err != nil {
				return runtime.Permanent(fmt.Errorf("storing samples: %w", err))
			}
		}
		if s.Part > 1 { // one scrape, several messages
			continue
		}
		if err := scrapes.Append(s.row()...); err != nil {
			return runtime.Permanent(fmt.Errorf("storing scrapes: %w", err))
		}
	}
	if samples.Rows() > 0 {
		if err := samples.Send(); err != nil {
			return fmt.Errorf("storing samples: %w", err)
		}
	}
	if scrapes.Rows() == 0 {
		return nil
	}
	if err := scrapes.Send(); err != nil {
		return fmt.Errorf("storing scrapes: %w", err)
	}
	return nil
}

func (s scrape) row() []any {
	rejected := make(map[string]uint32, len(s.Rejected))
	for why, n := range s.Rejected {
		rejected[why] = uint32(n) //nolint:gosec // counts of lines
	}
	return []any{
		s.Target, s.At, s.ReceivedAt, s.Node, s.OK, s.Complete, s.Error, uint32(len(s.GPUs)), //nolint:gosec // a count
		rejected, s.skew.Milliseconds(), s.id,
	}
}

func (s scrape) sampleRow(g event.GPUSample) []any {
	findings := g.Findings
	if s.skew != 0 {
		findings = append(findings[:len(findings):len(findings)], FindingSkew)
	}
	if findings == nil {
		findings = []string{}
	}
	owners, _ := ownersOf(g)
	if owners == nil {
		owners = &Owners{Names: []string{}, Labels: map[string]string{}}
	}
	engines := make([]*float64, 0, len(g.Owners))
	for _, o := range g.Owners {
		engines = append(engines, o.Engine)
	}
	node := s.Node
	if node == "" {
		node = g.Node
	}
	return []any{
		g.UUID, g.Instance, s.At, s.ReceivedAt, s.Target, node, g.Profile, g.Model,
		s.Complete, g.Utilization, g.Engine, g.SM, g.Tensor, g.DRAM, g.PowerW, g.EnergyJ, g.FBUsedMiB, g.FBTotalMiB,
		g.FBUsedRatio, g.XID, owners.Kind, owners.Names, owners.Labels, owners.Confidence, engines, findings, s.id,
	}
}
