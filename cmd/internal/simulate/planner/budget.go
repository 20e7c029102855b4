package planner

// withinBudget returns the workers of each pool that a number of GPUs allows: doc/spec/simulate.md 11.8. Below the least fleet it is none.
func withinBudget(want, gpus []int, budget, least int) []int {
	total, minimum := 0, 0
	for i, g := range gpus {
		total, minimum = total+want[i]*g, minimum+least*g
	}
	switch {
	case budget < 0 || total <= budget:
		return want
	case budget < minimum:
		return make([]int, len(want))
	case len(want) == 1:
		return []int{max(least, budget/gpus[0])}
	}
	p := max(least, min((budget-least*gpus[1])/max(gpus[0], 1), want[0]*budget/total))
	if gpus[1] == 0 {
		return []int{p, want[1]}
	}
	return []int{p, max(least, (budget-p*gpus[0])/gpus[1])}
}
