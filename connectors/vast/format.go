package vast

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/schema/lines"
)

// maxFile bounds one answer in a file.
const maxFile = 64 << 20

var (
	charged = regexp.MustCompile(`"(source"\s*:\s*"(instance|volume|endpoint|workergroup)-\d|instance_id"\s*:\s*"?\d)`)
	listed  = regexp.MustCompile(`"(instances_found|label_counts)"\s*:`)
	service = regexp.MustCompile(`"(service|type)"\s*:\s*"(stripe|stripe_payments|instance_prepay|bitpay|coinbase|crypto\.com|paypal_manual|wise_manual)"`)
)

// sniff recognises charges, invoices and contracts of Vast.ai.
func sniff(head []byte) bool {
	if !bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")) {
		return false
	}
	return listed.Match(head) || bytes.Contains(head, []byte(`"results"`)) && (charged.Match(head) || service.Match(head))
}

// decodeLines writes the charges in files: pages of /api/v0/charges/ in the forms table and
// tree, or of the older list; pages of contracts give names and GPUs; payments are left out
// and said so. The days that rows lie on are covered: give all pages of an answer.
func decodeLines(ctx context.Context, files []connectors.File, w *lines.Writer) ([]string, error) {
	in := &reading{contracts: memory{}}
	for n, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := in.file(f, n); err != nil {
			return nil, err
		}
	}
	if err := in.complete(); err != nil {
		return nil, err
	}
	if err := disjoint(in.charges); err != nil {
		return nil, err
	}
	b := booker{account: in.account, contract: in.contracts.find}
	if err := b.write(in.charges, w); err != nil {
		return nil, err
	}
	return covered(in.charges), nil
}

// reading is what the files of one import held.
type reading struct {
	account   string
	charges   []found
	contracts memory
	pages     []string // files with pages of charges
	last      page     // the last of them
	rows      int
	totals    int
	totalled  bool // every answer said how many rows it has
	ended     bool
}

func (in *reading) file(f connectors.File, n int) error {
	raw, err := io.ReadAll(io.LimitReader(f.Body, maxFile+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.Name, err)
	}
	if len(raw) > maxFile {
		return fmt.Errorf("reading %s: more than %d MiB for one answer", f.Name, maxFile>>20)
	}
	var p page
	if err := json.Unmarshal(raw, &p); err != nil {
		return fmt.Errorf("reading %s: it is no answer of Vast.ai in JSON, or it is cut off: %w", f.Name, err)
	}
	if err := p.check(); err != nil {
		return fmt.Errorf("reading %s: %w", f.Name, err)
	}
	in.account = f.Account
	if p.Contracts != nil {
		return in.contracts.learn(p.Contracts, f.Name, f.Now)
	}
	charges, paid, err := gather(p, f.Name, n)
	if err != nil {
		return fmt.Errorf("reading %w", err)
	}
	if len(paid) > 0 {
		f.Leave(f.Name + ": " + paidText(paid))
	}
	if len(charges) > 0 || len(paid) == 0 {
		in.page(p, f.Name)
		in.charges = append(in.charges, charges...)
	}
	return nil
}

func (in *reading) page(p page, name string) {
	in.totalled = (in.totalled || len(in.pages) == 0) && p.Total != nil
	in.pages, in.last = append(in.pages, name), p
	in.rows += len(p.Results)
	if p.next() == "" {
		in.ended = true
		if p.Total != nil {
			in.totals += *p.Total
		}
	}
}

// complete refuses an answer without all of its pages: its sum would be too small.
func (in *reading) complete() error {
	if len(in.pages) == 0 {
		return errors.New("the files hold no charges, only contracts or payments, which are no costs: give the pages of /api/v0/charges/")
	}
	name := in.pages[len(in.pages)-1]
	switch {
	case !in.ended || !in.totalled && in.last.next() != "":
		return fmt.Errorf("%s is not the last page of its answer (next_token is set): give all pages, in their order", name)
	case in.totalled && in.rows != in.totals:
		return fmt.Errorf("the pages up to %s hold %d rows, their answers have %d: a page is missing, or is there twice", name, in.rows, in.totals)
	}
	return nil
}
