package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// playSGLang plays requests, of which the first comes at 0 and the others just after its pass has begun. It returns the passes.
func playSGLang(t *testing.T, config Config, role Role, plain bool, after func(w *Worker), list ...*Request) (passes []Pass) {
	return playSGLangAt(t, config, role, plain, 1, after, list...)
}

// playSGLangAt is playSGLang where the others come later.
func playSGLangAt(t *testing.T, config Config, role Role, plain bool, at int64, after func(w *Worker), list ...*Request) (passes []Pass) {
	config.Type = SGLang
	require.NoError(t, config.Validate())
	switches, _ := preset.Named(preset.Default)
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

// While prompts can be computed, no other request emits; a worker that decodes alone goes on with all.
//
// Covers S-28.
func TestSGLangComputesPromptsFirst(t *testing.T) {
	config := Default()
	timing := NewTiming(config, nil)
	one, two := timing.Prefill(128)+timing.Decode(128, 128, 1), timing.Decode(258, 258, 2)
	for _, plain := range []bool{true, false} {
		a, b := &Request{Prompt: 128, Output: 3}, &Request{Prompt: 128, Output: 3}
		playSGLang(t, config, Aggregated, plain, nil, a, b)
		require.Equal(t, [2]int64{one, 2*one + two}, [2]int64{a.First, a.Second}, "the first waits while the prompt of the second is computed")
		require.Equal(t, [2]int64{2 * one, 2*one + two}, [2]int64{b.First, b.Second})
		a, b = &Request{Prompt: 128, Output: 3}, &Request{Prompt: 128, Output: 3}
		playSGLang(t, config, Decode, plain, nil, a, b)
		step := timing.Decode(128, 128, 1)
		both := step + timing.Decode(257, 257, 2)
		require.Equal(t, [3]int64{step, both, both}, [3]int64{a.First, a.Second, b.First})
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

// A request enters when its tokens fit beside a share of the output that others may still have, which falls with every pass.
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
			for ; enters < 600; enters++ { // passes that were played: A has emitted as many tokens, and computed one less
				ratio := 0.7 - float64(enters)*0.602/600
				room := float64(6400-(2048+enters-1+63)/64*64) - ratio*float64(min(output-enters, 4096))
				if 2048+10 < room {
					break
				}
			}
			require.Greater(t, enters, 100)
			require.Less(t, enters, 400)
			require.Equal(t, passes[enters].Start, b.Admitted)
			require.Equal(t, []Status{Done, Done}, []Status{a.Status, b.Status})
			late := &Request{Prompt: 2000, Output: 10}
			playSGLangAt(t, config, Aggregated, plain, passes[50].Start+1, nil, &Request{Prompt: 2048, Output: output}, late)
			require.Equal(t, b.Admitted, late.Admitted, "the share falls while no request waits, too")
		}
	}
	config.Blocks = 8 // alone, a request gets what there is, although its output may not fit
	alone := &Request{Prompt: 128, Output: 1000}
	playSGLang(t, config, Aggregated, false, nil, alone)
	require.Equal(t, [2]int{int(KVExhausted), 8*64 - 128 + 1}, [2]int{int(alone.Status), alone.Tokens})
	rejected := &Request{Prompt: 513, Output: 1}
	playSGLang(t, config, Aggregated, false, nil, tiny(), rejected)
	require.Equal(t, Rejected, rejected.Status)
}

// Where the next tokens have no room, the request with the fewest tokens gives up its blocks, and the share begins anew.
//
// Covers S-28.
func TestSGLangRetracts(t *testing.T) {
	config := Default()
	config.Blocks = 10
	for _, plain := range []bool{true, false} {
		a, b := &Request{Prompt: 64, Output: 300}, &Request{Prompt: 64, Output: 290}
		fell := []int{}
		playSGLang(t, config, Aggregated, plain, func(w *Worker) {
			if b.Status == Preempted && len(fell) < 2 {
				fell = append(fell, w.ratioFell)
				require.Less(t, b.Tokens, a.Tokens)
			}
		}, a, b)
		require.NotEmpty(t, fell)
		require.Equal(t, 1, fell[0], "passes since the share began anew")
		require.Equal(t, [4]int{0, 1, 300, 290}, [4]int{a.Preemptions, b.Preemptions, a.Tokens, b.Tokens})
		require.Positive(t, b.Recomputed)
	}
	w := &Worker{}
	for _, r := range []*Request{
		{ID: 0, Prompt: 10, Tokens: 7}, {ID: 1, Prompt: 10, Tokens: 3}, {ID: 2, Prompt: 40, Tokens: 3}, {ID: 3, Prompt: 40, Tokens: 3}, {ID: 4, Prompt: 30, Tokens: 3}, {ID: 5, Prompt: 99},
	} {
		if r.Tokens > 0 {
			r.computed = r.length() - 1
		}
		w.running = append(w.running, r)
	}
	require.Equal(t, 3, w.retracted().ID, "fewest tokens, longest prompt, last; a prompt that was begun stays")
}
