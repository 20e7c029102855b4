package convert

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
)

// The memory for the plans of all traces is bounded. The first plan beyond the bound ends the conversion.
func TestStructureThatTakesTooMuch(t *testing.T) {
	m := newMerger(hfsource.NewMemoryBudget(t.Context(), 0), Options{Rules: rules.Default()}, bounds{}, nil)
	next := func(id string) plannedTrace {
		tr, err := weka.Scan([]byte(traceText(id)), rules.Default())
		require.NoError(t, err)
		return planTrace(tr, plannedTrace{}, rules.Default())
	}
	a, b := next("a"), next("b")
	require.NoError(t, m.memory.Retain(512<<20-retainedBytes(a)))
	require.NoError(t, m.append(a))
	var much *hfsource.MemoryLimitError
	require.ErrorAs(t, m.append(b), &much)
	require.Equal(t, 1, m.structure.Traces.Len())
}
