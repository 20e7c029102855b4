package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
	"github.com/agentx/agentx/mmapcache"
)

func TestSelectionVectors(t *testing.T) {
	type in struct {
		Traces []struct{ Top, Inner [][2]int }
		MaxCtx *int `json:"max_context"`
		Count  *int `json:"entries"`
		MaxOSL *int `json:"max_osl"`
	}
	type want struct {
		Peaks, Kept []int
		Error       string
	}
	fixtures.EachWeka(t, "selection", func(t *testing.T, in in, want want) {
		var peaks []int
		for _, tr := range in.Traces {
			peak := 0
			for _, q := range tr.Top {
				out := q[1]
				if in.MaxOSL != nil {
					out = min(out, *in.MaxOSL)
				}
				peak = max(peak, q[0]+max(1, out))
			}
			for _, q := range tr.Inner {
				peak = max(peak, q[0]+max(1, q[1]))
			}
			peaks = append(peaks, peak)
		}
		limit, count := 0, 0
		if in.MaxCtx != nil {
			limit = *in.MaxCtx
		}
		if in.Count != nil {
			count = *in.Count
		}
		kept := firstFitting(peaks, limit, count)
		if want.Error != "" {
			assert.Empty(t, kept)
			return
		}
		assert.Equal(t, want.Peaks, peaks)
		assert.Equal(t, want.Kept, kept)
	})
}

// Turns that are what is new have those before and the answers to them in their prompts.
func TestPromptTokensBehindAnswers(t *testing.T) {
	p := &mmapcache.Plan{Sessions: []mmapcache.Session{{Turns: 1}, {FirstTurn: 1, Turns: 3}}, Turns: []mmapcache.Turn{{In: 100}, {In: 10, Out: 5}, {In: 7, Out: -1}, {In: 3, Out: 2}}}
	require.Equal(t, []int{3, 20}, []int{promptTokens(p, 1, 2, mmapcache.TimeRules{}), peakTokens(&mmapcache.Plan{Sessions: p.Sessions[1:], Turns: p.Turns}, mmapcache.TimeRules{}, 5)})
	require.Equal(t, []int{25, 32}, []int{promptTokens(p, 1, 2, mmapcache.TimeRules{LiveAnswers: true}), peakTokens(&mmapcache.Plan{Sessions: p.Sessions[1:], Turns: p.Turns}, mmapcache.TimeRules{LiveAnswers: true}, 5)})
}
