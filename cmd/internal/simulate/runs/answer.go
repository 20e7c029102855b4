package runs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/simulate"
)

// answers says where runs begin to keep the gates: for each line of runs that differ in their workers alone the fewest that do; where no
// run differs in workers, the highest concurrency. Without a gate there is nothing to say.
func answers(runs []*Run, gates []simulate.Gate) (list []string) {
	all := axesOf(runs)
	if len(gates) == 0 || len(all) == 0 {
		return nil
	}
	for _, l := range linesOf(runs, all[0], all) {
		if len(l.Runs) < 2 {
			continue
		}
		text := all[0].answer(runs, l.Runs, gates)
		if l.Name != "" {
			text = l.Name + ": " + text
		}
		list = append(list, text)
	}
	return list
}

// answer says which runs of a line keep the gates, and which is the next one that does not.
func (a *axis) answer(runs []*Run, order []int, gates []simulate.Gate) string {
	order = slices.Clone(order)
	if a.moreIsBest {
		slices.Reverse(order)
	}
	number := func(k int) int { return a.of(&runs[order[k]].Config) }
	best := slices.IndexFunc(order, func(k int) bool { return runs[k].Exit == 0 })
	if best < 0 {
		return a.verdict(number(len(order)-1), false, gates)
	}
	text := a.verdict(number(best), true, gates)
	if best > 0 {
		text += "; " + a.others(number(best-1))
	}
	var worse []int // beyond the best one, where requests that share a prefix are spread over more workers
	for k := best + 1; k < len(order); k++ {
		if runs[order[k]].Exit != 0 {
			worse = append(worse, number(k))
		}
	}
	if len(worse) > 0 {
		text += "; " + a.others(worse...)
	}
	return text
}

// verdict says whether a number keeps the gates: "1 worker keeps", "8 workers do not keep", "concurrency 8 keeps".
func (a *axis) verdict(n int, keeps bool, gates []simulate.Gate) string {
	var names []string
	for _, g := range gates {
		names = append(names, g.Text)
	}
	subject, one := fmt.Sprintf("%d %s", n, a.Title), n == 1
	switch {
	case a.moreIsBest:
		subject, one = fmt.Sprintf("%s %d", a.Title, n), true
	case one:
		subject = strings.TrimSuffix(subject, "s")
	}
	verb := map[[2]bool]string{{true, true}: "keeps", {true, false}: "does not keep", {false, true}: "keep", {false, false}: "do not keep"}[[2]bool{one, keeps}]
	return subject + " " + verb + " " + strings.Join(names, " and ")
}

// others says that numbers do not keep the gates that were just named.
func (a *axis) others(list ...int) string {
	var names []string
	for _, n := range list {
		names = append(names, strconv.Itoa(n))
	}
	verb := "do not"
	if len(list) == 1 && (list[0] == 1 || a.moreIsBest) {
		verb = "does not"
	}
	return strings.Join(names, ", ") + " " + verb
}
