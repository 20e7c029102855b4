package workload

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/mmapcache"
)

// Recorded returns the turns of the first traces (0: of all) in the order of their recorded times, subagents included. A trace whose format says
// nothing of when it began begins at 0.
func Recorded(c *mmapcache.Cache, first, block int, width preset.Choice) ([]Turn, error) {
	reader, err := newPrompts(c, width)
	if err != nil {
		return nil, err
	}
	type timed struct {
		at float64 // milliseconds
		Turn
	}
	var list []timed
	numbers := NewChains(reader.tokens, block)
	if first == 0 {
		first = c.Traces()
	}
	err = reader.each(first, func(k int, start float64) {
		for n, t := range reader.plan.Turns {
			list = append(list, timed{start + (t.T-reader.plan.Turns[0].T)*1000, Turn{
				ID: len(list), Session: k, Number: n, Prompt: max(int(t.In), 1), Output: max(t.MaxTokens(), 1), Chain: numbers.Add(reader.ids(t), int(t.In)),
			}})
		}
	})
	slices.SortStableFunc(list, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	turns := make([]Turn, len(list))
	for k := range list {
		turns[k] = list[k].Turn
	}
	return turns, err
}
