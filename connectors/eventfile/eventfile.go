// Package eventfile reads CloudEvents JSON lines: job.*, inventory.* and invoices that
// another system wrote down. It is the file form of POST /v1/events.
//
// Which types may come from outside is decided here, for both; what they mean is not.
package eventfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/money"
)

// maxLine is the longest line that is read: a message has to fit the bus.
const maxLine = 1 << 20

// Factory describes the format; it has no live connector.
func Factory() connectors.Factory {
	return connectors.Factory{
		Type: "eventfile", Summary: "CloudEvents JSON lines: jobs, inventory, invoices (by hand)",
		Formats: []connectors.Format{{Name: "events", Sniff: sniff, Decode: decode}},
	}
}

func sniff(head []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")) && bytes.Contains(head, []byte(`"specversion"`))
}

func decode(ctx context.Context, f connectors.File, emit connectors.Emitter) error {
	r := bufio.NewReaderSize(f.Body, 64<<10)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if len(line) > maxLine {
			if berr := f.Bad(ctx, line[:maxLine], fmt.Errorf("%s, line %d: longer than 1 MiB", f.Name, n)); berr != nil {
				return berr
			}
		} else if t := bytes.TrimSpace(line); len(t) > 0 {
			if lerr := one(ctx, f, n, t, emit); lerr != nil {
				return lerr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s, line %d: %w", f.Name, n, err)
		}
	}
}

func one(ctx context.Context, f connectors.File, n int, line []byte, emit connectors.Emitter) error {
	e, err := event.ParseJSON(line)
	if err == nil {
		err = Check(e)
	}
	if err != nil {
		return f.Bad(ctx, line, fmt.Errorf("%s, line %d: %w", f.Name, n, err))
	}
	if e.Time.IsZero() || e.Time.Year() < 1990 {
		e.Time = f.Now
	}
	return emit.Event(ctx, e)
}

// Check reports what keeps an event from outside from being taken: a type that only idlewatt
// itself publishes, or a payload that its type does not allow.
func Check(e event.Event) error {
	switch {
	case strings.HasPrefix(e.Type, "job."):
		return checkJob(e)
	case e.Type == event.TypeInventoryInstance:
		var i event.Instance
		if err := e.Decode(&i); err != nil {
			return err
		}
		return errors.Join(required(map[string]string{"resource_id": i.ResourceID, "provider": i.Provider}), exact("rate", i.Rate), exact("gpu_count", i.GPUCount))
	case e.Type == event.TypeInventoryPrice:
		var p event.Price
		if err := e.Decode(&p); err != nil {
			return err
		}
		return errors.Join(exact("rate", &p.Rate),
			required(map[string]string{"provider": p.Provider, "instance_type": p.InstanceType, "pricing_model": p.PricingModel, "currency": p.Currency, "per": p.Per}))
	case e.Type == event.TypeInventoryPoll:
		var p event.Poll
		if err := e.Decode(&p); err != nil {
			return err
		}
		return required(map[string]string{"source": p.Source, "provider": p.Provider})
	case e.Type == event.TypeInventoryWallet:
		var w event.Wallet
		if err := e.Decode(&w); err != nil {
			return err
		}
		return required(map[string]string{"source": w.Source, "provider": w.Provider, "currency": w.Currency})
	case e.Type == event.TypeInventoryNode:
		var n event.Node
		if err := e.Decode(&n); err != nil {
			return err
		}
		return required(map[string]string{"source": n.Source, "name": n.Name, "state": n.State})
	case e.Type == event.TypeBillingInvoice:
		var i event.BillingInvoice
		return e.Decode(&i)
	default:
		return fmt.Errorf("type %q is not taken from outside: want job.started, job.placed, job.checkpointed, job.finished, inventory.instance, inventory.price, inventory.poll, inventory.wallet, inventory.node or billing.invoice", e.Type)
	}
}

// outcomes are Slurm's words; Kubernetes reasons are mapped to them by whoever sends.
var outcomes = "COMPLETED FAILED CANCELLED TIMEOUT PREEMPTED NODE_FAIL OUT_OF_MEMORY"

func checkJob(e event.Event) error {
	switch e.Type {
	case event.TypeJobStarted, event.TypeJobPlaced, event.TypeJobCheckpointed, event.TypeJobFinished:
	default:
		return fmt.Errorf("unknown type %q: want job.started, job.placed, job.checkpointed or job.finished", e.Type)
	}
	var j event.Job
	if err := e.Decode(&j); err != nil {
		return err
	}
	if err := required(map[string]string{"scheduler": j.Scheduler, "id": j.ID}); err != nil {
		return err
	}
	switch {
	case j.Outcome != "" && !strings.Contains(" "+outcomes+" ", " "+j.Outcome+" "):
		return fmt.Errorf("field outcome: %q is none of %s", j.Outcome, outcomes)
	case j.Evidence != "" && j.Evidence != event.EvidenceScheduler && j.Evidence != event.EvidenceCloud && j.Evidence != event.EvidenceDeclared:
		return fmt.Errorf("field x_Evidence: %q is none of scheduler, cloud, declared", j.Evidence)
	case j.Start != nil && j.End != nil && j.End.Before(*j.Start):
		return fmt.Errorf("field end: %s is before start %s", j.End, j.Start)
	case j.Attempt < 0 || j.Attempt > 65535:
		return fmt.Errorf("field attempt: %d is out of range", j.Attempt)
	}
	return nil
}

// exact refuses what the store could not keep to the last digit.
func exact(name string, d *money.Decimal) error {
	if d == nil {
		return nil
	}
	if err := money.Check(*d); err != nil {
		return fmt.Errorf("field %s: %w", name, err)
	}
	return nil
}

func required(fields map[string]string) error {
	var errs []error
	for name, v := range fields {
		if strings.TrimSpace(v) == "" {
			errs = append(errs, fmt.Errorf("field %s is required", name))
		}
	}
	return errors.Join(errs...)
}
