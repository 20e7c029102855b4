package replay

import (
	"testing"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// BenchmarkFillRecord is what it costs that the client has instants of its own, from the start of the run: of each request they are moved
// to its phase, and copied into its record.
func BenchmarkFillRecord(b *testing.B) {
	result := wire.Result{Sent: 1e9, FirstToken: 2e9, SecondToken: 3e9, FirstOutput: 2e9, LastToken: 4e9, LastMessage: 4e9, End: 5e9, Acknowledged: 15e8, Exchange: wire.NoExchange, Usage: wire.NoUsage}
	var r measure.Record
	b.ReportAllocs()
	for b.Loop() {
		moved := since(-time.Second, since(time.Second, result))
		fillRecord(&r, &moved)
	}
}
