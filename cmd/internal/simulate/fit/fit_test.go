package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// truth is the constants of the engines that are measured here.
var truth = engine.Formula{Pass: 8, Weights: 1.28, Token: 0.04, Attention: 1e-6, KV: 1e-4}

// measured returns the requests of agents in lanes as an engine of a structure answers them, with 2 ms of noise on every instant. Each tree
// resends a prompt that grows.
func measured(t *testing.T, s structure, seed uint64) ([]Request, Options) {
	draw := rand.New(rand.NewPCG(seed, 1))
	o := Options{Base: engine.Default(), Workers: 1}
	o.Switches, _ = preset.Named(preset.Default)
	var list []Request
	for lane := range 12 {
		last := -1
		for range 6 {
			tree := len(list) // any number of its own
			prompt := 1000 + draw.IntN(4000)
			for turn := range 7 {
				r := Request{Prompt: prompt, Output: 10 + draw.IntN(150), Tree: tree/7*3 + lane, Lane: lane, Sent: int64(draw.IntN(3e9)), after: last}
				r.Chain = []engine.Run{{First: uint32(tree) * 1000, Count: uint32(prompt / 64)}}
				if turn == 0 && last < 0 {
					r.Sent = int64(lane) * 4e8
				}
				last = len(list)
				list = append(list, r)
				prompt += 200 + draw.IntN(3000)
			}
		}
	}
	p := &problem{ctx: context.Background(), list: list, o: o}
	one, err := p.play(s, truth, true)
	require.NoError(t, err)
	noise := func(at int64) int64 { return max(at+int64(draw.NormFloat64()*2e6), 0) }
	for k, q := range one.requests {
		r := &list[k]
		r.Sent, r.First, r.Last, r.Cached = q.Arrival, noise(q.First), noise(q.Last), q.Reused
		r.First = max(r.First, r.Sent+1e6)
		r.Last = max(r.Last, r.First)
	}
	Link(list)
	return list, o
}

// structures differ from the first in one thing each.
var structures = map[string]structure{
	"plain":         {slots: 256, budget: 8192, chunked: true, cached: true},
	"disaggregated": {slots: 256, budget: 8192, chunked: true, cached: true, split: true},
	"slots":         {slots: 6, budget: 8192, chunked: true, cached: true},
	"budget":        {slots: 256, budget: 1024, chunked: true, cached: true},
	"no cache":      {slots: 256, budget: 8192, chunked: true},
}

// differs says in which thing each structure differs from plain.
var differs = map[string]string{"disaggregated": "fleet", "slots": "max_num_seqs", "budget": "max_num_batched_tokens", "no cache": "prefix cache"}

// Covers S-82, S-83.
func TestStructuresAreFound(t *testing.T) {
	for name, s := range structures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, o := measured(t, s, 7)
			r, err := Engine(context.Background(), list, o)
			require.NoError(t, err)
			t.Log("\n" + r.Text())
			c := r.Engine
			for _, m := range r.Margins {
				if m.Of == differs[name] {
					require.Greater(t, m.Worse, 1.5*m.Score, "%+v", m)
				}
			}
			require.Equal(t, s, structure{c.Fit.Disaggregated, c.MaxSeqs, c.MaxBatchedTokens, c.ChunkedPrefill, c.PrefixCaching})
			for _, e := range r.Errors {
				bound := 0.05
				if e.Name[len(e.Name)-3:] == "p95" {
					bound = 0.10
				}
				require.Less(t, math.Abs(e.Relative), bound, e.Name)
			}
		})
	}
}

// Covers S-84.
func TestRequestsWaitForOthersInTheirLane(t *testing.T) {
	list := []Request{
		{Lane: 1, Sent: 40, First: 50, Last: 60}, {Lane: 0, Sent: 35, First: 36, Last: 37},
		{Lane: 1, Sent: 0, First: 10, Last: 20}, {Lane: 1, Sent: 5, First: 7, Last: 30},
	}
	Link(list)
	var after []int
	for _, r := range list {
		after = append(after, r.after)
	}
	require.Equal(t, []int{-1, -1, -1, 1}, after, "the last waits for the second, which ended last")
	for closed, want := range map[bool]int64{false: 40, true: 130 + 10} {
		l := Load(list, closed)
		for _, at := range []int64{0, 5, 35} {
			next, ok := l.Next()
			require.True(t, ok)
			require.Equal(t, at, next)
			_, ok = l.Release(next)
			require.True(t, ok)
		}
		l.Completed(0, 90)
		l.Completed(1, 130) // 100 later than then
		next, ok := l.Next()
		require.True(t, ok)
		require.Equal(t, want, next)
		require.Equal(t, 1, l.Left())
	}
}

// Covers S-85.
func TestLeastSquares(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	want := engine.Formula{Pass: 3, Weights: 6.4, Token: 0.05, Attention: 1e-6, KV: 0}
	var rows []row
	for range 200 {
		var r row
		for range 1 + draw.IntN(5) {
			w := engine.Work{New: draw.IntN(3) * draw.IntN(400), Batch: 1 + draw.IntN(30)}
			w.Prefix, w.KV = draw.IntN(50_000), draw.IntN(100_000)
			w.Attended = w.New * w.Prefix
			for k, v := range featuresOf(&w) {
				r.features[k] += v
			}
			r.ms += want.Pass + max(want.Weights, want.Token*float64(w.New+w.Batch)) + want.Attention*float64(w.Attended) - 1e-9*float64(w.KV)
		}
		r.weight = 1 / (r.ms * r.ms)
		rows = append(rows, r)
	}
	got := leastSquares(rows)
	require.Zero(t, got.KV, "no constant is negative")
	require.InEpsilon(t, want.Pass, got.Pass, 1e-3)
	require.InEpsilon(t, want.Weights, got.Weights, 1e-3)
	require.InEpsilon(t, want.Token, got.Token, 1e-3)
	require.InEpsilon(t, want.Attention, got.Attention, 1e-3)
	require.Zero(t, leastSquares(nil))
}

func TestTooFewRequests(t *testing.T) {
	_, err := Engine(context.Background(), make([]Request, 30), Options{})
	require.EqualError(t, err, "30 requests of 1 trees that ended well: want at least 20 of 2: play for longer")
}
