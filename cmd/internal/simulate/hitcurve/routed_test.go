package hitcurve

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// router is a router of tests: it chooses by a function, keeps every third request until the next event, and has lists of blocks of what
// it hears.
type router struct {
	t      *testing.T
	choose func(n int) int
	kept   []*fleet.Request
	let    bool
	heard  []map[uint32]bool
	n      int
	keep   bool
	at     map[*fleet.Request]int // 1: begun, 2: first token
}

func (r *router) Workers(_ int64, active []int) {
	for range active {
		r.heard = append(r.heard, map[uint32]bool{})
	}
	r.at = map[*fleet.Request]int{}
}

func (r *router) Route(_ int64, q *fleet.Request) (int, bool) {
	r.n++
	if r.keep && r.n%3 == 0 {
		r.kept = append(r.kept, q)
		return 0, false
	}
	r.at[q] = 1
	return r.choose(r.n - 1), true
}

func (r *router) Next(int64) (*fleet.Request, int) {
	if !r.let || len(r.kept) == 0 {
		r.let = r.let && len(r.kept) > 0
		return nil, 0
	}
	q := r.kept[0]
	r.kept = r.kept[1:]
	r.at[q] = 1
	return q, r.choose(r.n)
}

func (r *router) Events(worker int, list []engine.KVEvent) {
	for _, e := range list {
		for n := range e.Count {
			assert.Equal(r.t, e.Removed, r.heard[worker][e.First+n], "a block comes once, and goes once")
			if r.heard[worker][e.First+n] = !e.Removed; e.Removed {
				delete(r.heard[worker], e.First+n)
			}
		}
	}
}

func (r *router) FirstToken(_ int64, q *fleet.Request) {
	assert.Equal(r.t, 1, r.at[q])
	r.at[q], r.let = 2, true
}

func (r *router) Completed(_ int64, q *fleet.Request) {
	assert.Equal(r.t, 2, r.at[q])
	delete(r.at, q)
	r.let = true
}

// draws is a load of random prompts, of which some are open at a time.
type draws struct {
	list []Access
	open int
	next int
}

func (d *draws) Next() (int64, bool) { return 0, d.next < len(d.list) && d.open > 0 }
func (d *draws) Release(int64) (t workload.Turn, ok bool) {
	if d.next == len(d.list) || d.open == 0 {
		return t, false
	}
	a := d.list[d.next]
	d.next++
	d.open--
	return workload.Turn{ID: d.next, Prompt: max(a.Prompt, 1), Output: 1 + d.next%5, Chain: a.Chain}, true
}
func (d *draws) Completed(int, int64) { d.open++ }
func (d *draws) Left() int            { return len(d.list) - d.next }

// A router that sends requests in turn gives the curve of pools that get them in turn, at every size and by every policy. What it
// hears of the caches is what they hold.
//
// Covers S-93.
func TestRoutedInTurn(t *testing.T) {
	rates := Rates{Prefill: 10, Decode: 3}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		list, chains := draw(r, 1+r.IntN(40), 1+r.IntN(8), 1+r.IntN(4))
		o := Options{BlockSize: 4, Pools: 1 + r.IntN(3), Policies: Policies}
		o.FullHit = []preset.Choice{preset.FullHitFree, "recompute_last"}[r.IntN(2)]
		for size := range chains + 2 {
			o.Sizes = append(o.Sizes, int64(size))
		}
		open := 1 + r.IntN(4)
		load := func() (workload.Load, error) { return &draws{list: list, open: open}, nil }
		inTurn := func() (fleet.Router, error) {
			return &router{t: t, choose: func(n int) int { return n % o.Pools }}, nil
		}
		ordered, err := load()
		require.NoError(t, err)
		order, err := Order(context.Background(), ordered, rates)
		require.NoError(t, err)
		want := compute(t, order, o)
		got, err := Routed{load, inTurn, rates}.Compute(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, want.Points, got.Points, "seed %d", seed)
		require.Equal(t, []any{want.Requests, want.InputTokens, want.blocks, want.Found}, []any{got.Requests, got.InputTokens, got.blocks, got.Found}, "seed %d", seed)
		require.GreaterOrEqual(t, got.Enough, want.Enough)
	}
}

// However a router chooses, and whatever it keeps for a while, every pool finds what a list of blocks finds in the requests that it
// gets, and the router hears of the same blocks.
//
// Covers S-93.
func TestRoutedAnyhow(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 6))
		list, chains := draw(r, 1+r.IntN(40), 1+r.IntN(8), 1+r.IntN(4))
		o := Options{BlockSize: 4, Pools: 3, Policies: Policies, chains: chains}
		size := int64(r.IntN(chains + 2))
		var one *router
		routed := Routed{
			func() (workload.Load, error) { return &draws{list: list, open: 3}, nil },
			func() (fleet.Router, error) {
				choices := rand.New(rand.NewPCG(seed, 7))
				one = &router{t: t, choose: func(int) int { return choices.IntN(3) }, keep: true}
				return one, nil
			}, Rates{Prefill: 10, Decode: 3},
		}
		s, err := routed.play(context.Background(), &o, size)
		require.NoError(t, err)
		require.Empty(t, one.at, "every request ends")
		found, requests := int64(0), 0
		for k, pool := range s.pools {
			found += listed(pool, o, int(size), true)
			requests += len(pool)
			require.EqualValues(t, s.caches[k].used, len(one.heard[k]))
			require.LessOrEqual(t, s.caches[k].used, size)
		}
		require.Equal(t, len(list), requests)
		require.Equal(t, found, s.found, "seed %d", seed)

		o.Sizes = []int64{size, size}
		c, err := routed.Compute(context.Background(), o)
		require.NoError(t, err)
		require.Len(t, c.Points, 1)
		require.Equal(t, found, c.Points[0].Found[LRU])
		if o.FullHit == preset.FullHitFree {
			require.GreaterOrEqual(t, c.Points[0].Found[Optimal], max(found, c.Points[0].Found[FIFO]))
		}
	}
}

// What is wrong is told before anything is played, and an end by the caller ends all plays.
func TestRoutedErrors(t *testing.T) {
	load := func() (workload.Load, error) {
		return &draws{open: 1, list: slices.Repeat([]Access{{Prompt: 4}}, 9)}, nil
	}
	inTurn := func() (fleet.Router, error) { return &router{t: t, choose: func(int) int { return 0 }}, nil }
	_, err := Routed{load, inTurn, Rates{}}.Compute(context.Background(), Options{BlockSize: 4})
	assert.ErrorContains(t, err, "prefill rate 0")
	_, err = Routed{load, inTurn, Rates{1, 1}}.Compute(context.Background(), Options{})
	assert.ErrorContains(t, err, "blocks of 0 tokens")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Routed{load, inTurn, Rates{1, 1}}.Compute(ctx, Options{BlockSize: 4})
	assert.ErrorIs(t, err, context.Canceled)
}
