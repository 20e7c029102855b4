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
	}{{"block-512", 512, false}, {"block-512-plain", 512, true}, {"block-64", 64, false}, {"block-64-plain", 64, true}} {
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
				got, err := Run(context.Background(), Options{
					Workers: 8, Engine: config, Timing: engine.NewTiming(config, nil), Switches: switches, Load: load, Plain: c.plain,
				})
				require.NoError(b, err)
				requests += len(got.Requests)
			}
			b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
