package hitcurve

import "github.com/agentx/agentx/internal/heap"

// optimal returns the blocks that the optimal policy finds in one pool with a cache of size blocks: of the blocks that it holds and
// those of the prompt it keeps the ones whose next use is nearest, and of two that are used next by the same prompt the one closer to
// its beginning. So what it holds for a prompt is a beginning of that, and a number says it.
func optimal(list []Access, uses *pieces, o *Options, size int64) (found int64) {
	held := make([]int64, len(list)) // by access: blocks that are kept for it
	var far []int32                  // a heap: accesses for which blocks are kept, and some for which they no longer are
	total := int64(0)
	for k, a := range list {
		found += min(held[k], int64(o.most(a)))
		total -= held[k]
		held[k] = 0
		for _, p := range uses.of(k) {
			if p.other < 0 {
				continue // never used again
			}
			if held[p.other] == 0 {
				heap.Push(&far, p.other, later)
			}
			held[p.other] += int64(p.count)
			total += int64(p.count)
		}
		for total > size {
			last := far[0]
			n := min(total-size, held[last])
			held[last] -= n
			total -= n
			if held[last] == 0 {
				heap.Pop(&far, later)
			}
		}
	}
	return found
}

func later(a, b int32) bool { return a > b }
