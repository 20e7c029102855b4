package fleet

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
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
			requests := 0
			b.ReportAllocs()
			for range b.N {
				requests += playConversation(b, s, c.block, c.plain, c.kv)
			}
			b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// playConversation plays the conversation trace on 8 workers, and returns how many requests it has.
func playConversation(b *testing.B, s *mmapcache.Structure, block int, plain, kv bool) int {
	switches, _ := preset.Named(preset.Default)
	config := engine.Default()
	config.BlockSize = block
	sessions, err := workload.Timed(mmapcache.CacheOf(s, mmapcache.StructureFacts{}), block, switches.IDWidth)
	require.NoError(b, err)
	load, err := sessions.Trace(1)
	require.NoError(b, err)
	o := Options{Pools: []Pool{{Workers: 8, Engine: config, Timing: engine.NewTiming(config, nil)}}, Switches: switches, Load: load, Plain: plain}
	if kv {
		o.Pools[0].Router = NewKV(o, 0, 42)
	}
	got, err := Run(context.Background(), o)
	require.NoError(b, err)
	return len(got.Requests)
}

// BenchmarkRatio plays each load with skip-ahead and extents, then pass by pass and block by block, in one run: x-plain is what
// doc/spec/simulate.md 13 asks of. All is counted in CPU seconds of the process, so that what else the machine does counts little.
func BenchmarkRatio(b *testing.B) {
	s := conversationOf(b, 0)
	for _, one := range []struct {
		name string
		play func(b *testing.B, plain bool) int
	}{
		{"conversation-512", func(b *testing.B, plain bool) int {
			return playConversation(b, s, 512, plain, false)
		}},
		{"conversation-64", func(b *testing.B, plain bool) int { return playConversation(b, s, 64, plain, false) }},
		{"conversation-64-kv", func(b *testing.B, plain bool) int { return playConversation(b, s, 64, plain, true) }},
		{"agents-roots", func(b *testing.B, plain bool) int {
			return len(playAgents(b, rootsOf(b, agentsOf(b)), plain, false).Requests)
		}},
		{"agents-roots-kv", func(b *testing.B, plain bool) int {
			return len(playAgents(b, rootsOf(b, agentsOf(b)), plain, true).Requests)
		}},
		{"agents-lanes", func(b *testing.B, plain bool) int {
			return len(playAgents(b, lanesOf(b, agentsOf(b)), plain, false).Requests)
		}},
	} {
		b.Run(one.name, func(b *testing.B) {
			one.play(b, false) // the trace is converted once
			var cpu [2]time.Duration
			requests := 0
			for b.Loop() {
				for k, plain := range []bool{false, true} {
					runtime.GC()
					before := measure.ReadProcessUsage().CPU
					requests = one.play(b, plain)
					cpu[k] += measure.ReadProcessUsage().CPU - before
				}
			}
			b.ReportMetric(float64(requests*b.N)/cpu[0].Seconds(), "requests/cpu-s")
			b.ReportMetric(float64(requests*b.N)/cpu[1].Seconds(), "plain-requests/cpu-s")
			b.ReportMetric(cpu[1].Seconds()/cpu[0].Seconds(), "x-plain")
		})
	}
}
