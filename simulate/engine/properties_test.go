package engine

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/simulate/preset"
)

// randomOptions returns a small engine, under rules of any mix.
func randomOptions(draw *rand.Rand) Options {
	c := Default()
	c.Blocks, c.BlockSize = 2+draw.IntN(40), []int{1, 2, 4, 16}[draw.IntN(4)]
	c.MaxSeqs, c.MaxBatchedTokens = 1+draw.IntN(6), 1+draw.IntN(80)
	c.PrefixCaching, c.ChunkedPrefill = draw.IntN(5) > 0, draw.IntN(5) > 0
	c.PreemptionMode = []string{LIFO, FIFO}[draw.IntN(2)]
	c.Type = []string{VLLM, VLLM, VLLM, TRTLLM, SGLang}[draw.IntN(5)]
	if c.Type == SGLang {
		c.MaxBatchedTokens = max(c.MaxBatchedTokens, c.BlockSize)
	}
	if draw.IntN(5) == 0 {
		c.MaxModelLen = 10 + draw.IntN(100)
	}
	switches, _ := preset.Named(preset.Names[draw.IntN(len(preset.Names))])
	if draw.IntN(2) == 0 {
		for _, name := range []string{"admission", "full_hit", "alloc", "block_visible", "duplicates", "sampled_block", "first_token", "decode_kv", "impossible"} {
			choices := preset.Choices(name)
			_ = switches.Set(name, choices[draw.IntN(len(choices))])
		}
	}
	return Options{Config: c, Timing: NewTiming(c, nil), Switches: switches, Role: Role(draw.IntN(3)), Gaps: &Gaps{}}
}

// randomRequests returns requests whose chains are paths of one tree.
func randomRequests(draw *rand.Rand, c Config) (list []*Request) {
	for n := range 1 + draw.IntN(12) {
		r := &Request{ID: n, Prompt: 1 + draw.IntN(90), Output: 1 + draw.IntN(40)}
		shared := draw.IntN(r.Prompt/c.BlockSize + 1)
		if common := min(shared, draw.IntN(20)); common > 0 {
			r.Chain = append(r.Chain, Run{uint32(draw.IntN(2) * 1000), uint32(common)})
			shared -= common
		}
		if shared > 0 {
			r.Chain = append(r.Chain, Run{uint32(10_000 + 1000*n), uint32(shared)})
		}
		list = append(list, r)
	}
	return list
}

// checkPool compares the counts of a pool with what its slots say.
func checkPool(t *testing.T, w *Worker) {
	p, leases := w.pool, map[int32]int{}
	for _, r := range w.running {
		for _, s := range r.blocks {
			leases[s]++
		}
		require.GreaterOrEqual(t, len(r.blocks)*w.rules.blockSize, r.computed)
	}
	for _, r := range w.waiting.all() {
		require.Empty(t, r.blocks)
	}
	inactive := 0
	for s := p.oldest; s != none; s = p.slots[s].next {
		require.Zero(t, p.slots[s].refs)
		require.NotZero(t, p.slots[s].key)
		inactive++
	}
	require.Equal(t, []int{len(leases), inactive}, []int{p.active, p.inactive})
	require.LessOrEqual(t, p.active+p.inactive, w.rules.blocks)
	require.Equal(t, p.unused(), len(p.free)+len(p.slots)-p.fresh)
	visible := map[uint32]int{}
	for s := range p.slots {
		b := &p.slots[s]
		require.Equal(t, leases[int32(s)], int(max(b.refs, 0)), "leases of block %d", s)
		if b.key != 0 && b.key != private && (b.refs > 0 || held(p, int32(s))) {
			visible[b.key-1]++
		}
	}
	for chain, copies := range visible {
		n := 0
		for s := p.index.find(chain); s != none; s = p.slots[s].newer {
			require.Equal(t, chain+1, p.slots[s].key)
			n++
		}
		require.Equal(t, copies, n, "copies of chain %d", chain)
	}
}

// held reports whether a slot is among the inactive ones.
func held(p *pool, slot int32) bool {
	for s := p.oldest; s != none; s = p.slots[s].next {
		if s == slot {
			return true
		}
	}
	return false
}

// playRandom plays a random engine, looks at its pool after every pass, and at its requests when they have ended.
func playRandom(t *testing.T, seed uint64, ended, preempted *int) {
	draw := rand.New(rand.NewPCG(seed, 1))
	o := randomOptions(draw)
	o.Plain = draw.IntN(2) == 0
	prompts, computed := 0, 0
	o.Observe = func(p *Pass) { computed += p.Prefill.Tokens }
	w := New(o)
	list := randomRequests(draw, o.Config)
	left, completed, checked := list, 0, 0
	for now := int64(0); w.HasWork() || w.Busy() || len(left) > 0; {
		for len(left) > 0 && (!w.HasWork() || draw.IntN(3) == 0) {
			w.Submit(now, left[0], w.Busy() && draw.IntN(2) == 0)
			left = left[1:]
		}
		if !w.Busy() {
			w.Start(now)
			if w.Stuck() != nil {
				break
			}
		}
		if draw.IntN(2) == 0 && w.End() > now+1 { // a look, or a request, in the middle of a pass or stretch
			now += 1 + draw.Int64N(w.End()-now-1)
			w.Settle(now)
			continue
		}
		now = w.End()
		w.Finish()
		if checked++; checked < 150 {
			checkPool(t, w)
		}
		completed += len(w.Completed())
	}
	if w.Stuck() == nil {
		require.Equal(t, len(list), completed, "seed %d", seed)
		require.Zero(t, w.pool.active, "seed %d", seed)
	}
	for _, r := range list {
		if r.Status == Done {
			*ended++
			want := r.Output
			if o.Config.MaxModelLen > 0 {
				want = min(want, o.Config.MaxModelLen-r.Prompt)
			}
			require.Equal(t, want, r.Tokens, "seed %d", seed)
			require.True(t, r.First <= r.Last && r.Admitted <= r.First, "seed %d", seed)
		}
		if r.Admissions > 0 {
			prompts += r.Prompt - r.Reused
		}
		*preempted += r.Preemptions
	}
	if w.Counts().Preemptions == 0 && w.Stuck() == nil {
		require.Equal(t, prompts, computed, "seed %d: prompts less hits", seed)
	}
}

// Covers S-18.
func TestWhatHoldsInEveryPass(t *testing.T) {
	ended, preempted := 0, 0
	for seed := range uint64(1500) {
		playRandom(t, seed, &ended, &preempted)
	}
	playRandom(t, 1<<32+0x3e0, &ended, &preempted) // comes back from a preemption in chunks, the last token without a block
	require.Greater(t, ended, 2500)
	require.Greater(t, preempted, 500)
}

// The same for as long as AGENTX_SIMULATE says: make test-simulate.
//
// Covers S-80.
func TestRandomEngines(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("AGENTX_SIMULATE"))
	if err != nil {
		t.Skip("AGENTX_SIMULATE=1h plays random engines for an hour")
	}
	ended, preempted := 0, 0
	seed := uint64(1 << 32)
	for end := time.Now().Add(length); time.Now().Before(end); seed++ {
		playRandom(t, seed, &ended, &preempted)
	}
	t.Logf("%d engines: %d requests ended, %d preemptions", seed-1<<32, ended, preempted)
}
