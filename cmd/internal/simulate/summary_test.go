package simulate

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/internal/fixtures"
)

// metricsIn is the input of a vector of the group metrics.
type metricsIn struct {
	Values   []float64
	Requests [][]float64 `json:"requests_arrival_then_token_ms"`
	SLA      struct {
		TTFT float64 `json:"ttft_ms"`
		ITL  float64 `json:"itl_ms"`
		E2E  float64 `json:"e2e_ms"`
	}
}

type metricsWant struct {
	Mean, P50, P75, P90, P99 *float64
	Gap                      map[string]float64 `json:"token_gap_ms"`
	ITL                      map[string]float64 `json:"itl_ms"`
	TTFT                     map[string]float64 `json:"ttft_ms"`
	Good                     []int
}

// resultOf returns the result of requests of which arrival and tokens are known, in milliseconds.
func resultOf(list [][]float64) *Result {
	r := &Result{Config: Default(), Result: fleet.Result{Gaps: &engine.Gaps{}}}
	for _, times := range list {
		at := func(k int) int64 {
			if k >= len(times) {
				return 0
			}
			return int64(times[k] * 1e6)
		}
		q := &fleet.Request{Arrival: at(0)}
		q.Prompt, q.Tokens, q.Status, q.First, q.Second, q.Last = 1, len(times)-1, engine.Done, at(1), at(2), at(len(times)-1)
		r.Requests = append(r.Requests, q)
		r.Duration = max(r.Duration, q.Last)
		for k := 2; k < len(times); k++ {
			r.Gaps.Add(at(k)-at(k-1), 1)
		}
	}
	return r
}

// Covers S-31, S-32.
func TestMetricVectors(t *testing.T) {
	fixtures.EachSimulate(t, "metrics", fixtures.SimulateCounts{5, 5, 5}, func(t *testing.T, c fixtures.SimulateCase, in metricsIn, want metricsWant) {
		if in.Values != nil {
			checkStats(t, statsOf(distributionOf(in.Values)), map[string]*float64{"mean": want.Mean, "p50": want.P50, "p75": want.P75, "p90": want.P90, "p99": want.P99})
			return
		}
		r := resultOf(in.Requests)
		r.Config.SLA = SLA{int64(in.SLA.TTFT * 1e6), int64(in.SLA.ITL * 1e6), int64(in.SLA.E2E * 1e6)}
		s := r.Summary()
		for name, d := range map[string]struct {
			have Distribution
			want map[string]float64
		}{"gap": {s.TokenGap, want.Gap}, "itl": {s.ITL, want.ITL}, "ttft": {s.TTFT, want.TTFT}} {
			for stat, v := range d.want {
				if stat == "n" {
					assert.EqualValues(t, v, d.have.N, name)
					continue
				}
				assert.InEpsilon(t, v, statsOf(d.have)[stat]/1e6, 1e-3, "%s %s", name, stat) // gaps are within a thousandth
			}
		}
		if want.Good != nil {
			var good []int
			for k, q := range r.Requests {
				if l, ok := LatencyOf(q); ok && r.Config.SLA.good(l) {
					good = append(good, k)
				}
			}
			assert.Equal(t, want.Good, good)
			assert.Equal(t, len(want.Good), s.Goodput.Good)
		}
	})
}

// statsOf returns a distribution in nanoseconds.
func statsOf(d Distribution) map[string]float64 {
	ns := func(v float64) float64 { return v * 1e9 }
	return map[string]float64{"mean": ns(float64(d.Mean)), "p50": ns(float64(d.P50)), "p75": ns(float64(d.P75)), "p90": ns(float64(d.P90)), "p99": ns(float64(d.P99))}
}

func checkStats(t *testing.T, have map[string]float64, want map[string]*float64) {
	t.Helper()
	for name, v := range want {
		if v != nil {
			assert.InEpsilon(t, *v, have[name], 1e-12, name)
		}
	}
}

// Each limit alone decides, at its own value inclusive.
//
// Covers S-32.
func TestGood(t *testing.T) {
	l := Latency{TTFT: 200, E2E: 1000, ITL: 15.5, Tokens: 3}
	for _, one := range []struct {
		sla  SLA
		want bool
	}{
		{SLA{}, true}, {SLA{TTFT: 200}, true}, {SLA{TTFT: 199}, false}, {SLA{E2E: 1000}, true}, {SLA{E2E: 999}, false},
		{SLA{ITL: 16}, true}, {SLA{ITL: 15}, false}, {SLA{200, 16, 999}, false}, {SLA{200, 16, 1000}, true},
	} {
		assert.Equal(t, one.want, one.sla.good(l), one.sla)
	}
}

// A run without an end of a request has no distributions, and its figures are null.
func TestSummaryOfNothing(t *testing.T) {
	c := Default()
	c.Synthetic = &workload.SyntheticOptions{Sessions: 2, In: 640, Out: 4}
	c.Engine.Config.Blocks = 5 // less than a prompt
	r, err := Run(context.Background(), c)
	require.NoError(t, err)
	s := r.Summary()
	assert.Equal(t, []int{2, 0, 2, 0}, []int{s.Requests, s.Completed, s.Rejected, s.KVExhausted})
	data, err := json.Marshal(s)
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(data, &keys))
	for _, name := range []string{"request_rate", "output_token_rate", "reuse", "reuse_max", "reuse_unlimited", "goodput", "planner"} {
		assert.Contains(t, keys, name)
		assert.Nil(t, keys[name], name)
	}
	assert.Nil(t, keys["ttft"].(map[string]any)["mean"])
}

// What is written keeps the names of doc/spec/simulate.md 9.4.
func TestSummaryKeys(t *testing.T) {
	c := Default()
	c.SLA = SLA{TTFT: 1e9}
	c.Synthetic = &workload.SyntheticOptions{Sessions: 3, In: 640, Out: 4, Shared: 0.5}
	r, err := Run(context.Background(), c)
	require.NoError(t, err)
	data, err := json.Marshal(r.Summary())
	require.NoError(t, err)
	var keys map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &keys))
	for _, name := range []string{
		"requests", "completed", "rejected", "kv_exhausted", "duration", "input_tokens", "output_tokens", "request_rate", "output_token_rate",
		"ttft", "ttst", "itl", "token_gap", "request_latency", "reuse", "reuse_max", "reuse_unlimited", "preemptions", "evictions", "passes",
		"goodput", "gpu_hours", "planner", "switches", "out",
	} {
		assert.Contains(t, keys, name)
	}
	var switches map[string]string
	require.NoError(t, json.Unmarshal(keys["switches"], &switches))
	for _, name := range preset.List() {
		assert.Equal(t, c.Switches.Get(name), switches[name])
	}
	var ttft map[string]float64
	require.NoError(t, json.Unmarshal(keys["ttft"], &ttft))
	for _, name := range []string{"mean", "p50", "p75", "p90", "p95", "p99", "max", "std"} {
		assert.Contains(t, ttft, name)
	}
}

// Requests of one group share half of their blocks: a cache without a limit finds these from the second request on, and never
// the block of the last token.
func TestReuseUnlimited(t *testing.T) {
	c := Default()
	c.Synthetic = &workload.SyntheticOptions{Sessions: 3, In: 640, Out: 4, Shared: 0.5}
	r, err := Run(context.Background(), c)
	require.NoError(t, err)
	s := r.Summary()
	assert.InDelta(t, 2*5*64/1920.0, float64(s.ReuseUnlimited), 1e-12)
	assert.LessOrEqual(t, float64(s.Reuse), float64(s.ReuseUnlimited))

	c.Synthetic.Shared = 1
	r, err = Run(context.Background(), c)
	require.NoError(t, err)
	assert.InDelta(t, 2*9*64/1920.0, float64(r.Summary().ReuseUnlimited), 1e-12, "recompute_last")
	c.Switches.FullHit = preset.FullHitFree
	r, err = Run(context.Background(), c)
	require.NoError(t, err)
	assert.InDelta(t, 2*10*64/1920.0, float64(r.Summary().ReuseUnlimited), 1e-12)
	c.Engine.Config.PrefixCaching = false
	r, err = Run(context.Background(), c)
	require.NoError(t, err)
	assert.Zero(t, r.Summary().ReuseUnlimited)
}

// Bits by words are the same as block by block.
func TestUnlimitedRuns(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	c := Default()
	c.Engine.Config.BlockSize, c.Switches.FullHit = 1, preset.FullHitFree
	seen := map[uint32]bool{}
	var list []*fleet.Request
	want := int64(0)
	for range 3000 {
		q := &fleet.Request{}
		q.Prompt = math.MaxInt32
		missed := false
		for range draw.IntN(4) {
			run := engine.Run{First: draw.Uint32N(5000), Count: 1 + draw.Uint32N(200)}
			q.Chain = append(q.Chain, run)
			for n := run.First; n < run.First+run.Count; n++ {
				if missed = missed || !seen[n]; !missed {
					want++
				}
			}
		}
		for _, run := range q.Chain {
			for n := run.First; n < run.First+run.Count; n++ {
				seen[n] = true
			}
		}
		if list = append(list, q); len(list)%50 == 0 {
			require.Equal(t, want, (&Result{Config: c, Result: fleet.Result{Requests: list}}).counted().unlimited, q.Chain)
		}
	}
}

// Covers S-31.
func TestDistributionOfDeviation(t *testing.T) {
	d := distributionOf([]float64{2e9, 4e9, 4e9, 4e9, 5e9, 5e9, 7e9, 9e9})
	assert.Equal(t, []float64{5, 2, 2, 9}, []float64{float64(d.Mean), float64(d.Std), float64(d.Min), float64(d.Max)})
	assert.True(t, math.IsNaN(float64(distributionOf(nil).P99)))
}
