// Package catalog knows which GPUs an instance type of a cloud has.
//
// The table is compiled from provider documents (source and confidence stand beside each
// row) and can be extended by users. An unknown type is reported, never guessed.
package catalog

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
)

//go:embed gpu_instances.csv
var table string

// Version rises with every change of the table, so that a store knows when to read it again.
const Version uint64 = 1

// GPU is what one instance type carries.
type GPU struct {
	Provider     string // aws, gcp or azure
	InstanceType string // as the bill spells it
	Vendor       string
	Model        string          // marketing name without the vendor, e.g. H100
	Count        decimal.Decimal // GPUs visible to the instance; fractions are exact to 18 digits
	Confidence   string          // primary, secondary, inferred or recall
}

// Load returns every row that has a fixed number of GPUs. Rows whose count is chosen per
// machine (GCP N1) are left out: their count must come from the bill.
func Load() ([]GPU, error) {
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading GPU catalogue: %w", err)
	}
	var out []GPU
	for _, r := range rows[1:] {
		if strings.Contains(r[4], "|") {
			continue
		}
		n, err := count(r[4])
		if err != nil {
			return nil, fmt.Errorf("reading GPU count of %s: %w", r[1], err)
		}
		out = append(out, GPU{
			Provider: r[0], InstanceType: r[1], Vendor: r[2], Model: ShortModel(r[3]), Count: n, Confidence: r[7],
		})
	}
	return out, nil
}

// thirds and sixths are written rounded in the table but mean the fraction.
var fractions = map[string][2]int64{"0.1667": {1, 6}, "0.3333": {1, 3}}

func count(s string) (decimal.Decimal, error) {
	if f, ok := fractions[s]; ok {
		return decimal.NewFromInt(f[0]).DivRound(decimal.NewFromInt(f[1]), 18), nil
	}
	return decimal.NewFromString(s)
}

// onlyMemory are the models that come with one memory size, which is then no part of the name.
var onlyMemory = strings.NewReplacer("H100 80GB", "H100", "H100 NVL 94GB", "H100 NVL", "H200 141GB", "H200")

// ShortModel strips the vendor from a model name. Memory and form factor stay where they
// tell two models of one name apart, as they set the price: A100 40GB and A100 80GB.
func ShortModel(s string) string {
	for _, p := range []string{"NVIDIA ", "AMD ", "Intel ", "Tesla "} {
		s = strings.TrimPrefix(s, p)
	}
	return onlyMemory.Replace(strings.TrimSpace(s))
}
