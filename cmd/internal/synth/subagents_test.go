package synth

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

// Subagents begin after the answer that asks for them, in the order of their times, and before the next request; those that are
// not in the background have ended by then. Prompts of one type begin with the blocks of its tools and system prompt, those of
// all types with 63 blocks, and none with a block of the main agent.
func TestSubagentsStandBetweenTheirNeighbours(t *testing.T) {
	background := 0
	for seed := range uint64(200) {
		l := &lane{draws: newDraws(seed, 0), made: new(int), now: 5000}
		l.begin(trace.IDs{}, 100)
		size := 1 + 2*int(seed%2)
		f := &family{parent: l, groups: map[int]int{0: size}, prefixes: map[string]prefix{}}
		list := f.spawn(0)
		require.Len(t, list, size)
		for k, s := range list {
			assert.Equal(t, []string{"agent_001", "agent_002", "agent_003"}[k], s.AgentID)
			assert.Greater(t, s.T, weka.Millis(5000))
			assert.GreaterOrEqual(t, l.now, s.T)
			assert.Equal(t, s.T, s.Requests[0].T)
			last := s.Requests[len(s.Requests)-1]
			if s.Status == "completed" {
				assert.Greater(t, l.now, last.T+last.APITime)
				assert.Equal(t, last.T+last.APITime-s.T, s.Duration)
			} else {
				background++
				assert.Equal(t, []int64{weka.Unknown, weka.Unknown, weka.Unknown}, []int64{int64(s.Duration), s.TotalTokens, s.ToolUses})
			}
			assert.GreaterOrEqual(t, s.Requests[0].IDs.Runs[0].First, int64(100))
			if k > 0 {
				before := list[k-1]
				assert.GreaterOrEqual(t, s.T, before.T)
				shared := sharedBlocks(s.Requests[0].IDs, before.Requests[0].IDs)
				want := sharedByTypes
				if s.Type == before.Type {
					want = (s.ToolTokens + s.SystemTokens) / blockSize
				}
				assert.Equal(t, want, shared)
			}
		}
	}
	assert.Positive(t, background)
}
