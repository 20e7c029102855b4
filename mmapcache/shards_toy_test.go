package mmapcache

import (
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/manifest"
)

// drawLocalToy draws a toy whose traces share no blocks, some of them with a recorded start, and where to cut it into shards.
func drawLocalToy(t *rapid.T) (y *toy, cuts []int) {
	y = drawToy(t)
	for range rapid.IntRange(0, 4).Draw(t, "more traces") {
		more := drawToy(t)
		for k, p := range more.plans {
			y.plans = append(y.plans, p)
			for i := range more.starts[k] {
				more.starts[k][i] %= uint32(len(y.corpus))
			}
			y.starts = append(y.starts, more.starts[k])
		}
	}
	for k, p := range y.plans {
		p.Trace.ID, p.Trace.Scope = fmt.Sprint("trace ", k), rapid.SampledFrom([]string{"local", "absent"}).Draw(t, "scope")
		for i := range p.Runs {
			p.Runs[i].Scope += p.Trace.ID
		}
		for i := range p.Sessions {
			p.Sessions[i].ID = fmt.Sprint(p.Trace.ID, "::", i)
		}
		y.recorded = append(y.recorded, rapid.SampledFrom([]float64{math.NaN(), 0, 1500.5}).Draw(t, "recorded start"))
	}
	for at := 0; at < len(y.plans); {
		at += rapid.IntRange(0, len(y.plans)-at).Draw(t, "traces of a shard")
		cuts = append(cuts, at)
	}
	return y, cuts
}

// buildShards writes a dataset of shards that end before traces cuts, and returns its key.
func (y *toy) buildShards(t require.TestingT, root, salt string, cuts []int) string {
	arenas := y.buildArenas(t, root, salt)
	facts := DatasetFacts{StructureFacts: StructureFacts{Rules: TimeRules{ShortFiller: y.short}}}
	from := 0
	for n, to := range cuts {
		piece := &toy{corpus: y.corpus, plans: y.plans[from:to], starts: y.starts[from:to], short: y.short}
		if y.recorded != nil {
			piece.recorded = y.recorded[from:to]
		}
		name := fmt.Sprint(salt, "/", n)
		structure := piece.buildStructure(t, root, name)
		starts := piece.part(t, root, PlacementKind, name, func(b *Builder) error { return piece.writeStarts(t, b) })
		own, err := StructureFactsOf(structure)
		require.NoError(t, err)
		facts.addShard(structure, starts, own)
		from = to
	}
	return publishShards(t, root, salt, facts, arenas)
}

// addShard adds a shard to the facts of a dataset.
func (f *DatasetFacts) addShard(structure, starts *manifest.Manifest, own StructureFacts) {
	f.Traces, f.Sessions, f.Turns, f.Blocks, f.Starts = f.Traces+own.Traces, f.Sessions+own.Sessions, f.Turns+own.Turns, f.Blocks+own.Blocks, f.Starts+own.Starts
	f.Shards = append(f.Shards, Shard{
		Structure: manifest.Part{Key: structure.Key, Digest: structure.Digest}, Starts: manifest.Part{Key: starts.Key, Digest: starts.Digest},
		Traces: own.Traces, Sessions: own.Sessions, Turns: own.Turns, Blocks: own.Blocks,
	})
}

// publishShards writes the dataset that names shards, and returns its key.
func publishShards(t require.TestingT, root, salt string, facts DatasetFacts, arenas *manifest.Manifest) string {
	b, err := NewBuilder(withoutSync(t), root, DatasetKind, map[string]any{"format": FormatShards, "salt": salt, ArenasKind: arenas.Key})
	require.NoError(t, err)
	defer b.Discard()
	b.AddPart(arenas)
	require.NoError(t, b.NameShards(facts))
	m, err := b.Publish(contextOf(t), Provenance{Created: time.Unix(0, 0).UTC(), Sources: []Source{}})
	require.NoError(t, err)
	return m.Key
}

// shardFile returns the path of a file of a shard of a dataset.
func shardFile(t require.TestingT, root, key, kind string, shard int, name string) string {
	m, err := realDisk().readManifest(root, DatasetKind, key, "")
	require.NoError(t, err)
	facts, err := DatasetFactsOf(m)
	require.NoError(t, err)
	s := facts.Shards[shard]
	part := map[string]manifest.Part{StructureKind: s.Structure, PlacementKind: s.Starts}[kind]
	return filepath.Join(root, kind, part.Key, name)
}
