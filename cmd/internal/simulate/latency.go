package simulate

import (
	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
)

// Latency is what a request that emitted tokens took, in nanoseconds: doc/spec/simulate.md 9.1.
type Latency struct {
	TTFT, TTST, E2E int64
	ITL             float64 // mean of its gaps
	Tokens          int     // without 2, neither TTST nor ITL
}

// LatencyOf returns the latency of a request. ok is false for one without tokens, such as a rejected one.
func LatencyOf(r *fleet.Request) (l Latency, ok bool) {
	if r.Tokens == 0 || r.Status == engine.Rejected {
		return l, false
	}
	l = Latency{TTFT: r.First - r.Arrival, E2E: r.Last - r.Arrival, Tokens: r.Tokens}
	if r.Tokens > 1 {
		l.TTST = r.Second - r.First
		l.ITL = float64(r.Last-r.First) / float64(r.Tokens-1)
	}
	return l, true
}

// good reports whether a latency keeps the limits that are set, inclusive. One token has no ITL and keeps that one.
func (s SLA) good(l Latency) bool {
	return (s.TTFT == 0 || l.TTFT <= s.TTFT) &&
		(s.ITL == 0 || l.Tokens < 2 || l.ITL <= float64(s.ITL)) &&
		(s.E2E == 0 || l.E2E <= s.E2E)
}
