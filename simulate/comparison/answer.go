package comparison

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/simulate"
)

// Answers says where runs begin to keep the gates: for each line of runs that differ in their workers alone the fewest that do; where no
// run differs in workers, the highest concurrency. Without a gate there is nothing to say.
func Answers(runs []*Run, gates []simulate.Gate) (list []string) {
	all := axesOf(runs)
	if len(gates) == 0 || len(all) == 0 {
		return nil
	}
	var names []string
	for _, g := range gates {
		names = append(names, g.Text)
	}
	for _, l := range linesOf(runs, all[0], all) {
		if len(l.Runs) < 2 {
			continue
		}
		text := all[0].answer(runs, l.Runs, strings.Join(names, " and "))
		if l.Name != "" {
			text = l.Name + ": " + text
		}
		list = append(list, text)
	}
	return list
}

// answer says which runs of a line keep the gates, and which is the next one that does not.
func (a *axis) answer(runs []*Run, order []int, gates string) string {
	order = slices.Clone(order)
	words := func(n int, keep string) string { return fmt.Sprintf("%d %s %s", n, a.Title, keep) }
	keep, not := "keep", "do not"
	if a.moreIsBest {
		slices.Reverse(order)
		words = func(n int, keep string) string { return fmt.Sprintf("%s %d %s", a.Title, n, keep) }
		keep, not = "keeps", "does not"
	}
	number := func(k int) int { return a.of(&runs[order[k]].Config) }
	best := slices.IndexFunc(order, func(k int) bool { return runs[k].Exit == 0 })
	if best < 0 {
		return words(number(len(order)-1), not+" keep "+gates)
	}
	text := words(number(best), keep+" "+gates)
	if best > 0 {
		text += fmt.Sprintf("; %d %s", number(best-1), not)
	}
	var worse []string // beyond the best one, where requests that share a prefix are spread over more workers
	for k := best + 1; k < len(order); k++ {
		if runs[order[k]].Exit != 0 {
			worse = append(worse, strconv.Itoa(number(k)))
		}
	}
	if len(worse) > 0 {
		text += fmt.Sprintf("; %s %s", strings.Join(worse, ", "), not)
	}
	return text
}
