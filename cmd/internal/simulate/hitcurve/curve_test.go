package hitcurve

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// draw returns random prompts that share beginnings, in blocks of 4 tokens.
func draw(r *rand.Rand, n, longest, ids int) ([]Access, int) {
	numbers := workload.NewChains(4, 4)
	list := make([]Access, n)
	for k := range list {
		var prompt []workload.IDRun
		for range r.IntN(longest + 1) {
			prompt = append(prompt, workload.IDRun{ID: int64(r.IntN(ids)), Count: 1})
		}
		tokens := 4*len(prompt) + r.IntN(4)
		list[k] = Access{tokens, numbers.Add(prompt, tokens)}
	}
	return list, numbers.Count()
}

func (a Access) blocks() (list []uint32) {
	for _, run := range a.Chain {
		for n := range run.Count {
			list = append(list, run.First+n)
		}
	}
	return list
}

// listed plays a cache that is a list, block by block. The first of the list is the next to leave.
func listed(list []Access, o Options, size int, lru bool) (found int64) {
	var cache []uint32
	for _, a := range list {
		blocks := a.blocks()
		was := slices.Clone(cache)
		leading := 0
		for leading < len(blocks) && slices.Contains(was, blocks[leading]) {
			leading++
		}
		found += int64(min(leading, o.most(a)))
		for _, b := range slices.Backward(blocks) {
			if lru {
				cache = slices.DeleteFunc(cache, func(other uint32) bool { return other == b })
			} else if slices.Contains(was, b) {
				continue
			}
			cache = append(cache, b)
		}
		cache = cache[max(0, len(cache)-size):]
	}
	return found * int64(o.BlockSize)
}

// best tries everything that a cache could keep after each prompt.
func best(list []Access, o Options, size int) int64 {
	reached := map[uint]int64{0: 0}
	for _, a := range list {
		blocks := a.blocks()
		next := map[uint]int64{}
		for cache, found := range reached {
			leading := 0
			for leading < len(blocks) && cache&(1<<blocks[leading]) != 0 {
				leading++
			}
			found += int64(min(leading, o.most(a)))
			all := cache
			for _, b := range blocks {
				all |= 1 << b
			}
			for kept := all; ; kept = (kept - 1) & all {
				if bits.OnesCount(kept) <= size {
					next[kept] = max(next[kept], found)
				}
				if kept == 0 {
					break
				}
			}
		}
		reached = next
	}
	most := int64(0)
	for _, found := range reached {
		most = max(most, found)
	}
	return most * int64(o.BlockSize)
}

func compute(t testing.TB, list []Access, o Options) *Curve {
	c, err := Compute(context.Background(), list, o)
	require.NoError(t, err)
	return c
}

// LRU and FIFO find what a list of blocks finds, at every size and in every number of pools.
// Covers S-90.
func TestLists(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		list, chains := draw(r, 1+r.IntN(40), 1+r.IntN(8), 1+r.IntN(4))
		o := Options{BlockSize: 4, Pools: 1 + r.IntN(3), Policies: Policies}
		o.FullHit = []preset.Choice{preset.FullHitFree, "recompute_last"}[r.IntN(2)]
		for size := range chains + 2 {
			o.Sizes = append(o.Sizes, int64(size))
		}
		c := compute(t, list, o)
		require.Len(t, c.Points, chains+2)
		for _, p := range c.Points {
			var lru, fifo int64
			for pool := range o.Pools {
				var own []Access
				for k := pool; k < len(list); k += o.Pools {
					own = append(own, list[k])
				}
				lru += listed(own, o, int(p.Size), true)
				fifo += listed(own, o, int(p.Size), false)
			}
			require.Equal(t, []int64{lru, fifo}, []int64{p.Found[LRU], p.Found[FIFO]}, "seed %d, %d blocks", seed, p.Size)
			if o.FullHit == preset.FullHitFree {
				require.GreaterOrEqual(t, p.Found[Optimal], max(lru, fifo), "seed %d, %d blocks", seed, p.Size)
			}
		}
		enough := slices.IndexFunc(c.Points, func(p Point) bool { return p.Found[LRU] == c.Found })
		require.Equal(t, c.Enough, c.Points[enough].Size, "seed %d", seed)
		last := c.Points[len(c.Points)-1].Found
		require.Equal(t, []int64{c.Found, c.Found, c.Found}, []int64{last[LRU], last[FIFO], last[Optimal]})
	}
}

// The optimal policy finds as much as the best of all that a cache could keep.
// Covers S-91.
func TestOptimal(t *testing.T) {
	better := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		list, chains := draw(r, 2+r.IntN(8), 1+r.IntN(3), 2)
		if chains > 9 {
			continue
		}
		o := Options{BlockSize: 4, FullHit: preset.FullHitFree, Policies: Policies, Sizes: []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}
		for _, p := range compute(t, list, o).Points {
			require.Equal(t, best(list, o, int(p.Size)), p.Found[Optimal], "seed %d, %d blocks", seed, p.Size)
			if p.Found[Optimal] > p.Found[LRU] {
				better++
			}
		}
	}
	assert.Greater(t, better, 50)
}

func TestSizes(t *testing.T) {
	list, _ := draw(rand.New(rand.NewPCG(1, 1)), 100, 8, 3)
	c := compute(t, list, Options{BlockSize: 4})
	require.NotEmpty(t, c.Points)
	assert.GreaterOrEqual(t, c.Points[len(c.Points)-1].Size, c.Enough)
	assert.Equal(t, int64(1), c.Points[0].Size)
	assert.Equal(t, []Point{{Size: 1, Found: map[Policy]int64{LRU: 0}}}, compute(t, nil, Options{BlockSize: 4}).Points)

	_, err := Compute(context.Background(), list, Options{Pools: -1, Policies: []Policy{"arc"}, Sizes: []int64{-1}})
	for _, want := range []string{"blocks of 0 tokens", "-1 pools", `policy "arc"`, "a cache of -1 blocks"} {
		require.ErrorContains(t, err, want)
	}
}

// released notes which turns a load has released.
type released struct {
	workload.Load
	ids []int
}

func (r *released) Release(now int64) (workload.Turn, bool) {
	t, ok := r.Load.Release(now)
	if ok {
		r.ids = append(r.ids, t.ID)
	}
	return t, ok
}

// Each request takes 2 s. Sessions begin at 0, 1 and 2 s, and their second turns at 2.1, 3.1 and 4.1 s.
func TestOrder(t *testing.T) {
	sessions, err := workload.Synthetic(workload.SyntheticOptions{
		Sessions: 3, Turns: 2, In: 8, Out: 2, EveryMS: 1000, ThinkMS: 100, BlockSize: 4, Shared: 1,
	})
	require.NoError(t, err)
	for decode, want := range map[float64][]int{2: {0, 2, 4, 1, 3, 5}, 20: {0, 2, 1, 4, 3, 5}} {
		load, err := sessions.Trace(1)
		require.NoError(t, err)
		noted := &released{Load: load}
		list, err := Order(context.Background(), noted, Rates{Prefill: 8, Decode: decode})
		require.NoError(t, err)
		assert.Equal(t, want, noted.ids)
		require.Len(t, list, 6)
		assert.Equal(t, Access{8, sessions.Turn(0).Chain}, list[0])
	}
	load, err := sessions.Trace(1)
	require.NoError(t, err)
	_, err = Order(context.Background(), load, Rates{Prefill: 0, Decode: 1})
	require.ErrorContains(t, err, "prefill rate 0")
}

func TestBytesPerToken(t *testing.T) {
	for config, want := range map[string]int64{
		`{"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"hidden_size":4096,"torch_dtype":"bfloat16"}`: 131072,
		`{"num_hidden_layers":61,"num_attention_heads":128,"kv_lora_rank":512,"qk_rope_head_dim":64,"torch_dtype":"bfloat16"}`:  70272,
		`{"text_config":{"num_hidden_layers":2,"num_attention_heads":4,"head_dim":16},"dtype":"float32"}`:                       1024,
		`{"num_hidden_layers":1,"num_attention_heads":1,"hidden_size":8,"torch_dtype":"float8_e4m3fn","num_key_value_heads":1}`: 16,
	} {
		got, err := BytesPerToken([]byte(config))
		require.NoError(t, err)
		assert.Equal(t, want, got, config)
	}
	for config, want := range map[string]string{
		`[]`:                       "not the config.json of a model",
		`{}`:                       "no num_hidden_layers",
		`{"num_hidden_layers":1}`:  "neither num_key_value_heads",
		`{"num_hidden_layers":-1}`: "num_hidden_layers -1: want 0 to 1048576",
		`{"num_hidden_layers":1,"kv_lora_rank":1,"torch_dtype":"int3"}`: `torch_dtype "int3"`,
	} {
		_, err := BytesPerToken([]byte(config))
		require.ErrorContains(t, err, want)
	}
}

// The block with the last token is computed, unless a prompt may be found whole.
func TestFullHit(t *testing.T) {
	twice := []Access{{8, []engine.Run{{First: 0, Count: 2}}}, {8, []engine.Run{{First: 0, Count: 2}}}}
	for hit, want := range map[preset.Choice]int64{preset.FullHitFree: 8, "recompute_last": 4} {
		c := compute(t, twice, Options{BlockSize: 4, FullHit: hit, Policies: Policies, Sizes: []int64{2}})
		assert.Equal(t, map[Policy]int64{LRU: want, FIFO: want, Optimal: want}, c.Points[0].Found)
	}
}

// Two lists of blocks, the first of which drops into the second, serve what the curve says of their sizes.
//
// Covers S-95.
func TestTiersAreOneCache(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 4))
	var list []Access
	for range 400 {
		family, blocks := uint32(draw.IntN(12)), 1+draw.IntN(30)
		list = append(list, Access{Prompt: blocks*16 + 1, Chain: []engine.Run{{First: family * 100, Count: uint32(blocks)}}})
	}
	const gpu, host = 60, 90
	curve, err := Compute(context.Background(), list, Options{BlockSize: 16, Sizes: []int64{gpu, gpu + host}})
	require.NoError(t, err)
	var tiers [2][]uint32 // the most recent first
	var served [2]int64
	for _, a := range list {
		missed := false
		for i := range a.Chain[0].Count {
			for k := range tiers {
				if !missed && slices.Contains(tiers[k], a.Chain[0].First+i) {
					served[k] += 16
				}
			}
			missed = missed || !slices.Contains(tiers[0], a.Chain[0].First+i) && !slices.Contains(tiers[1], a.Chain[0].First+i)
		}
		for i := int(a.Chain[0].Count) - 1; i >= 0; i-- {
			block := a.Chain[0].First + uint32(i)
			for k := range tiers {
				tiers[k] = slices.DeleteFunc(tiers[k], func(b uint32) bool { return b == block })
			}
			tiers[0] = slices.Insert(tiers[0], 0, block)
			if last := len(tiers[0]) - 1; last == gpu {
				tiers[1] = slices.Insert(tiers[1], 0, tiers[0][last])
				tiers[0] = tiers[0][:last]
			}
			tiers[1] = tiers[1][:min(len(tiers[1]), host)]
		}
	}
	require.Positive(t, served[1])
	require.Equal(t, served[0], curve.Points[0].Found[LRU])
	require.Equal(t, served[0]+served[1], curve.Points[1].Found[LRU])
}
