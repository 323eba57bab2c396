package connectortest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/all"
	"github.com/idlewatt/idlewatt/schema/lines"
)

// samples are right files of every format; strangers are files of none.
func samples() map[string][]string {
	return map[string][]string{
		"dcgm": {
			"../dcgm/testdata/k8s-8xh100-pods.prom", "../dcgm/testdata/mig-node.prom", "../dcgm/testdata/slurm-hpc-job.prom",
			"../dcgm/testdata/dcgm46-canonical-names.prom",
		},
		"slurm": {
			"../slurm/testdata/sacct-24.11.json", "../slurm/testdata/sacct-21.08.json", "../slurm/testdata/nodes-24.11.json",
		},
		"events":     {"../eventfile/testdata/jobs.jsonl"},
		"invoice":    {"../invoicefile/testdata/invoices.csv"},
		"nvidia-smi": {"../nvidiasmi/testdata/units.csv", "../nvidiasmi/testdata/nounits.csv"},
		"lambda": {
			"../lambda/testdata/lambda_audit_events_page1.json", "../lambda/testdata/lambda_instances.json",
			"../lambda/testdata/lambda_instance_types.json",
		},
		"vast": {
			"../vast/testdata/vast_v0_charges_table.json", "../vast/testdata/vast_v0_charges_tree.json",
		},
		"runpod": {
			"../runpod/testdata/runpod_v2_billing_pods.json", "../runpod/testdata/runpod_v2_billing_serverless.json",
			"../runpod/testdata/runpod_v2_billing_endpoints.json", "../runpod/testdata/runpod_v2_billing_network-volumes.json",
			"../runpod/testdata/runpod_v2_billing_clusters.json", "../runpod/testdata/runpod_v1_legacy_billing_pods.json",
			"../runpod/testdata/runpod_v1_legacy_billing_endpoints.json", "../runpod/testdata/runpod_v1_legacy_billing_networkvolumes.json",
		},
		"crusoe":   {"../crusoe/testdata/crusoe_billing_costs.json"},
		"together": {"../together/testdata/together_billing_usage.json"},
	}
}

var strangers = map[string]string{
	"a bill":         "BillingAccountId,BillingCurrency,BillingPeriodStart,ChargePeriodStart,ChargePeriodEnd,BilledCost\n1,USD,2026-10-01,2026-10-01,2026-10-02,1\n",
	"an AWS bill":    "identity/LineItemId,bill/InvoiceId,lineItem/LineItemType,lineItem/UnblendedCost\nL1,I1,Usage,1\n",
	"Parquet":        "PAR1\x15\x04\x15\x10PAR1",
	"gzip":           "\x1f\x8b\x08\x00\x00\x00\x00\x00",
	"node metrics":   "# HELP node_load1 1m load average.\n# TYPE node_load1 gauge\nnode_load1 0.5\n",
	"other JSON":     `{"a":1}`,
	"nothing":        "",
	"a page":         "<html></html>",
	"a bare newline": "\n",
}

func TestSniffKnowsItsOwnAndNoOther(t *testing.T) {
	t.Parallel()
	for name, f := range all.Formats() {
		if f.Sniff == nil || len(samples()[name]) == 0 {
			t.Errorf("%s: wants Sniff, and samples in this suite", name)
			continue
		}
		for owner, paths := range samples() {
			for _, p := range paths {
				head := read(t, p)
				head = head[:min(len(head), 64<<10)]
				if got := f.Sniff(head); got != (owner == name) {
					t.Errorf("%s.Sniff(%s) = %v", name, p, got)
				}
			}
		}
		for what, text := range strangers {
			if f.Sniff([]byte(text)) {
				t.Errorf("%s takes %s for its own", name, what)
			}
		}
	}
}

func decode(ctx context.Context, f connectors.Format, body []byte) (events, bad int, err error) {
	var k taker
	file := connectors.File{
		Name: "file", Source: "src", Account: "src", At: time.Date(2026, 10, 17, 10, 0, 0, 0, time.UTC), Now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		Body: bytes.NewReader(body),
		Bad: func(_ context.Context, raw []byte, reason error) error {
			if bad++; reason == nil || len(raw) == 0 {
				return errors.New("a refused part without its bytes or its reason")
			}
			return nil
		},
	}
	if f.Lines == nil {
		err = f.Decode(ctx, file, &k)
		return len(k.events), bad, err
	}
	w, err := lines.NewWriter(io.Discard)
	if err == nil {
		_, err = f.Lines(ctx, []connectors.File{file}, w)
	}
	return w.Count(), bad, err
}

func TestSamplesDecodeWhole(t *testing.T) {
	t.Parallel()
	for name, f := range all.Formats() {
		for _, p := range samples()[name] {
			if events, bad, err := decode(t.Context(), f, read(t, p)); err != nil || bad != 0 || events == 0 {
				t.Errorf("%s: %d events, %d refused, %v", p, events, bad, err)
			}
		}
	}
}

// Every beginning of a right file is decoded, or refused with the file's name; nothing panics.
// Of long files every 97th beginning.
func TestEveryPrefixIsTakenOrRefused(t *testing.T) {
	t.Parallel()
	for name, f := range all.Formats() {
		for _, p := range samples()[name] {
			whole := read(t, p)
			step := 1
			if len(whole) > 4096 {
				step = 97
			}
			for n := 0; n < len(whole); n += step {
				_, _, err := decode(t.Context(), f, whole[:n])
				if err != nil && !strings.Contains(err.Error(), "file") {
					t.Errorf("%s, first %d bytes: %v does not name the file", p, n, err)
				}
			}
		}
	}
}

// An emitter that refuses ends the decoding with its error.
func TestDecodeStopsAtARefusal(t *testing.T) {
	t.Parallel()
	for name, f := range all.Formats() {
		if (f.Decode == nil) == (f.Lines == nil) {
			t.Errorf("%s: wants Decode or Lines", name)
		}
		if f.Decode == nil {
			continue
		}
		k := taker{failAt: 1}
		err := f.Decode(t.Context(), connectors.File{
			Name: "file", Source: "src", At: time.Date(2026, 10, 17, 10, 0, 0, 0, time.UTC), Body: bytes.NewReader(read(t, samples()[name][0])),
			Bad: func(context.Context, []byte, error) error { return nil },
		}, &k)
		if !errors.Is(err, errRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDecode feeds every format with anything: no panic, and refused parts have a reason.
func FuzzDecode(f *testing.F) {
	for _, paths := range samples() {
		for _, p := range paths {
			text, err := os.ReadFile(filepath.FromSlash(p))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text[:min(len(text), 2048)])
		}
	}
	for _, text := range strangers {
		f.Add([]byte(text))
	}
	formats := all.Formats()
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, x := range formats {
			_, bad, err := decode(t.Context(), x, body)
			if err != nil && err.Error() == "a refused part without its bytes or its reason" {
				t.Errorf("%s: %v (%d)", name, err, bad)
			}
			x.Sniff(body)
		}
	})
}
