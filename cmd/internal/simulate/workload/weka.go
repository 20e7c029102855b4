package workload

import (
	"cmp"
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/mmapcache"
)

// Roots returns one session for each trace of trees: its requests in the order of the file, as far as they are not of a subagent, with
// the recorded think time before each. Nothing waits for a subagent, and nothing runs beside another request of its trace: the load of
// the figures in doc/spec/simulate.md 13. [Lanes] plays whole trees.
func Roots(c *mmapcache.Cache, block int, width preset.Choice) (*Sessions, error) {
	reader, err := newPrompts(c, width)
	if err != nil {
		return nil, err
	}
	list, numbers := &Sessions{}, NewChains(reader.tokens, block)
	err = reader.each(c.Traces(), func(int, float64) {
		list.begin(0)
		turns := slices.DeleteFunc(reader.plan.Turns, func(t mmapcache.Turn) bool { return t.Inner != mmapcache.None })
		slices.SortStableFunc(turns, func(a, b mmapcache.Turn) int { return cmp.Compare(a.Outer, b.Outer) })
		for n, t := range turns {
			delay := 0.0
			if n > 0 && !math.IsNaN(t.ThinkTime) {
				delay = max(t.ThinkTime, 0) * 1000
			}
			list.add(turn{delay: delay, prompt: max(int(t.In), 1), output: t.MaxTokens(), chain: numbers.Add(reader.ids(t), int(t.In))})
		}
	})
	return list, err
}
