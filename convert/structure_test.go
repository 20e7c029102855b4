package convert

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/mmapcache"
)

// A structure alone is the one of a conversion, byte for byte, and needs neither tokenizer nor corpus.
func TestStructureAlone(t *testing.T) {
	o := options(t, "@demo")
	corpus := o.Corpus
	o.Corpus = filepath.Join(t.TempDir(), "absent.u32le") // Structure does not open it
	alone, err := Structure(context.Background(), o)
	require.NoError(t, err)
	assert.False(t, alone.Hit)
	assert.Equal(t, map[string]cachestore.PartHit{mmapcache.StructureKind: {Key: alone.Key}}, alone.Parts)
	entries, err := os.ReadDir(o.Root)
	require.NoError(t, err)
	for _, e := range entries {
		assert.NotContains(t, []string{mmapcache.PlacementKind, mmapcache.ArenasKind, mmapcache.DatasetKind}, e.Name())
	}
	again, err := Structure(context.Background(), o)
	require.NoError(t, err)
	assert.True(t, again.Hit)
	assert.Equal(t, []any{alone.Key, alone.Path, alone.Bytes, alone.Facts}, []any{again.Key, again.Path, again.Bytes, again.Facts})

	o.Corpus = corpus
	whole := o.convert(t)
	assert.Equal(t, cachestore.PartHit{Key: alone.Key, Hit: true}, whole.Parts[mmapcache.StructureKind])
	requireSound(t, whole)

	part, err := cachestore.OpenStructure(context.Background(), o.Root, alone.Key)
	require.NoError(t, err)
	defer part.Close()
	require.NoError(t, os.RemoveAll(filepath.Join(o.Root, mmapcache.ArenasKind))) // Structure does not open it
	tables, err := cachestore.OpenTables(context.Background(), o.Root, whole.Key)
	require.NoError(t, err)
	defer tables.Close()
	assert.Equal(t, part.Structure.Turns.Len(), tables.Structure.Turns.Len())
	assert.Equal(t, part.Facts, tables.Facts)
	_, err = cachestore.OpenStructure(context.Background(), o.Root, whole.Key)
	require.ErrorIs(t, err, mmapcache.ErrNoCache)
}

// MooncakeBlock is the rule block_size for Mooncake rows, and nothing for others.
func TestMooncakeBlock(t *testing.T) {
	key := func(in string, block, rule int) string {
		o := options(t, in)
		o.MooncakeBlock, o.Rules.BlockSize = block, rule
		r, err := Structure(context.Background(), o)
		require.NoError(t, err)
		return r.Key
	}
	rows := lines(t, `{"timestamp":0,"input_length":100,"output_length":1,"hash_ids":[0]}`)
	assert.Equal(t, key(rows, 0, 128), key(rows, 128, 0))
	assert.NotEqual(t, key(rows, 0, 0), key(rows, 128, 0))
	assert.Equal(t, key("@demo", 0, 0), key("@demo", 128, 0))
}
