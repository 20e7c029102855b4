package hitcurve

// distances count, for each size of a cache, the blocks that LRU finds in it and not in one that is a block smaller. Until sum they
// are the differences of neighbouring counts.
type distances []int64

// add counts blocks at neighbouring distances, of which the first has so many blocks above it.
func (d distances) add(above, blocks int64) {
	d[above+1]++
	d[above+blocks+1]--
}

// sum turns them into the blocks that are found by size.
func (d distances) sum() {
	for range 2 {
		for n := 1; n < len(d); n++ {
			d[n] += d[n-1]
		}
	}
}

// lru counts the blocks of one pool by stack distance: the size at which LRU finds them. A prompt leaves its blocks with its first one
// as the most recent, so those that no later prompt has used are the end of it, and stand together in the stack.
func lru(list []Access, uses *pieces, o *Options, found distances) {
	held := newSums(len(list)) // by access: blocks that it was the last to use
	for k, a := range list {
		total, left := int64(0), int64(o.most(a))
		for _, p := range uses.of(k) {
			count := int64(p.count)
			if n := min(count, left-total); p.other >= 0 && n > 0 {
				found.add(held.total-held.upTo(int(p.other)), n)
			}
			total += count
		}
		for _, p := range uses.of(k) {
			if p.other >= 0 {
				held.add(int(p.other), -int64(p.count))
			}
		}
		held.add(k, total)
	}
}

// sums are the sums of the beginnings of a list of numbers (a Fenwick tree).
type sums struct {
	tree  []int64
	total int64
}

func newSums(n int) *sums { return &sums{tree: make([]int64, n+1)} }

func (s *sums) add(at int, n int64) {
	s.total += n
	for at++; at < len(s.tree); at += at & -at {
		s.tree[at] += n
	}
}

// upTo returns the sum of the numbers 0 to at.
func (s *sums) upTo(at int) (sum int64) {
	for at++; at > 0; at -= at & -at {
		sum += s.tree[at]
	}
	return sum
}
