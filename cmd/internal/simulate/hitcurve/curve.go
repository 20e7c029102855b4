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
