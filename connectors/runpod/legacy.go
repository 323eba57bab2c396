package runpod

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/lines"
)

// legacyRow is a record of v1's billing, switched off in November 2026; exports of it live on.
// Money is in amount: of pods and endpoints GPU, CPU and disk in one, of volumes standard and
// high performance in one. The bucket's length is not told.
type legacyRow struct {
	Time     time.Time `json:"time"`
	Amount   amount    `json:"amount"`
	BilledMs amount    `json:"timeBilledMs"`
	Pod      string    `json:"podId"`
	Endpoint string    `json:"endpointId"`
	GPU      string    `json:"gpuTypeId"`
	Fast     amount    `json:"highPerformanceStorageAmount"`
}

// takeLegacy reads one bare array: billing records, or the list of pods.
func (p *pile) takeLegacy(raw []byte) error {
	var fields []map[string]json.RawMessage
	if err := decode(raw, &fields); err != nil {
		return err
	}
	if len(fields) == 0 {
		return errors.New("it is an empty list: nothing tells what of")
	}
	if fields[0]["time"] == nil && fields[0]["id"] != nil {
		var pods []pod
		if err := decode(raw, &pods); err != nil {
			return err
		}
		for _, x := range pods {
			x.Cost = x.CostPerHr // told of stopped pods too, as a number or in quotes
			p.takePod(x)
		}
		return nil
	}
	var rows []legacyRow
	if err := decode(raw, &rows); err != nil {
		return err
	}
	for i, r := range rows {
		if r.Time.IsZero() || !r.Amount.set {
			return fmt.Errorf("record %d: time or amount is missing: it is no record of v1's billing", i+1)
		}
		rows[i].Time = r.Time.UTC()
	}
	p.legacy = append(p.legacy, rows...)
	return nil
}

// bucketOf infers the length of v1's buckets from their beginnings.
func bucketOf(rows []legacyRow) (time.Duration, error) {
	var starts []time.Time
	length := day
	for _, r := range rows {
		starts = append(starts, r.Time)
		if !r.Time.Equal(r.Time.Truncate(day)) {
			length = time.Hour
		}
		if !r.Time.Equal(r.Time.Truncate(time.Hour)) {
			return 0, fmt.Errorf("a bucket begins at %s: want hours or days in UTC", r.Time.Format(time.RFC3339))
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	for i := 1; i < len(starts); i++ {
		if d := starts[i].Sub(starts[i-1]); d > 0 && d < length {
			return 0, fmt.Errorf("buckets begin %s apart: want hours or days in UTC", d)
		}
	}
	for _, r := range rows {
		if r.BilledMs.GreaterThan(decimal.NewFromInt(length.Milliseconds())) && r.Pod != "" {
			return 0, fmt.Errorf("pod %s was billed for %s ms from %s on, longer than %s: only buckets of an hour or a day can be read", r.Pod, r.BilledMs, r.Time.Format(time.RFC3339), length)
		}
	}
	return length, nil
}

// legacyLines writes v1's records; it returns the days that have any.
func (k ledger) legacyLines(rows []legacyRow) ([]lines.Line, []string, error) {
	length, err := bucketOf(rows)
	if err != nil {
		return nil, nil, err
	}
	var out []lines.Line
	var days []string
	seen := map[string]bool{}
	for _, r := range rows {
		key := r.Time.Format(time.RFC3339) + "/" + r.Pod + "/" + r.Endpoint + "/" + r.GPU + fmt.Sprint(r.BilledMs.set)
		if seen[key] {
			return nil, nil, fmt.Errorf("two records of pod %q, endpoint %q, GPU type %q begin %s: give each file once", r.Pod, r.Endpoint, r.GPU, r.Time.Format(time.RFC3339))
		}
		seen[key] = true
		if d := r.Time.Format(time.DateOnly); !slices.Contains(days, d) {
			days = append(days, d)
		}
		out = append(out, k.legacy(r, length)...)
	}
	slices.Sort(days)
	return out, days, nil
}

const mixed = " (REST v1: GPU, CPU and disk in one amount)"

func (k ledger) legacy(r legacyRow, length time.Duration) []lines.Line {
	x := row{from: r.Time, to: r.Time.Add(length)}
	var out []lines.Line
	add := func(l lines.Line) {
		if !l.BilledCost.IsZero() {
			out = append(out, l)
		}
	}
	switch {
	case r.Endpoint != "":
		x.id = r.Endpoint
		l := k.line(routes[1], x, k.thing(whatServerless, x.id), meters["serverless.gpuAmount"], r.Amount.Decimal)
		l.ChargeDescription = "Serverless" + mixed
		l.SkuMeter = ""
		add(l)
	case r.Pod != "" || r.GPU != "":
		x.id = r.Pod
		t := k.thing(whatPod, x.id)
		l := k.line(routes[0], x, t, meters["pods.gpuAmount"], r.Amount.Decimal)
		l.ChargeDescription = "Pods" + mixed
		l.SkuMeter = ""
		k.legacyHours(&l, r, t)
		add(l)
	default:
		volumes := routes[3]
		add(k.line(volumes, x, &thing{}, meters["network-volumes.standardAmount"], r.Amount.Sub(r.Fast.Decimal)))
		add(k.line(volumes, x, &thing{}, meters["network-volumes.highPerformanceAmount"], r.Fast.Decimal))
	}
	return out
}

// legacyHours are the billed time, for a pod of one GPU: of more it is not documented whether
// v1 counts the pod's time or each GPU's.
func (k ledger) legacyHours(l *lines.Line, r legacyRow, t *thing) {
	if r.GPU != "" {
		l.GPUModel, l.InstanceType = model(r.GPU), r.GPU
	}
	if t.GPU == "" || t.CPU {
		return
	}
	n := decimal.NewFromInt(t.Count)
	l.GPUModel, l.GPUCount = model(t.GPU), &n
	if t.Count == 1 && r.BilledMs.IsPositive() {
		h := r.BilledMs.DivRound(decimal.NewFromInt(time.Hour.Milliseconds()), hourDigits)
		l.MachineHours, l.ConsumedQuantity, l.ConsumedUnit = &h, &h, "Hours"
	}
}

func (k ledger) thing(what, id string) *thing {
	if t := k.things[what+"/"+id]; t != nil {
		return t
	}
	return &thing{}
}
