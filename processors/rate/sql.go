package rate

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

//go:embed *.sql
var texts embed.FS

// methodVersion changes when the computation itself changes, so that every day is computed again.
const methodVersion = "1"

// window is how many days of bills make a negotiated rate. highest bounds what an hour may
// cost: a rate from there on is a mistake of units, and its products would not fit.
const (
	window  = "35"
	highest = "toDecimal128(1000000000, 18)"
)

// committed are the pricing models whose money is spent whether a machine runs or not: no list
// price says what an hour of it costs.
var committed = []string{"reserved", "capacity_block", "capacity_reservation", "savings_plan", "committed", "commitment", "cluster"}

// lags are the hours that providers need to fill in the usage of an hour, once the bill has
// lines of it. AWS refreshes its export up to three times a day, Azure and GCP write usage up to
// a day late; RunPod has the hour before. At Vast.ai a contract without a row is not reported
// yet, for up to a week.
var lags = map[string]int{"runpod": 1, "vast": 7 * 24}

const lag = 24

// vendors are the names that bills give to providers.
var vendors = map[string]string{
	"aws": "Amazon Web Services", "azure": "Microsoft", "gcp": "Google Cloud", "runpod": "RunPod", "vast": "Vast.ai", "lambda": "Lambda",
	"crusoe": "Crusoe", "together": "Together AI", "coreweave": "CoreWeave",
}

// statement is one of the SQL files with its parts and constants written out.
func statement(name string) string {
	t := template.New(name).Funcs(template.FuncMap{
		"window": constant(window), "highest": constant(highest), "version": constant(methodVersion), "lag": constant(strconv.Itoa(lag)),
		"committed": func() string { return list(committed) },
		"lagging":   func() string { return array(keys(lags)) },
		"lags": func() string {
			var hours []string
			for _, k := range keys(lags) {
				hours = append(hours, strconv.Itoa(lags[k]))
			}
			return "[" + strings.Join(hours, ", ") + "]"
		},
		"providers": func() string { return array(keys(vendors)) },
		"vendors": func() string {
			var names []string
			for _, k := range keys(vendors) {
				names = append(names, vendors[k])
			}
			return array(names)
		},
		"share": share,
	})
	for _, part := range []string{"rates", "shown"} {
		template.Must(t.New(part).Parse(read(part + ".sql")))
	}
	template.Must(t.New(name).Parse(read(name)))
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, name, nil); err != nil {
		return fmt.Sprintf("-- %v", err) // the texts are embedded: tests execute each
	}
	return b.String()
}

func read(name string) string {
	text, err := texts.ReadFile(name)
	if err != nil {
		return fmt.Sprintf("-- %v", err) // embedded: tests execute each
	}
	return strings.TrimRight(string(text), "\n")
}

// share is the SQL of an hourly amount between two distances from a run's begin, in
// milliseconds: the difference of the whole amounts, each rounded half-even to 18 digits. The
// arithmetic is that of whole numbers, in units of 10^-18: multiplyDecimal takes some hundred
// times as long, and amounts under 10^9 an hour over a century are 10^42 of the 10^76 there are.
func share(hourly, from, to string) string {
	whole := func(ms string) string {
		return strings.NewReplacer("@n", "(units_ * toInt256("+ms+"))").Replace(
			"(intDiv(@n, 3600000) + (@n % 3600000 > 1800000 OR @n % 3600000 = 1800000 AND intDiv(@n, 3600000) % 2 = 1))")
	}
	units := "toInt256(toDecimal256(ifNull(" + hourly + ", 0), 18) * toDecimal256('1000000000000000000', 0))"
	return fmt.Sprintf("if(isNull(%s), NULL, toDecimal128(toDecimal256(%s, 0) * toDecimal256('0.000000000000000001', 18), 18))", hourly,
		strings.ReplaceAll("("+whole(to)+" - "+whole(from)+")", "units_", units))
}

func constant(s string) func() string { return func() string { return s } }

func keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func list(texts []string) string { return "'" + strings.Join(texts, "', '") + "'" }

func array(texts []string) string { return "[" + list(texts) + "]" }
