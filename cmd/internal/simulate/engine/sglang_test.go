package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// playSGLang plays requests, of which the first comes at 0 and the others just after its pass has begun. It returns the passes.
func playSGLang(t *testing.T, config Config, role Role, plain bool, after func(w *Worker), list ...*Request) (passes []Pass) {
	return playSGLangAt(t, preset.Default, config, role, plain, 1, after, list...)
}

// playSGLangAt is playSGLang under a preset, where the others come later.
func playSGLangAt(t *testing.T, named string, config Config, role Role, plain bool, at int64, after func(w *Worker), list ...*Request) (passes []Pass) {
	config.Type = SGLang
	require.NoError(t, config.Validate())
	switches, _ := preset.Named(named)
	w := New(Options{
		Config: config, Timing: NewTiming(config, nil), Switches: switches, Role: role, Plain: plain, Observe: func(p *Pass) { passes = append(passes, *p) },
	})
	w.Submit(0, list[0], false)
	left := list[1:]
	for now := int64(0); w.HasWork(); now = w.End() {
		w.Start(now)
		require.Nil(t, w.Stuck())
		for ; len(left) > 0 && w.End() > at; left = left[1:] {
			w.Submit(at, left[0], true)
		}
		w.Finish()
		if after != nil {
			after(w)
		}
	}
	return passes
}

// While prompts can be computed, no other request emits; the first token of a prompt takes a decode step of its own, or none.
//
// Covers S-28.
func TestSGLangComputesPromptsFirst(t *testing.T) {
	config := Default()
	timing := NewTiming(config, nil)
	for _, plain := range []bool{true, false} {
		for named, one := range map[string]int64{
			preset.Default: timing.Prefill(128) + timing.Decode(128, 128, 1), preset.Dynamo16: timing.Prefill(128),
		} {
			two := timing.Decode(258, 258, 2)
			a, b := &Request{Prompt: 128, Output: 3}, &Request{Prompt: 128, Output: 3}
			playSGLangAt(t, named, config, Aggregated, plain, 1, nil, a, b)
			require.Equal(t, [2]int64{one, 2*one + two}, [2]int64{a.First, a.Second}, "the first waits while the prompt of the second is computed")
			require.Equal(t, [2]int64{2 * one, 2*one + two}, [2]int64{b.First, b.Second})
		}
	}
}

// A prompt that the budget cuts is cut at a whole block; it is computed to its end before another begins.
//
// Covers S-28.
func TestSGLangChunks(t *testing.T) {
	config := Default()
	for _, plain := range []bool{true, false} {
		long := &Request{Prompt: 8844, Output: 173}
		require.Len(t, playSGLang(t, config, Aggregated, plain, nil, long), 174)
		require.Equal(t, [2]int64{201_910_614, 1_267_988_050}, [2]int64{long.First, long.Last}, "alone it is as with vLLM")

		list := []*Request{tiny()}
		for range 4 {
			list = append(list, &Request{Prompt: 4000, Output: 2})
		}
		passes := playSGLang(t, config, Aggregated, plain, nil, list...)
		// Blocks of 64 tokens: 4,000 tokens are charged 4,032 of the budget of 8,192, which leaves 128.
		require.Equal(t, [2]int{3, 4000 + 4000 + 128}, [2]int{passes[1].Prefill.Requests, passes[1].Prefill.Tokens})
		require.Equal(t, [2]int{2, 3872 + 4000}, [2]int{passes[2].Prefill.Requests, passes[2].Prefill.Tokens})
		require.Equal(t, [3]int{0, 0, 4}, [3]int{passes[3].Prefill.Requests, passes[3].QueuedPrefill.Requests, passes[3].Decode.Requests})
		require.Equal(t, list[1].Second, list[4].Second)

		config.ChunkedPrefill = false
		whole := &Request{Prompt: 9000, Output: 1}
		passes = playSGLang(t, config, Aggregated, plain, nil, tiny(), whole, &Request{Prompt: 4000, Output: 1})
		require.Equal(t, [2]int{9000, 4000}, [2]int{passes[1].Prefill.Tokens, passes[2].Prefill.Tokens})
		config.ChunkedPrefill = true
	}
}

func tiny() *Request { return &Request{Prompt: 64, Output: 1} }

// A request enters when its tokens fit beside a share of the output that others may still have, which falls with every decode step.
//
// Covers S-28.
func TestSGLangAdmission(t *testing.T) {
	config := Default()
	config.Blocks = 100
	for _, output := range []int{4096, 4300} { // of which 4,096 count
		for _, plain := range []bool{true, false} {
			a, b := &Request{Prompt: 2048, Output: output}, &Request{Prompt: 2000, Output: 10}
			passes := playSGLang(t, config, Aggregated, plain, nil, a, b)
			enters := 1
			for ; enters < 600; enters++ { // passes that were played: A has emitted as many tokens, all of which have room
				ratio := 0.7 - float64(enters-1)*0.602/600
				room := float64(6400-(2048+enters+63)/64*64) - ratio*float64(min(output-enters, 4096))
				if 2048+10 < room {
					break
				}
			}
			require.Greater(t, enters, 100)
			require.Less(t, enters, 400)
			require.Equal(t, passes[enters].Start, b.Admitted)
			require.Equal(t, []Status{Done, Done}, []Status{a.Status, b.Status})
			late := &Request{Prompt: 2000, Output: 10}
			playSGLangAt(t, preset.Default, config, Aggregated, plain, passes[50].Start+1, nil, &Request{Prompt: 2048, Output: output}, late)
			require.Equal(t, b.Admitted, late.Admitted, "the share falls while no request waits, too")
		}
	}
	config.Blocks = 8 // alone, a request gets what there is, although its output may not fit
	alone := &Request{Prompt: 128, Output: 1000}
	playSGLang(t, config, Aggregated, false, nil, alone)
	require.Equal(t, [2]int{int(KVExhausted), 8*64 - 128}, [2]int{int(alone.Status), alone.Tokens})
	rejected := &Request{Prompt: 513, Output: 1}
	playSGLang(t, config, Aggregated, false, nil, tiny(), rejected)
	require.Equal(t, Rejected, rejected.Status)
	last := &Request{Prompt: 512, Output: 1}
	playSGLang(t, config, Aggregated, false, nil, tiny(), last)
	require.Equal(t, Done, last.Status, "the last token needs no room")
}

// Where the next tokens have no room, the first request of those with the fewest tokens gives up its blocks and waits behind all others,
// and the share is estimated anew.
//
// Covers S-28.
func TestSGLangRetracts(t *testing.T) {
	config := Default()
	config.Blocks = 10
	for _, plain := range []bool{true, false} {
		a, b, c := &Request{Prompt: 64, Output: 300}, &Request{Prompt: 64, Output: 290}, &Request{Prompt: 320, Output: 3}
		ratio, first := 0.0, 0
		playSGLangAt(t, preset.Default, config, Aggregated, plain, 1, func(w *Worker) {
			if b.Status == Preempted && ratio == 0 {
				ratio, first = w.sglang.ratio, a.Tokens
				require.Equal(t, []*Request{c, b}, w.waiting.all())
			}
		}, a, b, c)
		require.Equal(t, float64(first-1+20)/301, ratio, "20 tokens more than it has at the time, of 300")
		require.Equal(t, [4]int{0, 1, 300, 290}, [4]int{a.Preemptions, b.Preemptions, a.Tokens, b.Tokens})
		require.Less(t, c.First, b.Last)
	}
	w := &Worker{sglang: &sglang{tree: newRadix(1)}, rules: rules{blockSize: 1}}
	for i, tokens := range []int{7, 3, 3, 0} {
		w.running = append(w.running, &Request{ID: i, Prompt: 10, Tokens: tokens})
	}
	w.sglang.cut = w.running[3]
	_, least := w.growth()
	require.Equal(t, 1, least.ID, "fewest tokens, first; a prompt that was cut stays")
}

// Blocks are found from the next pass on. The leaf that was used longest ago goes first, from its end: a use is a hit of a whole row or a
// block that was filled behind it, not the end of a request.
//
// Covers S-28.
func TestSGLangTree(t *testing.T) {
	tree := newRadix(10)
	enter := func(first, count, found int) *Request {
		r := &Request{Prompt: count, limit: 1, Chain: []Run{{uint32(first), uint32(count)}}, shared: count}
		r.branch = newBranch(r, 1, count)
		require.True(t, tree.enter(r, count, count))
		require.Equal(t, found, r.branch.cached)
		r.branch.tokens = count
		return r
	}
	a := enter(0, 4, 0)
	twin := enter(0, 4, 0)
	require.Equal(t, [2]int{8, 0}, [2]int{tree.active, tree.inactive}, "nobody finds blocks that are not in the tree")
	tree.cache(a, 4)
	tree.cache(twin, 4)
	require.Equal(t, [2]int{4, 0}, [2]int{tree.active, tree.inactive}, "equal blocks are there once")
	b := enter(100, 3, 0)
	tree.finish(b, 3, true)
	tree.finish(twin, 4, true)
	tree.finish(a, 4, true)
	require.Equal(t, [2]int{0, 7}, [2]int{tree.active, tree.inactive})
	tree.take(5)
	require.Equal(t, 2, tree.find([]keys{{0, 4}}, 4), "of the row that was released last, but used first, the end")
	require.Equal(t, 3, tree.find([]keys{{100, 3}}, 3))
	tree.active -= 5
	tree.drop(enter(100, 2, 2)) // a part of a row, which does not count as a use
	tree.finish(enter(0, 1, 1), 1, true)
	tree.drop(enter(0, 2, 2))
	tree.take(6)
	require.Equal(t, [2]int{2, 2}, [2]int{tree.find([]keys{{0, 4}}, 4), tree.find([]keys{{100, 3}}, 3)})
	require.False(t, tree.enter(&Request{branch: &branch{keys: []keys{{0, 9}}}}, 9, 9))
	require.Equal(t, 6, tree.active, "without room nothing is leased")
}
