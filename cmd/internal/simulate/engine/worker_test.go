package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// play runs requests that all arrive at 0 to their end.
func play(t *testing.T, config Config, plain bool, list ...*Request) *Worker {
	require.NoError(t, config.Validate())
	switches, _ := preset.Named(preset.Default)
	w := New(Options{Config: config, Timing: NewTiming(config, nil), Switches: switches, Plain: plain})
	for _, r := range list {
		w.Submit(0, r, false)
	}
	for now := int64(0); w.HasWork(); now = w.End() {
		w.Start(now)
		require.Nil(t, w.Stuck())
		w.Finish()
	}
	return w
}

// TRT-LLM reserves what a request can need: the second waits although its prompt fits, and nothing is preempted.
func TestTRTLLMReservesTheOutput(t *testing.T) {
	config := Default()
	config.Blocks = 7
	for _, plain := range []bool{true, false} {
		for _, kind := range []string{VLLM, TRTLLM} {
			config.Type = kind
			a, b, c := &Request{Prompt: 128, Output: 130}, &Request{Prompt: 128, Output: 130}, &Request{Prompt: 128, Output: 400}
			w := play(t, config, plain, a, b, c)
			require.Equal(t, []Status{Done, Done}, []Status{a.Status, b.Status})
			if kind == VLLM {
				require.Equal(t, int64(0), b.Admitted)
				require.NotZero(t, w.Counts().Preemptions)
				require.Equal(t, KVExhausted, c.Status)
				continue
			}
			require.Equal(t, a.Last, b.Admitted)
			require.Zero(t, w.Counts().Preemptions)
			require.Equal(t, 448-128, c.Tokens, "which is what the pool can hold")
			chain := []Run{{0, 2}}
			first, again := &Request{Prompt: 128, Output: 2, Chain: chain}, &Request{Prompt: 128, Output: 2, Chain: chain}
			play(t, config, plain, first, again)
			require.Equal(t, [2]int{0, 128}, [2]int{first.Reused, again.Reused}, "all that it has in the cache")
		}
	}
}

// A prompt as long as the model's limit is rejected; generation ends at the limit.
func TestMaxModelLen(t *testing.T) {
	config := Default()
	config.MaxModelLen = 100
	long, short, tiny := &Request{Prompt: 100, Output: 5}, &Request{Prompt: 95, Output: 50}, &Request{Prompt: 10, Output: 50}
	play(t, config, false, long, short, tiny)
	require.Equal(t, []Status{Rejected, Done, Done}, []Status{long.Status, short.Status, tiny.Status})
	require.Equal(t, []int{0, 5, 50}, []int{long.Tokens, short.Tokens, tiny.Tokens})
}

// Without prefix caching nothing is found, and nothing stays.
func TestWithoutPrefixCaching(t *testing.T) {
	config := Default()
	config.PrefixCaching = false
	chain := []Run{{0, 4}}
	a, b := &Request{Prompt: 256, Output: 3, Chain: chain}, &Request{Prompt: 256, Output: 3, Chain: chain}
	w := play(t, config, false, a, b)
	require.Zero(t, b.Reused)
	require.Zero(t, w.used.inactive)
	config.PrefixCaching = true
	a, b = &Request{Prompt: 256, Output: 3, Chain: chain}, &Request{Prompt: 256, Output: 3, Chain: chain}
	w = play(t, config, false, a, b)
	require.Equal(t, 192, b.Reused)
	require.Equal(t, 5, w.used.inactive, "four, and a copy of the last")
}

// Passes in steady state allocate nothing.
func TestPassesDoNotAllocate(t *testing.T) {
	config := Default()
	switches, _ := preset.Named(preset.Default)
	for _, plain := range []bool{true, false} {
		w := New(Options{Config: config, Timing: NewTiming(config, nil), Switches: switches, Plain: plain})
		for range 8 {
			w.Submit(0, &Request{Prompt: 1000, Output: 1 << 20}, false)
		}
		now := int64(0)
		step := func() {
			w.Start(now)
			now = w.End()
			if w.inStretch() { // cut it, so that many are planned
				now = w.stretch.ends[0]
				w.Settle(now)
				w.cut(now, false)
				return
			}
			w.Finish()
		}
		for range 100 {
			step()
		}
		require.Less(t, testing.AllocsPerRun(200, step), 0.2)
	}
}
