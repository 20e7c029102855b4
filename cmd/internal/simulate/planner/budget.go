package planner

import (
	"slices"
)

// budget is how many GPUs the workers of all pools may have together, and the least of each pool: doc/spec/simulate.md 11.8. A negative
// bound is none.
type budget struct {
	gpus, least []int // of a worker; workers of a pool
	floor, most int   // GPUs
}

// total returns the GPUs of a fleet.
func (b budget) total(n []int) (sum int) {
	for i, g := range b.gpus {
		sum += n[i] * g
	}
	return sum
}

// holds reports whether a fleet is within the budget. With both bounds the floor gives way by the GPUs of a worker, as steps of two pools
// need not cancel out.
func (b budget) holds(n []int) bool {
	low := b.floor
	if low >= 0 && b.most >= 0 {
		low -= slices.Max(b.gpus)
	}
	sum := b.total(n)
	return (b.most < 0 || sum <= b.most) && (b.floor < 0 || sum >= low)
}

// lifted returns the workers of each pool, at least the least of it.
func (b budget) lifted(n []int) []int {
	n = slices.Clone(n)
	for i, least := range b.least {
		n[i] = max(n[i], least)
	}
	return n
}

// clamp returns the fleet that the budget makes of another, in proportion; none where the least one is too large.
func (b budget) clamp(want []int) []int {
	switch sum := b.total(want); {
	case b.holds(want) || b.floor >= 0 && slices.Min(b.gpus) == 0:
		return want
	case b.most >= 0 && sum > b.most:
		return b.shrink(want, sum)
	default:
		return b.grow(want, sum)
	}
}

// shrink returns what the budget's ceiling leaves of a fleet of sum GPUs.
func (b budget) shrink(want []int, sum int) []int {
	switch {
	case b.most < b.total(b.least):
		return make([]int, len(want))
	case len(want) == 1:
		return []int{max(b.least[0], b.most/b.gpus[0])}
	}
	p := max(b.least[0], min((b.most-b.least[1]*b.gpus[1])/max(b.gpus[0], 1), want[0]*b.most/sum))
	if b.gpus[1] == 0 {
		return []int{p, want[1]}
	}
	return []int{p, max(b.least[1], (b.most-p*b.gpus[0])/b.gpus[1])}
}

// grow returns what a fleet of sum GPUs, fewer than the budget's floor, becomes.
func (b budget) grow(want []int, sum int) []int {
	up := func(a, b int) int { return (a + b - 1) / b }
	if len(want) == 1 {
		return []int{max(b.least[0], up(b.floor, b.gpus[0]))}
	}
	p := up(b.floor, 2*b.gpus[0])
	if sum > 0 {
		p = up(want[0]*b.floor, sum)
	}
	p = max(b.least[0], p)
	d := max(b.least[1], up(max(0, b.floor-p*b.gpus[0]), b.gpus[1]))
	shrinks := d < want[1]
	d = max(d, want[1])
	switch grown := []int{p, d}; {
	case b.most < 0 || b.total(grown) <= b.most:
		return grown
	case shrinks:
		return b.fit(want, []int{p, want[1]})
	}
	return want
}

// fit returns the fleet nearest to want, between now and want, that the budget allows; now where there is none. Where one pool should grow and
// the other shrink, both move or neither.
func (b budget) fit(now, want []int) []int {
	if b.holds(want) && slices.Equal(want, b.lifted(want)) {
		return want
	}
	opposing := (want[0]-now[0])*(want[1]-now[1]) < 0
	best, score := now, []int(nil)
	low, high := make([]int, 2), make([]int, 2)
	for i := range 2 {
		low[i], high[i] = max(min(now[i], want[i]), b.least[i]), max(now[i], want[i])
	}
	for i := range 2 { // what the other leaves
		if b.most >= 0 && b.gpus[i] > 0 {
			high[i] = min(high[i], (b.most-low[1-i]*b.gpus[1-i])/b.gpus[i])
		}
	}
	for p := low[0]; p <= high[0]; p++ {
		for d := low[1]; d <= high[1]; d++ {
			n := []int{p, d}
			if !b.holds(n) || opposing && (p == now[0]) != (d == now[1]) {
				continue
			}
			moved, asked := []int{abs(p - now[0]), abs(d - now[1])}, []int{abs(want[0] - now[0]), abs(want[1] - now[1])}
			one := []int{abs(want[0]-p) + abs(want[1]-d), abs(moved[0]*asked[1] - moved[1]*asked[0]), -moved[0] - moved[1], p, d}
			if score == nil || slices.Compare(one, score) < 0 {
				best, score = n, one
			}
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// guard returns what the budget makes of a step from now to want. It turns no direction around: at the ceiling a pool grows, and at the floor
// one shrinks, only if the other moves against it, and a step that the budget would turn is held. A fleet outside of the budget, or of
// two pools below the least, is brought back first.
func (b budget) guard(now, want []int) ([]int, Reason) {
	up, down, opposing := false, false, len(now) == 2 && (want[0]-now[0])*(want[1]-now[1]) < 0
	for i := range now {
		up, down = up || want[i] > now[i], down || want[i] < now[i]
	}
	sum := b.total(now)
	switch {
	case len(now) == 2 && !slices.Equal(now, b.lifted(now)):
		return b.clamp(b.lifted(want)), budgetReconcile
	case !b.holds(now):
		return b.clamp(now), budgetReconcile
	case b.floor >= 0 && sum <= b.floor && down && !up, b.most >= 0 && sum >= b.most && up && !opposing:
		return now, budgetHold
	case opposing && (b.floor >= 0 && sum <= b.floor || b.most >= 0 && sum >= b.most):
		if fitted := b.fit(now, want); !slices.Equal(fitted, now) {
			return fitted, ""
		}
		return now, budgetHold
	}
	final := b.clamp(want)
	for i := range now {
		if final[i] < min(now[i], want[i]) || final[i] > max(now[i], want[i]) || !b.holds(final) {
			return now, budgetHold
		}
	}
	return final, ""
}

// ceiling returns what the most GPUs leave of the demand of throughput, and whether they hold it back whole.
func (b budget) ceiling(now, want []int) (fitted []int, held Reason) {
	b.floor = -1
	switch {
	case len(now) == 1:
		return b.guard(now, want)
	case !slices.Equal(now, b.lifted(now)):
		fitted = b.clamp(b.lifted(want))
	default:
		fitted = b.fit(now, want)
	}
	if slices.Equal(fitted, now) && !slices.Equal(want, now) {
		held = budgetHold
	}
	return fitted, held
}
