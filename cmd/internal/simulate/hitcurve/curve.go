// Package hitcurve says which share of prompt tokens a prefix cache would hold, by its size: doc/spec/simulate.md 16.
//
// Order plays a load against a server of given rates and returns the prompts in the order in which they leave. Compute
// gives the curve of that order: for LRU from stack distances, which one pass finds for all sizes; for the optimal policy from the
// pieces of prompts that are used next by the same request; for FIFO block by block.
package hitcurve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/heap"
)

// Policy says which blocks a cache drops.
type Policy string

// The policies.
const (
	LRU     Policy = "lru"     // the one whose last use is longest ago
	FIFO    Policy = "fifo"    // the one that came first
	Optimal Policy = "optimal" // the one whose next use is farthest: no policy finds more blocks
)

// Policies are the policies.
var Policies = []Policy{LRU, FIFO, Optimal}

// Options say what is computed.
type Options struct {
	BlockSize int // tokens
	FullHit   preset.Choice
	Pools     int      // access k goes to pool k mod Pools; 0: one
	Policies  []Policy // none: LRU
	Sizes     []int64  // of each pool, blocks; none: powers of two
	Fine      int      // sizes at which LRU is told besides, for a smooth line; 0: none

	chains int // chain numbers of the accesses are below it
}

// Validate returns everything that is wrong with the options, joined.
func (o *Options) Validate() (err error) {
	wrong := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	if o.BlockSize < 1 {
		wrong("blocks of %d tokens: want at least 1", o.BlockSize)
	}
	if o.Pools < 0 {
		wrong("%d pools: want at least 1", o.Pools)
	}
	for _, p := range o.Policies {
		if !slices.Contains(Policies, p) {
			wrong("policy %q: want lru, fifo or optimal", p)
		}
	}
	if o.Fine < 0 {
		wrong("%d fine sizes: want 0 or more", o.Fine)
	}
	for _, size := range o.Sizes {
		if size < 0 {
			wrong("a cache of %d blocks: want 0 or more", size)
		}
	}
	return err
}

// complete validates the options, and sets what nothing sets.
func (o *Options) complete() error {
	o.Pools = cmp.Or(o.Pools, 1)
	if len(o.Policies) == 0 {
		o.Policies = []Policy{LRU}
	}
	return o.Validate()
}

// most returns how many blocks of a prompt may be found: unless a prompt may be found whole, its last token is computed.
func (o *Options) most(a Access) int {
	if o.FullHit == preset.FullHitFree {
		return a.Prompt / o.BlockSize
	}
	return max(a.Prompt-1, 0) / o.BlockSize
}

// Curve is the tokens that caches of several sizes find.
type Curve struct {
	Requests    int
	InputTokens int64
	Pools       int
	blocks      int64 // different ones, of the pool that has the most: no larger cache finds more
	Enough      int64 // the least size at which LRU finds what caches without a limit find
	Found       int64 // tokens that caches without a limit find
	Points      []Point
	Fine        []Fine // by size; none: they were not asked for, or a router chooses otherwise at every size
}

// Fine is what LRU finds at a size.
type Fine struct {
	Size  int64 // of each pool, blocks
	Found int64 // tokens
}

// Point is one size.
type Point struct {
	Size  int64            // of each pool, blocks
	Found map[Policy]int64 // tokens
}

// Compute returns the curve of accesses in their order.
func Compute(ctx context.Context, list []Access, o Options) (*Curve, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	c := &Curve{Requests: len(list), Pools: o.Pools}
	pools := make([][]Access, o.Pools)
	for k, a := range list {
		c.InputTokens += int64(a.Prompt)
		for _, run := range a.Chain {
			o.chains = max(o.chains, int(run.First+run.Count))
		}
		pools[k%o.Pools] = append(pools[k%o.Pools], a)
	}
	found := make(distances, o.chains+2)
	owner := make([]int32, o.chains)
	for _, pool := range pools {
		clear(owner)
		lru(pool, cut(pool, owner, false), &o, found)
		different := int64(0)
		for _, k := range owner {
			if k > 0 {
				different++
			}
		}
		c.blocks = max(c.blocks, different)
	}
	found.sum()
	c.Found = found[c.blocks] * int64(o.BlockSize)
	enough, _ := slices.BinarySearch(found, found[c.blocks]) // larger caches find no less
	c.Enough = int64(enough)
	at := func(size int64) int64 { return found[min(size, c.blocks)] * int64(o.BlockSize) }
	c.points(at, &o)
	for _, size := range fineSizes(c.Enough, o.Fine) {
		c.Fine = append(c.Fine, Fine{size, at(size)})
	}
	return c, c.others(ctx, pools, &o)
}

// points adds a point for each size, with what LRU finds.
func (c *Curve) points(found func(size int64) int64, o *Options) {
	sizes := slices.Clone(o.Sizes)
	if len(sizes) == 0 {
		sizes = defaultSizes(c.Enough)
	}
	slices.Sort(sizes)
	for _, size := range slices.Compact(sizes) {
		p := Point{Size: size, Found: map[Policy]int64{}}
		if slices.Contains(o.Policies, LRU) {
			p.Found[LRU] = found(size)
		}
		c.Points = append(c.Points, p)
	}
}

// fineSizes returns about n different sizes in equal ratios, from 1 to what is enough.
func fineSizes(enough int64, n int) (sizes []int64) {
	for k := range n {
		size := enough
		if k < n-1 {
			size = int64(math.Exp(math.Log(float64(max(enough, 1))) * float64(k) / float64(n-1)))
		}
		if size > 0 && (len(sizes) == 0 || size > sizes[len(sizes)-1]) {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// defaultSizes returns powers of two, at most 16, of which the last is enough.
func defaultSizes(enough int64) (sizes []int64) {
	last := int64(1)
	for last < enough {
		last *= 2
	}
	for size := last; size > 0 && len(sizes) < 16; size /= 2 {
		sizes = append(sizes, size)
	}
	return sizes
}

// others adds what policies other than LRU find. They look at each size on its own, and sizes are computed at the same time.
func (c *Curve) others(ctx context.Context, pools [][]Access, o *Options) error {
	uses := nextUses(pools, o)
	return eachPoint(ctx, c.Points, func(p *Point) error {
		other(p, pools, uses, o)
		return nil
	})
}

// eachPoint calls a function for every point, several at a time.
func eachPoint(ctx context.Context, points []Point, call func(p *Point) error) error {
	errs := make([]error, len(points))
	var group sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for k := range next {
				errs[k] = call(&points[k])
			}
		})
	}
	for k := range points {
		if ctx.Err() != nil {
			break
		}
		next <- k
	}
	close(next)
	group.Wait()
	return cmp.Or(ctx.Err(), errors.Join(errs...))
}

// nextUses returns the pieces of each pool that the optimal policy needs; nil for others.
func nextUses(pools [][]Access, o *Options) []*pieces {
	if !slices.Contains(o.Policies, Optimal) {
		return nil
	}
	uses := make([]*pieces, len(pools))
	owner := make([]int32, o.chains)
	for k, pool := range pools {
		clear(owner)
		uses[k] = cut(pool, owner, true)
	}
	return uses
}

// other adds to a point what policies other than LRU find.
func other(p *Point, pools [][]Access, uses []*pieces, o *Options) {
	var came []int64
	if slices.Contains(o.Policies, FIFO) {
		came = make([]int64, o.chains)
	}
	for k, pool := range pools {
		if came != nil {
			clear(came)
			p.Found[FIFO] += fifo(pool, came, o, p.Size) * int64(o.BlockSize)
		}
		if uses != nil {
			p.Found[Optimal] += optimal(pool, uses[k], o, p.Size) * int64(o.BlockSize)
		}
	}
}

// distances count, for each size of a cache, the blocks that LRU finds in it and not in one that is a block smaller. Until sum they
// are the differences of neighbouring counts.
type distances []int64

// add counts blocks at neighbouring distances, of which the first has so many blocks above it.
func (d distances) add(above, blocks int64) {
	d[above+1]++
	d[above+blocks+1]--
}

// sum turns the differences into the blocks that are found by size, which are sums of sums of them.
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

// add adds n to the number at an index.
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

// fifo returns the blocks that FIFO finds in one pool with a cache of size blocks. Blocks leave in the order in which they came, of one
// prompt the last first; one that is there keeps its place. came has an entry of 0 for each chain number, and is overwritten.
func fifo(list []Access, came []int64, o *Options, size int64) (found int64) {
	count := size // blocks that have come, from the first that a lookup takes for one that is there
	for _, a := range list {
		gone := count - size // what came up to here is not there
		leading, missed := 0, false
		for _, run := range a.Chain {
			for _, at := range came[run.First : run.First+run.Count] {
				if missed = missed || at <= gone; missed {
					break
				}
				leading++
			}
		}
		found += int64(min(leading, o.most(a)))
		for r := len(a.Chain) - 1; r >= 0; r-- {
			part := came[a.Chain[r].First : a.Chain[r].First+a.Chain[r].Count]
			for i := len(part) - 1; i >= 0; i-- {
				if part[i] <= gone {
					count++
					part[i] = count
				}
			}
		}
	}
	return found
}

// optimal returns the blocks that the optimal policy finds in one pool with a cache of size blocks: of the blocks that it holds and
// those of the prompt it keeps the ones whose next use is nearest, and of two that are used next by the same prompt the one closer to
// its beginning. So what it holds for a prompt is a beginning of that, and a number says it. list has the prompts of the pool in their order,
// and uses the pieces of each by the prompt that uses them next.
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

// later orders a heap by descending access.
func later(a, b int32) bool { return a > b }

// piece is a part of a prompt: so many blocks that the same other prompt used last, or uses next.
type piece struct {
	other int32 // position of that prompt; -1: none
	count int32 // blocks
}

// pieces cuts every prompt by who has used its blocks last (or, in reverse, who uses them next). A prompt uses the beginning
// of every chain that it shares, so pieces of one prompt that stand closer to its beginning have a nearer neighbour.
type pieces struct {
	list  []piece
	first []int32 // by access: its first piece; one more entry at the end
}

// of returns the pieces of an access, from the beginning of its prompt.
func (p *pieces) of(k int) []piece { return p.list[p.first[k]:p.first[k+1]] }

// cut returns the pieces of the accesses of one pool. owner has an entry of 0 for each chain number, and is overwritten.
func cut(list []Access, owner []int32, reverse bool) *pieces {
	p := &pieces{first: make([]int32, len(list)+1)}
	for n := range list {
		k := n
		if reverse {
			k = len(list) - 1 - n
		}
		p.first[k] = int32(len(p.list)) // where they begin; the end follows below
		p.cutOne(list[k], int32(k), owner)
	}
	p.first[len(list)] = int32(len(p.list))
	if reverse {
		p.turn()
	}
	return p
}

// cutOne appends the pieces of an access, and makes it the owner of its blocks.
func (p *pieces) cutOne(a Access, k int32, owner []int32) {
	last, count := int32(0), int32(0)
	for _, run := range a.Chain {
		part := owner[run.First : run.First+run.Count]
		for i, o := range part {
			if o != last {
				if count > 0 {
					p.list = append(p.list, piece{last - 1, count})
				}
				last, count = o, 0
			}
			count++
			part[i] = k + 1
		}
	}
	if count > 0 {
		p.list = append(p.list, piece{last - 1, count})
	}
}

// turn puts pieces that were cut from the last access to the first into the order of the accesses.
func (p *pieces) turn() {
	ordered := make([]piece, 0, len(p.list))
	n := len(p.first) - 1
	end := int32(len(p.list))
	starts := slices.Clone(p.first[:n])
	for k := range n {
		next := end
		if k > 0 {
			next = starts[k-1]
		}
		p.first[k] = int32(len(ordered))
		ordered = append(ordered, p.list[starts[k]:next]...)
	}
	p.list = ordered
}
