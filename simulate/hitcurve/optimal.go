package hitcurve

import "container/heap"

// optimal returns the blocks that the optimal policy finds in one pool with a cache of size blocks: of the blocks that it holds and
// those of the prompt it keeps the ones whose next use is nearest, and of two that are used next by the same prompt the one closer to
// its beginning. So what it holds for a prompt is a beginning of that, and a number says it.
func optimal(list []Access, uses *pieces, o *Options, size int64) (found int64) {
	held := make([]int64, len(list)) // by access: blocks that are kept for it
	var far latest                   // accesses for which blocks are kept, and some for which they no longer are
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
				heap.Push(&far, p.other)
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
				heap.Pop(&far)
			}
		}
	}
	return found
}

// latest is a heap of accesses, the latest first.
type latest []int32

func (l latest) Len() int           { return len(l) }
func (l latest) Less(i, j int) bool { return l[i] > l[j] }
func (l latest) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *latest) Push(x any)        { *l = append(*l, x.(int32)) }
func (l *latest) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}
