package vast

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/money"
)

// page is one page of an answer. Vast.ai answers some refusals with HTTP 200 and success false.
type page struct {
	Success   *bool             `json:"success"`
	Error     string            `json:"error"`
	Msg       string            `json:"msg"`
	Count     *int              `json:"count"` // rows of this page
	Total     *int              `json:"total"` // rows of all pages
	NextToken *string           `json:"next_token"`
	Results   []json.RawMessage `json:"results"`
	// Found and Contracts are those of the list of contracts.
	Found     *int              `json:"instances_found"`
	Contracts []json.RawMessage `json:"instances"`
}

// check reports an answer that is a refusal or has lost rows.
func (p page) check() error {
	switch {
	case p.Success != nil && !*p.Success:
		return fmt.Errorf("it answered success false: %s", strings.TrimSpace(p.Error+" "+p.Msg))
	case p.Results == nil && p.Contracts == nil:
		return errors.New("it answered neither results nor instances")
	case p.Count != nil && *p.Count != len(p.Results):
		return fmt.Errorf("a page says that it has %d rows and has %d", *p.Count, len(p.Results))
	}
	return nil
}

func (p page) next() string {
	if p.NextToken == nil {
		return ""
	}
	return *p.NextToken
}

// row is one row of charges, in three forms: contract or volume with items (table), wrapper
// of rows (tree), or one item of the older list with instance_id and timestamp.
type row struct {
	Type        string      `json:"type"`
	Source      *string     `json:"source"`
	Start       json.Number `json:"start"` // epoch s UTC of the first day
	End         json.Number `json:"end"`   // epoch s UTC of the last day, inclusive
	Description string      `json:"description"`
	Amount      json.Number `json:"amount"` // USD
	Metadata    metadata    `json:"metadata"`
	Items       []row       `json:"items"`

	InstanceID json.Number `json:"instance_id"`
	Timestamp  json.Number `json:"timestamp"`
	Quantity   json.Number `json:"quantity"`
}

type metadata struct {
	Label       string      `json:"label"`
	EndpointID  json.Number `json:"endpoint_id"`
	WorkerGroup json.Number `json:"workergroup_id"`
	Service     string      `json:"service"` // of an invoice
}

// contract is one row of the list of contracts. Fields with secrets have no place here.
type contract struct {
	ID            json.Number `json:"id"`
	Label         string      `json:"label"`
	ActualStatus  string      `json:"actual_status"` // null while it is being made
	NumGPUs       json.Number `json:"num_gpus"`
	GPUName       string      `json:"gpu_name"`
	GPURAM        json.Number `json:"gpu_ram"`            // MB of one GPU
	GPUUtil       json.Number `json:"gpu_util"`           // percent over all GPUs of the contract; not in the spec, shown by the CLI
	DPHBase       json.Number `json:"dph_base"`           // USD/h, all GPUs of the contract
	StorageTotal  json.Number `json:"storage_total_cost"` // USD/h
	IsBid         bool        `json:"is_bid"`
	StartDate     json.Number `json:"start_date"`     // epoch s: when the contract was made
	CreditBalance json.Number `json:"credit_balance"` // deposit left of a reserved contract
	Geolocation   string      `json:"geolocation"`    // "Norway, NO"
}

// columns are those of the list of contracts that are asked for: tokens, environments,
// start scripts and addresses stay where they are.
var columns = []string{
	"id", "label", "actual_status", "num_gpus", "gpu_name", "gpu_ram", "gpu_util", "dph_base", "storage_total_cost",
	"is_bid", "start_date", "credit_balance", "geolocation",
}

const (
	statusRunning = "running"
	statusOffline = "offline" // nothing is billed while the host is down (guides/reference/billing.mdx)
)

// decode reads one row; what it cannot read is named without the row, which may hold secrets.
func decode(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) {
			return fmt.Errorf("field %s is a %s", t.Field, t.Value)
		}
		return errors.New("is no JSON object as documented")
	}
	return nil
}

// amount reads money or a quantity exactly; nil if absent.
func amount(field string, n json.Number) (*money.Decimal, error) {
	if n == "" {
		return nil, nil //nolint:nilnil // absent is not zero
	}
	d, _, err := money.Parse(n.String())
	if err != nil {
		return nil, fmt.Errorf("field %s: %w", field, err)
	}
	return &d, nil
}

// day reads an epoch stamp in seconds as the UTC day that it lies in.
func day(field string, n json.Number) (time.Time, error) {
	t, err := epoch(field, n)
	return t.Truncate(24 * time.Hour), err
}

// Stamps are of 2015 to 2099; one in milliseconds is none of them.
const earliest, latest = 1420070400000, 4102444800000

// epoch reads a stamp in seconds, whole or with a fraction, to the millisecond.
func epoch(field string, n json.Number) (time.Time, error) {
	d, err := amount(field, n)
	if err != nil {
		return time.Time{}, err
	}
	if d == nil {
		return time.Time{}, fmt.Errorf("field %s is missing", field)
	}
	if s := d.Shift(3); s.GreaterThanOrEqual(decimal.NewFromInt(earliest)) && s.LessThan(decimal.NewFromInt(latest)) {
		return time.UnixMilli(s.IntPart()).UTC(), nil
	}
	return time.Time{}, fmt.Errorf("field %s: %s is no time in seconds since 1970", field, n)
}

// country is the code at the end of a place such as "Norway, NO"; the place itself if there is none.
func country(place string) string {
	if i := strings.LastIndex(place, ","); i >= 0 {
		return strings.TrimSpace(place[i+1:])
	}
	return strings.TrimSpace(place)
}

var formFactor = regexp.MustCompile(`(?i)[ _-]?(SXM\d*|PCIE|NVL)$`)

// model is a GPU name of Vast.ai in catalogue words: form factors go and memory comes where
// one name has two sizes. Names of consumer cards stay as they are.
func model(name, ramMB string) string {
	short := strings.TrimPrefix(strings.TrimSpace(name), "Tesla ")
	bare := formFactor.ReplaceAllString(short, "")
	var size map[int]string
	switch bare {
	case "A100", "A100X":
		size = map[int]string{40: "A100 40GB", 80: "A100 80GB"}
	case "V100":
		size = map[int]string{16: "V100 16GB", 32: "V100 32GB"}
	case "H100":
		if strings.HasSuffix(strings.ToUpper(short), "NVL") {
			return "H100 NVL"
		}
		return bare
	case "H200", "B200", "B300", "GH200", "P100", "T4", "A10", "L4", "L40S", "P40", "P4", "K80", "M60":
		return bare
	default:
		return short
	}
	var mb int
	if _, err := fmt.Sscan(ramMB, &mb); err == nil {
		for gb, s := range size {
			if gib := mb / 1024; gib >= gb*9/10-1 && gib <= gb+1 {
				return s
			}
		}
	}
	return bare
}
