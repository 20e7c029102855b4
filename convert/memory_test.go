package convert

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
)

// What stays of all traces is bounded: the last that fits is taken, the next ends the conversion.
func TestStructureThatTakesTooMuch(t *testing.T) {
	m := &merger{memory: hfsource.NewMemoryBudget(t.Context(), 0), structure: mmapcache.NewStructure(), seen: map[string]place{},
		facts: mmapcache.StructureFacts{Unknown: map[string]int{}, UnknownIn: map[string]string{}, Generations: map[string]int{}}}
	next := func(id string) planned {
		tr, err := weka.Scan([]byte(trace(id)), weka.Default())
		require.NoError(t, err)
		return planTrace(tr, planned{}, weka.Default())
	}
	a, b := next("a"), next("b")
	require.NoError(t, m.memory.Retain(512<<20-planBytes(a)))
	require.NoError(t, m.take(a))
	var much *hfsource.MemoryLimitError
	require.ErrorAs(t, m.take(b), &much)
	require.Equal(t, 1, m.structure.Traces.Len())
}
