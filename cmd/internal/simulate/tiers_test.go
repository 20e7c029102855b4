package simulate

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// tieredRun plays a load whose prompts share beginnings, on two workers of so many blocks with tiers.
func tieredRun(t *testing.T, blocks int, tiers ...engine.Tier) (*Result, *Summary) {
	c := Default()
	c.Synthetic = &workload.SyntheticOptions{Sessions: 60, Turns: 4, In: 4000, Out: 20, EveryMS: 900, ThinkMS: 5000, Shared: 0.9, Groups: 20}
	c.Workers = 2
	config := c.Engine.Config
	config.Blocks, config.KVBytesPerToken, config.Tiers = blocks, 1e5, tiers
	var err error
	c.Engine, err = NewEngine(config)
	require.NoError(t, err)
	r, err := Run(context.Background(), c)
	require.NoError(t, err)
	return r, r.Summary()
}

// A tier without a bound that loads in no time makes a pool find what one without a bound finds; a slow one finds as much, later; a
// tier of no block changes nothing.
//
// Covers S-39.
func TestTheLimitsOfTiers(t *testing.T) {
	_, small := tieredRun(t, 400)
	_, large := tieredRun(t, 1_000_000)
	_, free := tieredRun(t, 400, engine.Tier{Name: "host", Size: "1e9"})
	_, slow := tieredRun(t, 400, engine.Tier{Name: "host", Size: "300", GBPerS: 5}, engine.Tier{Name: "disk", Size: "1e9", GBPerS: 0.5})
	require.Less(t, float64(small.Reuse), float64(large.Reuse)/2)
	require.Equal(t, large.Reuse, free.Reuse)
	require.InDelta(t, float64(large.Reuse), float64(slow.Reuse), 0.01)
	require.Greater(t, float64(slow.LoadWait.P50), 0.05)
	require.Zero(t, float64(free.LoadWait.Max))

	sum, share := int64(0), 0.0
	for _, tier := range slow.Tiers {
		sum, share = sum+tier.Hits, share+float64(tier.Share)
		require.Positive(t, tier.Hits, tier.Name)
		require.InDelta(t, float64(tier.Hits)/(*tier.GiB*2), *tier.PerGiB, 1e-6)
	}
	require.InDelta(t, float64(slow.Reuse)*float64(slow.InputTokens), float64(sum), 0.5)
	require.InDelta(t, 1, share, 1e-9)

	none, noneSummary := tieredRun(t, 400, engine.Tier{Name: "host", Size: "0", GBPerS: 1})
	without, withoutSummary := tieredRun(t, 400)
	noneSummary.Run.Engine.Tiers = nil
	for _, write := range []func(*Result, *Summary, *bytes.Buffer) error{
		func(r *Result, _ *Summary, b *bytes.Buffer) error {
			lines := newRequestLines(b)
			for _, q := range r.Requests {
				lines.add(q)
			}
			return lines.end()
		},
		func(_ *Result, s *Summary, b *bytes.Buffer) error { return s.WriteJSON(b) },
	} {
		var a, b bytes.Buffer
		require.NoError(t, write(none, noneSummary, &a))
		require.NoError(t, write(without, withoutSummary, &b))
		require.Equal(t, a.String(), b.String())
	}
}

// Engines with tiers that cannot be are refused, each reason named.
//
// Covers S-37.
func TestTiersThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*Config, *engine.Config){
		`engine: kv_tiers: engine_type sglang has none: want vllm`:                                   func(_ *Config, e *engine.Config) { e.Type = engine.SGLang },
		`engine: kv_tiers beside admission preempt: tiers need gate`:                                 func(c *Config, _ *engine.Config) { c.Switches.Admission = "preempt" },
		`engine: kv_tiers: host is given twice`:                                                      func(_ *Config, e *engine.Config) { e.Tiers = append(e.Tiers, e.Tiers[0]) },
		`engine: kv_tiers: tier 1 is named "gpu": want a name such as host`:                          func(_ *Config, e *engine.Config) { e.Tiers[0].Name = "gpu" },
		`engine: kv_tiers: tier 1 is named "a\nb": want a name such as host`:                         func(_ *Config, e *engine.Config) { e.Tiers[0].Name = "a\nb" },
		`engine: kv_tiers: host: size lots: want a number of blocks`:                                 func(_ *Config, e *engine.Config) { e.Tiers[0].Size = "lots" },
		`engine: kv_tiers: host: size 1GiB: the bytes per token are unknown`:                         func(_ *Config, e *engine.Config) { e.Tiers[0].Size, e.KVBytesPerToken = "1GiB", 0 },
		`engine: kv_tiers: host: policy "arc": want lru or fifo`:                                     func(_ *Config, e *engine.Config) { e.Tiers[0].Policy = "arc" },
		`engine: kv_tiers: host: gb_s -1: want a number from 0 to 1e+15`:                             func(_ *Config, e *engine.Config) { e.Tiers[0].GBPerS = -1 },
		`engine: kv_tiers: host: gb_s 1 without kv_bytes_per_token`:                                  func(_ *Config, e *engine.Config) { e.KVBytesPerToken = 0 },
		`engine: kv_tiers: host: kv_bytes_per_token 1e+15 at gb_s 1: a token moves in 1e+06 s, want`: func(_ *Config, e *engine.Config) { e.KVBytesPerToken = 1e15 },
		`engine: kv_tiers: 9: want at most 8`: func(_ *Config, e *engine.Config) {
			for n := range 8 {
				e.Tiers = append(e.Tiers, engine.Tier{Name: fmt.Sprint(n), Size: "1"})
			}
		},
	} {
		c := Default()
		c.Synthetic = &workload.SyntheticOptions{Sessions: 1, In: 1, Out: 1}
		c.Engine.Config.KVBytesPerToken = 1
		c.Engine.Config.Tiers = []engine.Tier{{Name: "host", Size: "10", GBPerS: 1}}
		change(&c, &c.Engine.Config)
		require.ErrorContains(t, c.Validate(), want)
	}
}
