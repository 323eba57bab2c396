package demo

import "time"

// pair is one entry of a map column. Maps are written in the order given here: Go's own maps
// have none.
type pair struct{ key, value string }

// payer is what all lines of one organisation's bill share.
type payer struct {
	id, name  string
	invoiceID string // empty until the period is final
	billType  string
}

// item is what is sold: everything that a SKU decides.
type item struct {
	product, service, usage, operation string
	description, unit, family, term    string
	instance, sku, rateID              string
	rate                               units
	attributes                         []pair // the product map
}

// holder is what is charged: the account, the resource and its tags.
type holder struct {
	account, name  string
	zone, resource string
	tags           []pair
}

func (h *holder) project() string {
	for _, t := range h.tags {
		if t.key == "user_project" {
			return t.value
		}
	}
	return ""
}

// plan holds the savings plan columns of a line.
type plan struct {
	arn             string
	rate            units
	effective       opt
	total, used     opt
	upfront, recurs opt
}

// split holds the split cost allocation columns of a line.
type split struct {
	parent, ratio    string
	cost, unused     opt
	reserved, actual opt
}

// line is one row of the bill.
type line struct {
	payer    *payer
	item     *item
	holder   *holder
	kind     string
	from, to time.Time
	interval string

	amount units
	cost   units // unblended
	net    units // after private discounts
	rate   opt
	list   opt // public on-demand cost

	description string // instead of the item's
	taxType     string
	capacity    string // status of the capacity reservation
	capacityARN string
	plan        *plan
	split       *split
	id          uint64
}

// billed is what the invoice holds of the line. Covered usage and its negation cancel.
func (l *line) billed() units {
	if l.kind == kindCovered || l.kind == kindNegation {
		return 0
	}
	return l.net
}

// effective is the amortised cost (reference: AWS's own summary_view).
func (l *line) effective() units {
	switch l.kind {
	case kindCovered:
		return l.plan.effective.v
	case kindNegation:
		return 0
	case kindPlanFee:
		return l.plan.total.v - l.plan.used.v
	default:
		return l.net
	}
}

// Line item types.
const (
	kindUsage    = "Usage"
	kindCovered  = "SavingsPlanCoveredUsage"
	kindNegation = "SavingsPlanNegation"
	kindPlanFee  = "SavingsPlanRecurringFee"
	kindFee      = "Fee"
	kindCredit   = "Credit"
	kindTax      = "Tax"
)
