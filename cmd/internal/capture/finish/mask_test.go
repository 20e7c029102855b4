package finish

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/trace"
)

// Each mask, and all of them, leaves a valid trace without what it hides, and with all else.
//
// Covers C-40.
func TestMasks(t *testing.T) {
	write := func(s *script) {
		require.NoError(s.t, s.Write(journal.Begin{}))
		require.NoError(s.t, s.Write(journal.Model{Name: "acme/private-model"}))
		s.models["acme/private-model"] = 0
		require.NoError(s.t, s.Write(journal.IDs{In: 23, Tools: 12, System: 11, Base: -1, New: 5, Input: journal.Text}))
		s.stop(ask{end: 100})
		s.do(ask{q: 1, begin: 200, end: 300, base: -1, tail: 1, model: "other"})
		for q := 2; q < 40; q++ {
			s.do(ask{q: q, agent: q % 2, begin: int64(q) * 1000, end: int64(q)*1000 + 10, base: 0, keep: 5, tail: 2, model: "acme/private-model"})
		}
	}
	lists := func(t *trace.Trace) (lists []trace.IDs, tails []int64) {
		for _, e := range t.Entries {
			requests := []trace.Request{e.Request}
			if e.Subagent != nil {
				requests = e.Subagent.Requests
			}
			for _, r := range requests {
				lists, tails = append(lists, r.IDs), append(tails, r.In%4)
			}
		}
		return lists, tails
	}
	plain := newScript(t, journal.Export{})
	write(plain)
	whole, trace := plain.built()
	wantLists, wantTails := lists(trace)
	assert.Contains(t, string(whole.trace), `"models":["acme/private-model","other"]`)
	assert.Contains(t, string(whole.trace), `"tool_tokens":12,"system_tokens":8`)
	for masks := journal.Masks(1); masks < 8; masks++ {
		s := newScript(t, journal.Export{Masks: masks})
		write(s)
		f, trace := s.built() // it passes its check
		gotLists, gotTails := lists(trace)
		assert.Equal(t, wantLists, gotLists)
		var n note
		require.NoError(t, json.Unmarshal(f.note, &n))
		assert.Equal(t, masks.Names(), n.Masks)

		if masks&journal.MaskModels != 0 {
			assert.NotContains(t, string(f.trace)+string(f.note), "acme")
			assert.Contains(t, string(f.trace), `"models":["model-1","model-2"]`)
		} else {
			assert.Contains(t, string(f.trace), "acme")
		}
		if masks&journal.MaskPrefixCounts != 0 {
			assert.Zero(t, trace.ToolTokens+trace.SystemTokens)
		} else {
			assert.Equal(t, int64(12), trace.ToolTokens)
			assert.Equal(t, int64(8), trace.SystemTokens, "within the whole blocks of the prompt")
		}
		if masks&journal.MaskTails != 0 {
			seen := map[int64]bool{}
			for _, tail := range gotTails {
				seen[tail] = true
			}
			assert.Len(t, seen, 4, "every length occurs")
			assert.Equal(t, f.trace, build(mustRead(t, s.bytes())).trace, "the draw is of the journal alone")
		} else {
			assert.Equal(t, wantTails, gotTails)
		}
	}
}

func mustRead(t testing.TB, data []byte) *journal.Session {
	s, err := journal.Read(data)
	require.NoError(t, err)
	return s
}
