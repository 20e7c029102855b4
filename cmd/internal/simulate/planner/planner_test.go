package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// constantTiming takes the same time for everything.
type constantTiming int64

func (c constantTiming) Prefill(int) int64          { return int64(c) }
func (c constantTiming) Decode(int, int, int) int64 { return int64(c) }

// lineTiming takes so much, and a nanosecond for each token.
type lineTiming int64

func (c lineTiming) Prefill(tokens int) int64         { return int64(c) + int64(tokens) }
func (c lineTiming) Decode(kv, _, requests int) int64 { return int64(c) + int64(kv) + int64(requests) }

// step is what a pass of a flat engine takes.
const step = 0.02

// flat returns a planner whose engines serve so many requests a second of the workload of traffic, and take 20 ms for every pass.
func flat(t testing.TB, config Config, mode string, rps float64, set ...string) *Planner {
	config.Mode = mode
	batch := int(rps * 2)
	e := Engine{MaxBatchedTokens: 8192, MaxSeqs: batch, MaxKV: 262144, ContextLength: 8192, GPUs: 1, Timing: constantTiming(step * 1e9)}
	switches := switchesOf(t, preset.Default)
	for i := 0; i+1 < len(set); i += 2 {
		require.NoError(t, switches.Set(set[i], set[i+1]))
	}
	p, err := New(Options{Config: config, Switches: switches, Engines: make1(e, len(config.pools()))})
	require.NoError(t, err)
	for i, m := range p.models {
		p.models[i] = modelOf(m.kind, step)
	}
	return p
}

func make1(e Engine, n int) (list []Engine) {
	for range n {
		list = append(list, e)
	}
	return list
}

// traffic returns a window of requests with one prompt token and 100 output tokens: a batch of 7 of a flat engine serves 3.5 a second.
func traffic(requests, seconds float64) Window {
	n := int(requests)
	return Window{offered: true, Begin: 180e9 - int64(seconds*1e9), Requests: n, Prompt: int64(n), Output: int64(100 * n)}
}

// throughputTickOf moves a planner to its next throughput tick, and returns it.
func throughputTickOf(t testing.TB, p *Planner, pools ...Workers) *Tick {
	for {
		if _, throughput := p.clock.due(); throughput {
			tick, _, err := p.Tick(0, pools)
			require.NoError(t, err)
			return tick
		}
		w := p.window
		p.clock.tick(0)
		p.window = w
	}
}

// passOf returns a pass of a worker.
func passOf(queued, kv, queuedKV int) *engine.Pass {
	return &engine.Pass{
		End: step * 1e9, Prefill: engine.Group{Requests: 1, Tokens: 100}, Decode: engine.Group{Requests: 1, Tokens: kv},
		QueuedPrefill: engine.Group{Tokens: queued}, QueuedDecode: engine.Group{Tokens: queuedKV},
	}
}
