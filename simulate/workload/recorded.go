package workload

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/simulate/preset"
)

// Recorded returns the turns of the first traces (0: of all) in the order of their recorded times, subagents included. A trace whose format says
// nothing of when it began begins at 0.
func Recorded(s *mmapcache.Structure, first, block int, width preset.IDWidth) ([]Turn, error) {
	traces, traceBlock, err := tracesOf(s)
	if err != nil {
		return nil, err
	}
	type timed struct {
		at float64 // milliseconds
		Turn
	}
	var list []timed
	numbers, reader := NewChains(traceBlock, block), newPrompts(s, width)
	if first > 0 {
		traces = traces[:min(first, len(traces))]
	}
	for k := range traces {
		reader.open(traces[k])
		start := startOf(s, k, reader.turns[0])
		for n, t := range reader.turns {
			list = append(list, timed{start + (t.T-reader.turns[0].T)*1000, Turn{
				ID: len(list), Session: k, Number: n, Prompt: max(int(t.In), 1), Output: max(t.MaxTokens(), 1), Chain: numbers.Add(reader.ids(t), int(t.In)),
			}})
		}
	}
	slices.SortStableFunc(list, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	turns := make([]Turn, len(list))
	for k := range list {
		turns[k] = list[k].Turn
	}
	return turns, nil
}
