package slurm

import (
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds one expression; the largest clusters have some ten thousand nodes.
const maxHosts = 65536

// expand lists the hosts of an expression such as trn-[01-03,07],login1 or rack[1-2]n[1-4]:
// bracketed numbers keep their leading zeros, and several brackets multiply. Nothing and
// "None assigned" are no hosts.
func expand(list string) ([]string, error) {
	list = strings.TrimSpace(list)
	if list == "" || list == "None assigned" || list == "(null)" {
		return nil, nil
	}
	parts, err := divide(list)
	if err != nil {
		return nil, fmt.Errorf("host list %q: %w", list, err)
	}
	var out []string
	for _, p := range parts {
		hosts, err := one(p, maxHosts-len(out))
		if err != nil {
			return nil, fmt.Errorf("host list %q: %w", list, err)
		}
		out = append(out, hosts...)
	}
	return out, nil
}

// divide cuts at commas outside brackets.
func divide(list string) ([]string, error) {
	var out []string
	start, inside := 0, false
	for i := range len(list) {
		switch c := list[i]; {
		case c == '[' && inside, c == ']' && !inside:
			return nil, fmt.Errorf("bracket at byte %d does not fit", i+1)
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case c == ',' && !inside:
			out = append(out, list[start:i])
			start = i + 1
		}
	}
	if inside {
		return nil, fmt.Errorf("a bracket is not closed")
	}
	return append(out, list[start:]), nil
}

func one(expr string, room int) ([]string, error) {
	out := []string{""}
	for expr != "" {
		head, rest, bracket := strings.Cut(expr, "[")
		for i := range out {
			out[i] += head
		}
		if !bracket {
			break
		}
		inside, after, _ := strings.Cut(rest, "]")
		numbers, err := ranges(inside, room)
		if err != nil {
			return nil, err
		}
		if len(out)*len(numbers) > room {
			return nil, fmt.Errorf("more than %d hosts", maxHosts)
		}
		next := make([]string, 0, len(out)*len(numbers))
		for _, o := range out {
			for _, n := range numbers {
				next = append(next, o+n)
			}
		}
		out, expr = next, after
	}
	for _, o := range out {
		if strings.TrimSpace(o) == "" {
			return nil, fmt.Errorf("an empty name")
		}
	}
	if len(out) > room {
		return nil, fmt.Errorf("more than %d hosts", maxHosts)
	}
	return out, nil
}

// ranges lists 01-03,07 as 01, 02, 03, 07.
func ranges(inside string, room int) ([]string, error) {
	var out []string
	for r := range strings.SplitSeq(inside, ",") {
		low, high, isRange := strings.Cut(r, "-")
		if !isRange {
			high = low
		}
		from, err1 := strconv.ParseUint(low, 10, 32)
		to, err2 := strconv.ParseUint(high, 10, 32)
		if err1 != nil || err2 != nil || to < from {
			return nil, fmt.Errorf("%q is no range of numbers", r)
		}
		if to-from >= uint64(max(room-len(out), 0)) { //nolint:gosec // not negative
			return nil, fmt.Errorf("more than %d hosts", maxHosts)
		}
		for n := from; n <= to; n++ {
			out = append(out, fmt.Sprintf("%0*d", len(low), n))
		}
	}
	return out, nil
}
