package normalize

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/schema/event"
	"github.com/idlewatt/idlewatt/schema/normalize"
)

// source is one object seen through a format's contract: the SQL of src and what is needed
// to read it.
type source struct {
	format  normalize.Format
	object  event.Object
	header  normalize.Header
	matched map[string]string // canonical name -> header name
	assume  event.Assumptions
	// netPeriods are billing periods whose net costs hold the discounts that are rows as well.
	netPeriods []string
	// filtered says that the file has empty lines between rows, which have to be dropped on
	// the way to the store.
	filtered bool
}

// MissingError names the required columns that a file lacks.
type MissingError struct {
	File, Format string
	Columns      []string
	Have         []string
	Hint         string
}

func (e MissingError) Error() string {
	have := e.Have
	more := ""
	if len(have) > 8 {
		have, more = have[:8], fmt.Sprintf(" and %d more", len(e.Have)-8)
	}
	word := "column"
	if len(e.Columns) > 1 {
		word = "columns"
	}
	return fmt.Sprintf("%s: not a whole %s file: required %s %s missing; it has %s%s%s",
		e.File, e.Format, word, strings.Join(quoted(e.Columns), ", "), strings.Join(quoted(have), ", "), more, e.Hint)
}

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = `"` + n + `"`
	}
	return out
}

// newSource matches an object's header with the format's contract.
func newSource(f normalize.Format, o event.Object, h normalize.Header, a event.Assumptions) (source, error) {
	s := source{format: f, object: o, header: h, assume: a, matched: f.Match(h.Names())}
	miss := MissingError{File: o.Name, Format: f.Name, Have: h.Names()}
	for _, c := range f.Columns {
		if _, ok := s.matched[c.Name]; ok || !c.Required || s.assumed(c) != "" {
			continue
		}
		miss.Columns = append(miss.Columns, c.Name)
		if c.Assumable != "" {
			miss.Hint += fmt.Sprintf("; %s may state it for the whole file", c.Assumable)
		}
	}
	if len(miss.Columns) > 0 {
		if g, ok := normalize.Guess(h.Names()); ok && g.Name != f.Name {
			miss.Hint += fmt.Sprintf("; the header looks like --format %s", g.Name)
		}
		return source{}, miss
	}
	return s, nil
}

// assumed returns the SQL literal that stands in for an absent column, or "".
func (s source) assumed(c normalize.Column) string {
	switch {
	case c.Assumable == "--period" && s.assume.Period != "":
		return fmt.Sprintf("CAST(toDateTime64(%s, 3, 'UTC') AS Nullable(DateTime64(3, 'UTC')))", literal(s.assume.Period+"-01 00:00:00"))
	case c.Assumable == "--currency" && s.assume.Currency != "":
		return "CAST(" + literal(s.assume.Currency) + " AS Nullable(String))"
	case c.Assumable == "--account" && s.assume.Account != "":
		return "CAST(" + literal(s.assume.Account) + " AS Nullable(String))"
	case c.Assumable == "--capacity-block" && s.assume.CapacityBlock != "":
		return "CAST(" + literal(s.assume.CapacityBlock) + " AS Nullable(String))"
	}
	return ""
}

// columnType returns the type a header column is read as.
func (s source) columnType(header string) string {
	for _, f := range s.header.Fields {
		if f.Name == header {
			return f.Type
		}
	}
	return ""
}

// tags returns the header columns that are tags of their own, in file order.
func (s source) tags() (headers, keys []string) {
	if s.format.TagKey == nil {
		return nil, nil
	}
	for _, f := range s.header.Fields {
		if k, ok := s.format.TagKey(f.Name); ok {
			headers, keys = append(headers, f.Name), append(keys, k)
		}
	}
	return headers, keys
}

// structure returns the column list that is read from the file: matched columns and tags.
func (s source) structure() string {
	var cols []string
	seen := map[string]bool{}
	add := func(h string) {
		if !seen[h] {
			seen[h] = true
			cols = append(cols, ident(h)+" "+s.columnType(h))
		}
	}
	for _, c := range s.format.Columns {
		if h, ok := s.matched[c.Name]; ok && s.columnType(h) != "" {
			add(h)
		}
	}
	headers, _ := s.tags()
	for _, h := range headers {
		add(h)
	}
	return strings.Join(cols, ", ")
}

// sql returns the SELECT that makes src from the table expression from. rowNumber is the
// expression of the data row's number, counted from 1.
func (s source) sql(from, rowNumber string) string {
	exprs := []string{rowNumber + " AS x_Row", "    CAST([" + literals(s.netPeriods) + "] AS Array(String)) AS net_periods"}
	for _, c := range s.format.Columns {
		exprs = append(exprs, "    "+s.expr(c)+" AS "+ident(c.Name))
		if c.Kind == normalize.Map {
			exprs = append(exprs, "    "+s.badExpr(c)+" AS "+ident(c.Name+"_bad"))
		}
	}
	return "SELECT " + strings.Join(exprs, ",\n") + "\nFROM " + from + " AS f"
}

// raw returns the column's text with the format's words for null taken out.
func (s source) raw(c normalize.Column) string {
	h := s.matched[c.Name]
	col := column(h)
	if t := s.columnType(h); t != "Nullable(String)" {
		return "toString(" + col + ")"
	}
	words := append([]string{""}, s.format.Nulls...)
	if len(words) == 1 {
		return "nullIf(" + col + ", '')"
	}
	return "if(" + col + " IN (" + literals(words) + "), NULL, " + col + ")"
}

// number is the text of a number. The engine reads 1.234.567 as 1.234567: a second point is
// made unreadable here, before it looks like money.
func (s source) number(c normalize.Column) string {
	raw := s.raw(c)
	if s.columnType(s.matched[c.Name]) != "Nullable(String)" {
		return raw
	}
	return "if(countSubstrings(" + raw + ", '.') > 1, concat('not a number: ', " + raw + "), " + raw + ")"
}

var nullTypes = map[normalize.Kind]string{
	normalize.Text: "Nullable(String)", normalize.JSON: "Nullable(String)",
	normalize.Money: "Nullable(Decimal(76, 40))", normalize.Time: "Nullable(DateTime64(3, 'UTC'))",
}

func (s source) expr(c normalize.Column) string {
	h, ok := s.matched[c.Name]
	typ := s.columnType(h)
	if c.Kind == normalize.Map {
		return s.mapExpr(c, ok, typ)
	}
	if !ok || typ == "" {
		if lit := s.assumed(c); lit != "" {
			return lit
		}
		return "CAST(NULL AS " + nullTypes[c.Kind] + ")"
	}
	switch c.Kind {
	case normalize.Money:
		return "toDecimal256(" + s.number(c) + ", 40)"
	case normalize.Time:
		if strings.Contains(typ, "Date") {
			return "toDateTime64(" + column(h) + ", 3, 'UTC')"
		}
		return timeExpr(s.raw(c), s.format.Times, true)
	default:
		return s.raw(c)
	}
}

// timeExpr parses text strictly. Best-effort parsing reads 30:00 as six o'clock of the next
// day and swaps day and month where the first number is over 12: both are refused here.
func timeExpr(text string, form normalize.TimeForm, throw bool) string {
	suffix := "OrNull"
	if throw {
		suffix = ""
	}
	iso := func(t string) string {
		return fmt.Sprintf("parseDateTime64BestEffort%s(if(match(%s, %s), %[2]s, concat('not a time: ', %[2]s)), 3, 'UTC')",
			suffix, t, literal(isoTime))
	}
	if form != normalize.Azure {
		return iso(text)
	}
	slashed := "position(ifNull(" + text + ", ''), '/') > 0"
	return fmt.Sprintf("if(%[1]s, toDateTime64(parseDateTime%[2]s(if(%[1]s, %[3]s, NULL), '%%c/%%e/%%Y', 'UTC'), 3, 'UTC'), %[4]s)",
		slashed, suffix, text, iso("if("+slashed+", NULL, "+text+")"))
}

// isoTime is every way in which the known formats write a time, and nothing else.
const isoTime = `^(19|20|21)\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])([T ]([01]\d|2[0-3])(:[0-5]\d){1,2}(\.\d+)?)?(Z|[+-](0\d|1[0-4]):?[0-5]\d)?$`

const emptyMap = "CAST(map() AS Map(String, String))"

func (s source) mapExpr(c normalize.Column, ok bool, typ string) string {
	parts := []string{}
	if ok && strings.HasPrefix(typ, "Map") {
		parts = append(parts, fmt.Sprintf("CAST(mapApply((k, v) -> (k, ifNull(v, '')), %s) AS Map(String, String))", column(s.matched[c.Name])))
	} else if ok && typ != "" {
		parts = append(parts, jsonMap(s.raw(c), s.format.FoldTagKeys))
	}
	if headers, keys := s.tags(); c.Name == s.format.TagMap && len(headers) > 0 {
		var kv []string
		for i, h := range headers {
			kv = append(kv, literal(keys[i]), "ifNull("+column(h)+", '')")
		}
		parts = append(parts, "map("+strings.Join(kv, ", ")+")")
	}
	switch len(parts) {
	case 0:
		return emptyMap
	case 1:
		return "mapFilter((k, v) -> v != '', " + parts[0] + ")"
	default:
		return "mapFilter((k, v) -> v != '', mapConcat(" + strings.Join(parts, ", ") + "))"
	}
}

// jsonMap reads a flat JSON object, with or without its outer braces, into a map of texts.
// A key that comes twice keeps its first value.
func jsonMap(text string, fold bool) string {
	key := "t.1"
	if fold {
		key = "lower(t.1)"
	}
	pairs := fmt.Sprintf("JSONExtractKeysAndValuesRaw(%s)", braced(text))
	unquoted := "if(startsWith(t.2, '\"'), JSONExtractString(concat('[', t.2, ']'), 1), t.2)"
	list := fmt.Sprintf("arrayMap(t -> (%s, %s), %s)", key, unquoted, pairs)
	first := fmt.Sprintf("arrayFilter((t, i) -> indexOf(ks, t.1) = i, %s, arrayEnumerate(ks))", list)
	first = strings.ReplaceAll(first, "ks", fmt.Sprintf("arrayMap(p -> p.1, %s)", list))
	return fmt.Sprintf("CAST(%s AS Map(String, String))", first)
}

func braced(text string) string {
	t := "trimBoth(ifNull(" + text + ", ''))"
	return fmt.Sprintf("if(startsWith(%[1]s, '{'), %[1]s, concat('{', %[1]s, '}'))", t)
}

// badExpr is 1 where the cell has text that is not a JSON object, braced or not.
func (s source) badExpr(c normalize.Column) string {
	h, ok := s.matched[c.Name]
	if typ := s.columnType(h); !ok || typ != "Nullable(String)" {
		return "toUInt8(0)"
	}
	return fmt.Sprintf("toUInt8(%s IS NOT NULL AND NOT isValidJSON(%s))", s.raw(c), braced(s.raw(c)))
}

// column names a column of the file, never the column of src that is made from it.
func column(header string) string { return "f." + ident(header) }

func ident(name string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
}

func literal(text string) string {
	return "'" + strings.NewReplacer("\\", "\\\\", "'", "\\'").Replace(text) + "'"
}

func literals(texts []string) string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = literal(t)
	}
	return strings.Join(out, ", ")
}

// CheckAssumptions reports assumptions that cannot be meant.
func CheckAssumptions(a event.Assumptions) error {
	if a.Period != "" {
		if _, err := time.Parse("2006-01", a.Period); err != nil {
			return fmt.Errorf("--period %q: want YYYY-MM", a.Period)
		}
	}
	isUpper := func(r rune) bool { return r >= 'A' && r <= 'Z' }
	if _, err := regexp.Compile(a.CapacityBlock); err != nil {
		return fmt.Errorf("--capacity-block %q: %w", a.CapacityBlock, err)
	}
	if a.Currency != "" && (len(a.Currency) != 3 || slices.ContainsFunc([]rune(a.Currency), func(r rune) bool { return !isUpper(r) })) {
		return fmt.Errorf("--currency %q: want an ISO 4217 code such as USD", a.Currency)
	}
	return nil
}
