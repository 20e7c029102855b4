package workload

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// All turns of the demo come once, each after those of its trace that began before it.
func TestRecorded(t *testing.T) {
	demo := cachetest.Demo(t)
	c, err := mmapcache.OpenStructure(demo.Root, demo.Manifest.Parts[mmapcache.StructureKind].Key)
	require.NoError(t, err)
	defer c.Close()
	list, err := Recorded(c, 0, 64, "64")
	require.NoError(t, err)
	require.Len(t, list, c.Facts.Turns)
	seen := map[int]bool{}
	last := 0.0
	for _, turn := range list {
		row := cachetest.Plan(c, turn.Session).Turns[turn.Number]
		assert.Equal(t, int(row.In), turn.Prompt)
		assert.GreaterOrEqual(t, row.T, last, "all traces of the demo begin at 0")
		last = row.T
		seen[turn.ID] = true
	}
	assert.Len(t, seen, len(list))
	two, err := Recorded(c, 2, 64, "64")
	require.NoError(t, err)
	assert.Len(t, two, len(cachetest.Plan(c, 0).Turns)+len(cachetest.Plan(c, 1).Turns))
}
