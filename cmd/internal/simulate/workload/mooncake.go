package workload

import (
	"math"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/mmapcache"
)

// Mooncake returns the sessions of a cache that was made of Mooncake rows, for engine blocks of so many tokens:
// doc/spec/simulate.md 3.1.
func Mooncake(c *mmapcache.Cache, block int, width preset.Choice) (*Sessions, error) {
	reader, err := newPrompts(c, width)
	if err != nil {
		return nil, err
	}
	list, numbers := &Sessions{}, NewChains(reader.tokens, block)
	err = reader.each(c.Traces(), func(_ int, start float64) {
		list.begin(start)
		for n, t := range reader.plan.Turns {
			list.add(turn{delay: delayOf(reader.plan.Turns, n), prompt: int(t.In), output: t.MaxTokens(), chain: numbers.Add(reader.ids(t), int(t.In))})
		}
	})
	list.align()
	return list, err
}

// delayOf returns the milliseconds between the completion of the turn before and a turn: what its row says, else the difference of
// their timestamps.
func delayOf(turns []mmapcache.Turn, n int) float64 {
	switch {
	case n == 0:
		return 0
	case math.IsNaN(turns[n].ThinkTime):
		return max(turns[n].T-turns[n-1].T, 0) * 1000
	default:
		return turns[n].ThinkTime * 1000
	}
}

// startOf returns when the first turn of a trace begins, in milliseconds.
func startOf(s *mmapcache.Structure, trace int, first mmapcache.Turn) float64 {
	if ms, ok := s.RecordedStart(trace); ok {
		return ms
	}
	return first.T * 1000
}
