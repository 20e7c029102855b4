package planner

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// pipelineCases are what Dynamo 1.6.1 makes of passes, queues and budgets: its planner's own functions gave them, over its regression.
type pipelineCases struct {
	Forward []struct {
		Kind   string
		MBT    int
		Seqs   int      `json:"max_num_seqs"`
		KV     int      `json:"max_kv_tokens"`
		Passes [][6]int // nanoseconds; prompts, their tokens, known before; decodes, their KV tokens
		Ask    []struct {
			Pass    [6]int
			Queued  [4]int // prompts, their tokens; decodes, their KV tokens
			Hit     float64
			Queue   float64
			Share   float64
			Include bool
			TTFT    *float64 `json:"ttft_s"`
			ITL     *float64 `json:"itl_s"`
		}
		Capacity []struct {
			ISL, OSL, Hit float64
			TTFT          float64 `json:"ttft_ms"`
			ITL           float64 `json:"itl_ms"`
			RPS           float64
			Meets         bool
		}
	}
	Budget []struct {
		GPUs, Least, Now, Want, Final, Fit []int
		Floor, Most                        int
		Reason                             Reason
	}
}

func pipelineVectors(t *testing.T) (c pipelineCases) {
	text, err := os.ReadFile("testdata/pipeline.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &c))
	require.Len(t, c.Forward, 6)
	require.Len(t, c.Budget, 60)
	return c
}

// recordOfRow returns a pass and what waited behind it.
func recordOfRow(row [6]int, queued [4]int) *record {
	return &record{
		wall: int64(row[0]), prompts: int32(row[1]), prefill: row[2], prefix: row[3], requests: int32(row[4]), kv: row[5],
		queuedPrompts: int32(queued[0]), queuedPrefill: queued[1], queuedRequests: int32(queued[2]), queued: queued[3],
	}
}

// Covers S-73.
func TestForwardModels(t *testing.T) {
	config := Default()
	config.MaxSamples, config.MinObservations, config.BucketCount = 12, 4, 9
	kinds := map[string]kind{"prefill": prefillKind, "decode": decodeKind, "aggregated": aggKind}
	number := func(want *float64, got float64, ok bool) {
		require.Equal(t, want != nil, ok)
		if ok {
			same(t, *want, got, 1e-9)
		}
	}
	for _, c := range pipelineVectors(t).Forward {
		k := kinds[c.Kind]
		f := newForward(k, config, Engine{MaxBatchedTokens: c.MBT, MaxSeqs: c.Seqs, MaxKV: c.KV})
		require.False(t, f.ready())
		for _, row := range c.Passes {
			r := recordOfRow(row, [4]int{})
			f.notice(r)
			f.learn(r)
		}
		require.True(t, f.ready())
		for _, a := range c.Ask {
			r := recordOfRow(a.Pass, a.Queued)
			if k != decodeKind {
				s, ok := f.ttft(r, clampHit(a.Hit), a.Queue, a.Share, a.Include)
				number(a.TTFT, s, ok)
			}
			if k == decodeKind || k == aggKind {
				s, ok := f.itl(r, a.Share, a.Include)
				number(a.ITL, s, ok)
			}
		}
		for _, a := range c.Capacity {
			got, ok := f.capacity(a.ISL, a.OSL, a.Hit, a.TTFT/1e3, a.ITL/1e3)
			require.Equal(t, a.RPS > 0, ok)
			same(t, a.RPS, got.RPS, 1e-9)
			require.Equal(t, a.Meets, got.Meets)
		}
	}
	config.MaxSamples = 3
	f := newForward(prefillKind, config, Engine{})
	for _, tokens := range []int{1, 2, 3, 0, 0, 0} { // of seven prompts, then of none
		f.notice(recordOfRow([6]int{1, 7 * min(tokens, 1), tokens, 0, 0, 0}, [4]int{}))
	}
	require.NotZero(t, f.prompt.value(), "rounding leaves a rest, as it does to Dynamo")
	require.InDelta(t, 0, f.prompt.value(), 1e-15)
	_, ok := newForward(aggKind, config, Engine{MaxBatchedTokens: 1}).capacity(10, 10, 0, 1, 1)
	require.False(t, ok)
}

// Covers S-74.
func TestBudgetGuard(t *testing.T) {
	for _, c := range pipelineVectors(t).Budget {
		b := budget{c.GPUs, c.Least, c.Floor, c.Most}
		final, reason := b.guard(c.Now, c.Want)
		require.Equal(t, []any{c.Final, c.Reason}, []any{final, reason}, "%+v", c)
		if c.Fit != nil {
			require.Equal(t, c.Fit, b.fit(c.Now, c.Want), "%+v", c)
		}
	}
	b := budget{[]int{1, 1}, []int{2, 1}, -1, 8}
	final, reason := b.guard([]int{1, 7}, []int{1, 8})
	require.Equal(t, []any{[]int{2, 6}, budgetReconcile}, []any{final, reason}, "below the least")
}

// piped returns a planner of dynamo-1.6 with engines of the same capabilities.
func piped(t *testing.T, config Config) *Planner {
	e := Engine{MaxBatchedTokens: 8192, MaxSeqs: 256, MaxKV: 262144, GPUs: 1, Timing: constantTiming(1e6)}
	config.Predictor = constant
	p, err := New(Options{Config: config, Switches: switchesOf(t, preset.Dynamo16), Engines: make1(e, len(config.pools()))})
	require.NoError(t, err)
	return p
}

// decodes tells of a pass of a worker that reads so many KV tokens.
func decodes(p *Planner, worker, kv int) {
	p.Passed(0, worker, &engine.Pass{Start: p.Next() - 1e7, End: p.Next() - 1e6, Decode: engine.Group{Requests: 1 + kv%7, Tokens: kv}})
}

// Covers S-75.
func TestPipelineDecides(t *testing.T) {
	config := Default()
	config.LoadScaling, config.ThroughputInterval, config.LoadInterval, config.MinObservations, config.ITL = true, 6, 4, 2, 1
	p := piped(t, config)
	tick := func(now, target int, load, throughput Reason) {
		t.Helper()
		got, targets, err := p.Tick(0, []Workers{workers(now)})
		require.NoError(t, err)
		require.Equal(t, []any{target, load, throughput}, []any{targets[0], got.LoadReason, got.ThroughputReason}, "at %d ns", got.At)
	}
	tick(10, 8, "", "") // one clock of 2 s: the budget acts alone
	decodes(p, 0, 1000)
	tick(8, 8, insufficientData, "") // 4 s
	p.Arrived(0, 0)
	tick(2, 2, "", modelNotReady) // 6 s: no lengths yet; what there is, is the floor
	require.Equal(t, []int{2}, p.floors)
	for id := range 2 {
		decodes(p, id, 5000+4000*id)
	}
	tick(2, 3, scaleUp, "") // 8 s: steps of 9 ms
	tick(3, 3, "", "")
	fresh := workers(4)
	fresh.Ready = []int64{0, 0, 0, p.Next()}
	got, _, err := p.Tick(0, []Workers{fresh}) // 12 s, and the last has just come
	require.NoError(t, err)
	require.Equal(t, workerCountMismatch, got.LoadReason)
	config.LoadScaling, config.ITL, config.MinEndpoint = false, 50, 2
	p = piped(t, config)
	tick(1, 2, "", "") // the least, without a decision
	config.MinEndpoint = 1
	p = piped(t, config)
	tick(1, 1, "", "")
	decodes(p, 0, 1000)
	tick(1, 1, disabled, "") // 4 s: models learn
	p.Arrived(0, 0)
	tick(1, 1, "", modelNotReady)
	decodes(p, 0, 8000)
	tick(1, 1, disabled, "")
	p.Passed(0, 0, &engine.Pass{Start: p.Next() - 1e6, End: p.Next() - 1e6, QueuedPrefill: engine.Group{Requests: 1, Tokens: 9}})
	require.Empty(t, p.records, "a pass that did nothing")
}
