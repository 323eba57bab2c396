package normalize

import (
	"fmt"
	"slices"
	"strings"
)

// estimates is the dataset of charges that no bill has yet (processors/rate). They give way to
// every bill and keep none out.
const estimates = "estimate"

// DoorError says that another source has delivered the same money.
type DoorError struct {
	Source, Dataset string
	With            []string // source/dataset pairs
	Door            string
}

func (e DoorError) Error() string {
	p := strings.Split(e.Door, "|")
	return fmt.Sprintf("%s/%s would count money twice: account %s of %s in %s is live from %s; "+
		"to replace it, import again with --replaces %s; to keep it, drop this delivery",
		e.Source, e.Dataset, p[1], p[0], p[3], strings.Join(e.With, ", "), strings.Split(e.With[0], "/")[0])
}

// doorCheck returns the scopes of other sources that this delivery retires, or an error
// where it may not: one bill comes through one door.
func (a *attempt) doorCheck(wins []Scope, all []live) ([]live, error) {
	ours := map[string][]string{}
	for _, s := range wins {
		for _, d := range s.Doors {
			ours[sameBill(d)] = append(ours[sameBill(d)], d)
		}
	}
	var retired []live
	var clash DoorError
	for _, l := range all {
		if l.Load == 0 || l.Dataset == estimates || l.Source == a.d.Source && l.Dataset == a.format.Dataset {
			continue
		}
		i := slices.IndexFunc(l.Doors, func(theirs string) bool {
			return slices.ContainsFunc(ours[sameBill(theirs)], func(d string) bool { return overlap(d, theirs) })
		})
		if i < 0 {
			continue
		}
		if slices.Contains(a.d.Replaces, l.Source) {
			retired = append(retired, l)
			continue
		}
		clash.Door = l.Doors[i]
		if with := l.Source + "/" + l.Dataset; !slices.Contains(clash.With, with) {
			clash.With = append(clash.With, with)
		}
	}
	if len(clash.With) > 0 {
		clash.Source, clash.Dataset = a.d.Source, a.format.Dataset
		return nil, clash
	}
	return retired, nil
}

// sameBill is what two doors to one bill surely share: the billing account and the month.
func sameBill(door string) string {
	p := strings.Split(door, "|")
	return p[1] + "|" + p[3]
}

// overlap reports whether two doors of one account and month lead to the same money. A
// provider or a sub-account that one side does not state may be any.
func overlap(a, b string) bool {
	x, y := strings.Split(a, "|"), strings.Split(b, "|")
	alike := func(i int) bool { return x[i] == y[i] || x[i] == "" || y[i] == "" }
	return alike(0) && alike(2)
}
