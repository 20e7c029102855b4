package weka

import "fmt"

// yardsticks are what workers are measured by: those of the main chain, without the preamble.
type yardsticks struct {
	model int   // of its first request
	peak  int64 // longest prompt, tokens
}

// classify returns the class of a worker chain and the suffix of its session's name: section 5.4. number is its place
// among the workers, group its worker group and place in it.
func (y yardsticks) classify(requests []turn, number int, group [2]int, r Rules) (class, suffix string) {
	first, n := requests[0], int64(len(requests))
	floor := max(r.AuxISLFloor, int64(r.AuxISLRatio*float64(y.peak)))
	switch {
	case n <= r.AuxMaxRequests && (r.AuxCrossModel && first.Model != y.model || first.In < floor):
		class = "aux"
	case n == 1 && first.Out > 0 && first.Out < r.AuxReductionOSLMax && first.In >= r.AuxISLFloor && float64(first.In) > r.AuxReductionRatio*float64(first.Out):
		class = "reduction"
	case group[0] != none:
		return "wg", fmt.Sprintf("wg:%03d_%03d", group[0], group[1])
	default:
		return "fa", fmt.Sprintf("fa:%03d", number)
	}
	return class, fmt.Sprintf("aux:%03d", number)
}

// inherit returns the declared counts that a worker uses at its turn 0: those of the main chain where both begin with the
// declared prefix, proven by their ids, else none.
func inherit(blockSize int, tool, system int64, base, first IDs) (int64, int64) {
	size := int64(blockSize)
	blocks := (tool + system + size - 1) / size
	if tool+system <= 0 || blocks > int64(base.Len) || blocks > int64(first.Len) || int64(commonPrefix(base, first)) < blocks {
		return 0, 0
	}
	return tool, system
}
