package mmapcache

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
)

// TestFactsOfShards refuses facts whose keys lead elsewhere, or whose counts differ from those of the shards.
func TestFactsOfShards(t *testing.T) {
	a := Shard{Structure: manifest.Part{Key: "s1", Digest: "d"}, Starts: manifest.Part{Key: "p1", Digest: "d"}, Traces: 2, Sessions: 3, Turns: 4, Blocks: 5}
	b := a
	b.Structure.Key, b.Starts.Key = "s2", "p2"
	good := DatasetFacts{StructureFacts: StructureFacts{Traces: 4, Sessions: 6, Turns: 8, Blocks: 10}, Shards: []Shard{a, b}}
	of := func(f DatasetFacts) *manifest.Manifest {
		m, err := manifest.New(DatasetKind, map[string]int{"format": FormatShards})
		require.NoError(t, err)
		m.Manifest = manifest.PartsInFacts
		m.Facts, err = json.Marshal(f)
		require.NoError(t, err)
		m.Parts = map[string]manifest.Part{ArenasKind: {Key: "a1", Digest: "d"}}
		return m
	}
	m := of(good)
	require.NoError(t, CheckContents("root", m))
	list, err := PartsOf(m)
	require.NoError(t, err)
	var names []string
	for _, r := range list {
		names = append(names, r.Name())
	}
	assert.Equal(t, []string{"structure/s1", "starts/p1", "structure/s2", "starts/p2", "arenas/a1"}, names)

	for what, change := range map[string]func(*DatasetFacts){
		"a key leads out": func(f *DatasetFacts) { f.Shards[0].Starts.Key = "../x" },
		"no key":          func(f *DatasetFacts) { f.Shards[1].Structure.Key = "" },
		"a count below 0": func(f *DatasetFacts) { f.Shards[0].Turns, f.Shards[1].Turns = -1, 9 },
		"another sum":     func(f *DatasetFacts) { f.Blocks++ },
		"no traces":       func(f *DatasetFacts) { *f = DatasetFacts{} },
	} {
		f := good
		f.Shards = []Shard{a, b}
		change(&f)
		_, err := PartsOf(of(f))
		assert.ErrorIs(t, err, ErrDamaged, what)
		assert.ErrorIs(t, CheckContents("root", of(f)), ErrDamaged, what)
	}
}
