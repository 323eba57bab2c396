package normalize

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/processors/runtime"
	"github.com/idlewatt/idlewatt/schema/money"
)

// Scope is one delivery scope as an attempt has written it.
type Scope struct {
	Name        string
	Load        uint64
	Start, End  time.Time
	Rows        uint64
	Billed      map[string]money.Decimal // by currency
	Effective   map[string]money.Decimal
	RoundedRows uint64
	Residue     decimal.Decimal // billed cost that rounding to 18 digits took away
	era         uint32
	Doors       []string // provider|billing account|sub-account|month
}

// sums of money leave ClickHouse as text, so that no client type can cut a digit.
const surveySQL = `
SELECT x_Scope, x_Load, BillingCurrency, count(), min(BillingPeriodStart), max(BillingPeriodEnd),
    toString(sum(toDecimal256(BilledCost, 18))), toString(ifNull(sum(toDecimal256(EffectiveCost, 18)), toDecimal256(0, 18))),
    toString(arrayMax(arrayMap(t -> abs(t), [sum(toDecimal256(BilledCost, 18)), ifNull(sum(toDecimal256(EffectiveCost, 18)), toDecimal256(0, 18)),
        ifNull(sum(toDecimal256(ListCost, 18)), toDecimal256(0, 18)), ifNull(sum(toDecimal256(ContractedCost, 18)), toDecimal256(0, 18)),
        max(abs(toDecimal256(BilledCost, 18))), ifNull(max(abs(toDecimal256(EffectiveCost, 18))), toDecimal256(0, 18))]))),
    countIf(x_BilledResidue != 0 OR x_EffectiveResidue != 0), toString(sum(x_BilledResidue))
FROM idlewatt_store.charges WHERE x_Load >= ? AND x_Load < ?
GROUP BY x_Scope, x_Load, BillingCurrency ORDER BY x_Scope, BillingCurrency`

// scopeLimit keeps sums over some thousand scopes inside Decimal(38,18), whose sums wrap
// without a word.
var scopeLimit = decimal.New(1, 17)

// survey adds up what the attempt has written, by scope and currency.
func (a *attempt) survey(ctx context.Context) error {
	rows, err := a.p.db.Query(ctx, surveySQL, a.load, a.load+1<<16)
	if err != nil {
		return fmt.Errorf("adding up the load: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	a.scopes = nil
	for rows.Next() {
		var name, currency, billed, effective, largest, residue string
		var load, n, rounded uint64
		var start, end time.Time
		if err := rows.Scan(&name, &load, &currency, &n, &start, &end, &billed, &effective, &largest, &rounded, &residue); err != nil {
			return fmt.Errorf("adding up the load: %w", err)
		}
		s := a.scope(name, load)
		s.Start, s.End = earlier(s.Start, start), later(s.End, end)
		s.Rows, s.RoundedRows = s.Rows+n, s.RoundedRows+rounded
		b, err := decimal.NewFromString(billed)
		if err != nil {
			return fmt.Errorf("adding up the load: %w", err)
		}
		if err := money.Check(b); err != nil {
			return runtime.Permanent(a.tooMuch(ctx, fmt.Errorf("billed cost of %s in %s is %s: %w", name, currency, billed, err)))
		}
		if decimal.RequireFromString(largest).GreaterThanOrEqual(scopeLimit) {
			return runtime.Permanent(fmt.Errorf("a cost of %s in %s, or the sum of one, is %s: with amounts of %s and more sums over months would overflow Decimal(38,18)",
				name, currency, largest, scopeLimit))
		}
		e, r := decimal.RequireFromString(effective), decimal.RequireFromString(residue)
		s.Billed[currency], s.Effective[currency], s.Residue = b, e, s.Residue.Add(r)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("adding up the load: %w", err)
	}
	if err := a.coverEmpty(); err != nil {
		return err
	}
	return a.surveyDoors(ctx)
}

// tooMuch names the row whose amount is too large, if it is one row's fault.
func (a *attempt) tooMuch(ctx context.Context, sum error) error {
	for _, s := range a.sources {
		var e RefusedError
		if err := a.p.explain(ctx, s, sum); errors.As(err, &e) && e.Row > 0 {
			return e
		}
	}
	return sum
}

// coverEmpty adds the scopes that the delivery covers although it has no rows in them: what
// was live there is replaced by nothing.
func (a *attempt) coverEmpty() error {
	for _, c := range a.d.Covers {
		from, to, err := coverSpan(c)
		if err != nil {
			return runtime.Permanent(err)
		}
		for t := from; t.Before(to); {
			next, name, ordinal := t.AddDate(0, 1, 0), t.Format("2006-01"), uint64(t.Year()*12+int(t.Month()))
			if a.format.Daily {
				next, name, ordinal = t.AddDate(0, 0, 1), t.Format(time.DateOnly), uint64(t.Unix()/86400)
			}
			if s := a.scope(a.scopePrefix()+name, a.load+ordinal); s.Start.IsZero() {
				s.Start, s.End = t, next
			}
			t = next
		}
	}
	return nil
}

// coverSpan reads YYYY-MM or YYYY-MM-DD as the time it stands for.
func coverSpan(text string) (from, to time.Time, err error) {
	if t, err := time.Parse("2006-01", text); err == nil {
		return t, t.AddDate(0, 1, 0), nil
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, t.AddDate(0, 0, 1), nil
	}
	return from, to, fmt.Errorf("--covers %q: want YYYY-MM or YYYY-MM-DD", text)
}

func (a *attempt) scope(name string, load uint64) *Scope {
	for i := range a.scopes {
		if a.scopes[i].Name == name {
			return &a.scopes[i]
		}
	}
	a.scopes = append(a.scopes, Scope{
		Name: name, Load: load, Billed: map[string]money.Decimal{}, Effective: map[string]money.Decimal{},
	})
	return &a.scopes[len(a.scopes)-1]
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// doorSQL names whose bill a row is. Names of one provider differ between exports, account
// ids do not. A row without a billing account claims no door.
const doorSQL = `
SELECT x_Scope, groupUniqArray(concat(
    multiIf(position(p, 'amazon') > 0 OR p = 'aws', 'aws', position(p, 'microsoft') > 0 OR position(p, 'azure') > 0, 'azure',
        position(p, 'google') > 0 OR p = 'gcp', 'gcp', p),
    -- Azure writes an id alone, or as the last part of a resource path.
    '|', splitByChar('/', lower(replaceAll(BillingAccountId, '|', '_')))[-1], '|', splitByChar('/', lower(replaceAll(ifNull(SubAccountId, ''), '|', '_')))[-1], '|', formatDateTime(BillingPeriodStart, '%Y-%m')))
FROM (SELECT *, lower(coalesce(ServiceProviderName, x_ProviderName, InvoiceIssuerName, '')) AS p
    FROM idlewatt_store.charges WHERE x_Load >= ? AND x_Load < ? AND BillingAccountId != '')
GROUP BY x_Scope`

func (a *attempt) surveyDoors(ctx context.Context) error {
	rows, err := a.p.db.Query(ctx, doorSQL, a.load, a.load+1<<16)
	if err != nil {
		return fmt.Errorf("reading whose bill it is: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read only
	for rows.Next() {
		var name string
		var doors []string
		if err := rows.Scan(&name, &doors); err != nil {
			return fmt.Errorf("reading whose bill it is: %w", err)
		}
		a.scope(name, 0).Doors = doors
	}
	return rows.Err()
}

// control holds the load against what the files and the manifest promise.
func (a *attempt) control() error {
	var got uint64
	billed := decimal.Zero
	for _, s := range a.scopes {
		got += s.Rows
		for _, b := range s.Billed {
			billed = billed.Add(b)
		}
	}
	promised := a.d.Controls != nil && a.d.Controls.Rows != nil
	if got == 0 && (!promised || len(a.d.Covers) == 0) {
		return RefusedError{File: a.d.Objects[0].Name, Reason: "has a header but no rows: an empty bill would erase what is live; " +
			"if the provider means it, deliver it with its manifest"}
	}
	var footer int64
	for _, s := range a.sources {
		if s.header.Rows < 0 {
			footer = -1
			break
		}
		footer += s.header.Rows
	}
	if footer >= 0 && uint64(footer) != got {
		return fmt.Errorf("delivery %s: %d rows were loaded, the files hold %d", a.d.Delivery, got, footer)
	}
	c := a.d.Controls
	if c == nil {
		return nil
	}
	if c.Rows != nil && uint64(*c.Rows) != got {
		return fmt.Errorf("delivery %s: %d rows were loaded, its manifest promises %d; fetch the files again", a.d.Delivery, got, *c.Rows)
	}
	if c.Billed != nil && !c.Billed.Equal(billed) {
		return fmt.Errorf("delivery %s: rows add up to %s, its manifest promises %s; fetch the files again", a.d.Delivery, billed, c.Billed)
	}
	return nil
}

// notWhatItSays looks for rows that give away that a file is of another kind than it is
// said to be.
func (a *attempt) notWhatItSays(ctx context.Context) error {
	for _, r := range a.format.Refuses {
		var object string
		var row, n uint64
		err := a.p.db.QueryRow(ctx, "SELECT min((x_Object, x_Row)).1, min((x_Object, x_Row)).2, count() FROM idlewatt_store.charges WHERE x_Load >= ? AND x_Load < ? AND ("+r.Cond+")",
			a.load, a.load+1<<16).Scan(&object, &row, &n)
		if err != nil {
			return fmt.Errorf("checking what the file is: %w", err)
		}
		if n == 0 {
			continue
		}
		e := RefusedError{File: a.d.Objects[0].Name, Row: row, Reason: r.Reason}
		for _, o := range a.d.Objects {
			if o.SHA256 == object {
				e.File = o.Name
			}
		}
		return runtime.Permanent(e)
	}
	return nil
}
