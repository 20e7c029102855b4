package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// randomOptions returns a small engine, under rules of any mix.
func randomOptions(draw *rand.Rand) Options {
	c := Default()
	c.Blocks, c.BlockSize = 2+draw.IntN(40), []int{1, 2, 4, 16}[draw.IntN(4)]
	c.MaxSeqs, c.MaxBatchedTokens = 1+draw.IntN(6), 1+draw.IntN(80)
	c.PrefixCaching, c.ChunkedPrefill = draw.IntN(5) > 0, draw.IntN(5) > 0
	c.PreemptionMode = []string{lifo, fifo}[draw.IntN(2)]
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

// randomTiers gives an engine tiers, and the switches that they need.
func randomTiers(draw *rand.Rand, o *Options) {
	o.Config.KVBytesPerToken = 1e6
	for n := range 1 + draw.IntN(3) {
		o.Config.Tiers = append(o.Config.Tiers, Tier{Name: fmt.Sprint(n), Size: fmt.Sprint(draw.IntN(40)), GBPerS: float64(draw.IntN(3)) / 2, Policy: []string{"", tierFIFO}[draw.IntN(2)]})
	}
	o.Config.Type = VLLM
	o.Switches, _ = preset.Named([]string{preset.Default, "dynamo-1.6"}[draw.IntN(2)])
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

// checkPool compares the counts of a pool with what its blocks say.
func checkPool(t *testing.T, w *Worker) {
	for _, r := range w.running {
		require.GreaterOrEqual(t, r.leases.blocks*w.rules.blockSize, r.computed)
	}
	holding := w.running
	for k, r := range w.Queued() {
		if k < len(w.loads) || handed(r) {
			holding = append(holding[:len(holding):len(holding)], r)
		} else {
			require.Empty(t, r.leases.list)
		}
	}
	require.LessOrEqual(t, w.used.active+w.used.inactive, w.rules.blocks)
	if p, ok := w.pool.(*extents); ok {
		p.check(t, holding)
	}
	if w.sglang != nil {
		w.sglang.tree.check(t, w.running)
	}
}

// check compares a tree with what the running requests have of it.
func (p *radix) check(t *testing.T, running []*Request) {
	leases, active, inactive := make([]int32, len(p.nodes)), 0, 0
	for _, r := range running {
		require.Equal(t, p.find(r.branch.keys, r.branch.cached), r.branch.cached)
		active += r.leases.blocks - r.branch.cached
		for at := r.branch.last; at != 0; at = p.nodes[at].parent {
			leases[at]++
		}
	}
	offered := map[leaf]bool{}
	for _, l := range p.leaves {
		offered[l] = true
	}
	for at, n := range p.nodes[1:] {
		at := int32(at + 1)
		require.Equal(t, leases[at], n.leases)
		if n.leases > 0 {
			active += n.blocks
		} else if inactive += n.blocks; n.blocks > 0 && n.children == 0 {
			require.True(t, offered[leaf{n.used, at}], "a leaf that can be evicted")
		}
		if n.blocks > 0 {
			require.Equal(t, at, p.first[n.keys[0].first])
		}
	}
	require.Equal(t, []int{active, inactive}, []int{p.active, p.inactive})
}

// check compares extents with the leases of the running requests.
func (p *extents) check(t *testing.T, running []*Request) {
	leases, active, inactive := map[int32]int{}, 0, 0
	for _, r := range running {
		blocks := 0
		for _, q := range r.leases.list {
			for left := q.count; left > 0; q.at = p.list[q.at].rest {
				leases[q.at]++
				left -= p.list[q.at].count
				require.GreaterOrEqual(t, left, int32(0))
			}
			blocks += int(q.count)
		}
		require.Equal(t, blocks, r.leases.blocks)
	}
	for at := range leases {
		active += int(p.list[at].count)
	}
	last := int32(none)
	for at := p.oldest; at != none; at = p.list[at].next {
		require.Zero(t, p.list[at].refs)
		require.NotZero(t, p.list[at].key)
		require.Equal(t, last, p.list[at].prev)
		inactive += int(p.list[at].count)
		last = at
	}
	require.Equal(t, last, p.newest)
	require.Equal(t, []int{active, inactive}, []int{p.active, p.inactive})
	p.checkIndex(t, leases)
}

// checkIndex wants every visible extent among the copies that the index has.
func (p *extents) checkIndex(t *testing.T, leases map[int32]int) {
	visible, numbers := 0, map[uint32]bool{}
	for at, e := range p.list {
		require.Equal(t, leases[int32(at)], int(e.refs), "leases of extent %d", at)
		if e.visible() {
			visible++
		}
	}
	for page := range p.index.pages {
		for c := uint32(page) * pageSize; c < uint32(page+1)*pageSize; c++ {
			first := p.index.find(c)
			for at := first; at != none; at = p.list[at].newer {
				require.Equal(t, []int{int(c) + 1, int(p.list[first].count)}, []int{int(p.list[at].key), int(p.list[at].count)})
				visible--
			}
			for k := uint32(0); first != none && k < uint32(p.list[first].count); k++ {
				require.False(t, numbers[c+k], "two extents have number %d", c+k)
				numbers[c+k] = true
			}
		}
	}
	require.Zero(t, visible)
}

// playRandom plays a random engine, looks at its pool after every pass, and at its requests when they have ended.
func playRandom(t *testing.T, seed uint64, ended, preempted *int) {
	draw := rand.New(rand.NewPCG(seed, 1))
	o := randomOptions(draw)
	o.Plain = draw.IntN(2) == 0
	if seed%8 == 1 || seed%8 == 4 {
		randomTiers(rand.New(rand.NewPCG(seed, 9)), &o)
	}
	prompts, computed := 0, 0
	o.Observe = func(p *Pass) { computed += p.Prefill.Tokens }
	w := New(o)
	list := randomRequests(draw, o.Config)
	left, completed, checked := list, 0, 0
	for now := int64(0); w.HasWork() && (w.Ready(now) || w.Wake() < never) || w.Busy() || len(left) > 0; {
		for len(left) > 0 && (!w.Ready(now) || draw.IntN(3) == 0) {
			w.Submit(now, left[0], w.Busy() && draw.IntN(2) == 0)
			left = left[1:]
		}
		if !w.Busy() {
			if !w.Ready(now) {
				now = w.Wake()
			}
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
		for _, r := range w.Signals() {
			if r.Status.Ended() {
				completed++
			}
			if o.Role == Prefill && r.Status == Done {
				w.Release(r)
			}
		}
		if checked++; checked < 150 {
			checkPool(t, w)
		}
	}
	if w.Stuck() == nil && !w.HasWork() {
		require.Equal(t, len(list), completed, "seed %d", seed)
		require.Zero(t, w.used.active, "seed %d", seed)
	}
	if o.Config.Type == SGLang && o.Switches.Impossible == "reject" {
		require.Nil(t, w.Stuck(), "seed %d: every request that fits comes to its end", seed)
	}
	for _, r := range list {
		if r.Status == Done {
			*ended++
			want := r.Output
			if o.Config.MaxModelLen > 0 {
				want = min(want, o.Config.MaxModelLen-r.Prompt)
			}
			if o.Config.Type == TRTLLM {
				want = min(want, o.Config.Blocks*o.Config.BlockSize-r.Prompt)
			}
			require.Equal(t, want, r.Tokens, "seed %d", seed)
			require.True(t, r.First <= r.Last && r.Admitted <= r.First, "seed %d", seed)
		}
		if r.Admissions > 0 {
			prompts += r.Prompt - r.Reused
		}
		*preempted += r.Preemptions
	}
	if w.Counts().Preemptions == 0 && w.Stuck() == nil && !w.HasWork() {
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
