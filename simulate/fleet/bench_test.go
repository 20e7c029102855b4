package fleet

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/simulate/engine"
	"github.com/agentx/agentx/simulate/preset"
	"github.com/agentx/agentx/simulate/workload"
)

// BenchmarkConversation plays the conversation trace on 8 workers, with skip-ahead and pass by pass; requests/s is what
// doc/spec/simulate.md 13 asks of, without the reading of the structure.
func BenchmarkConversation(b *testing.B) {
	s := conversationOf(b, 0)
	for _, c := range []struct {
		name  string
		block int
		plain bool
		kv    bool
	}{
		{"block-512", 512, false, false}, {"block-512-plain", 512, true, false}, {"block-64", 64, false, false}, {"block-64-plain", 64, true, false},
		{"block-512-kv", 512, false, true}, {"block-64-kv", 64, false, true}, {"block-64-kv-plain", 64, true, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			switches, _ := preset.Named(preset.Default)
			config := engine.Default()
			config.BlockSize = c.block
			requests := 0
			b.ReportAllocs()
			for range b.N {
				sessions, err := workload.Mooncake(s, c.block, switches.IDWidth)
				require.NoError(b, err)
				load, err := sessions.Trace(1)
				require.NoError(b, err)
				o := Options{Pools: []Pool{{Workers: 8, Engine: config, Timing: engine.NewTiming(config, nil)}}, Switches: switches, Load: load, Plain: c.plain}
				if c.kv {
					o.Pools[0].Router = NewKV(o, 0, 42)
				}
				got, err := Run(context.Background(), o)
				require.NoError(b, err)
				requests += len(got.Requests)
			}
			b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
