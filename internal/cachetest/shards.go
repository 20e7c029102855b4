package cachetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/agentx/agentx/mmapcache"
)

// Shards returns a dataset of shards with the traces of a cache, open until the test ends. Shards end before the traces of these numbers;
// the last of them is the number of all traces. Traces of global scope become local.
func Shards(t testing.TB, c *mmapcache.Cache, ends ...int) *mmapcache.Cache {
	t.Helper()
	arenas, err := mmapcache.Lookup(c.Root, mmapcache.ArenasKind, c.Manifest.Parts[mmapcache.ArenasKind].Key)
	must(t, err)
	facts := mmapcache.DatasetFacts{StructureFacts: c.Facts}
	from := 0
	for _, to := range ends {
		facts.Shards = append(facts.Shards, buildShard(t, c, from, to))
		from = to
	}
	b := builder(t, c.Root, mmapcache.DatasetKind, map[string]any{"format": mmapcache.FormatShards, "of": c.Manifest.Key, "ends": ends})
	b.AddPart(arenas)
	must(t, b.NameShards(facts))
	m, err := b.Publish(context.Background(), mmapcache.Provenance{})
	must(t, err)
	return Open(t, c.Root, m.Key)
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func builder(t testing.TB, root, kind string, preImage any) *mmapcache.Builder {
	b, err := mmapcache.NewBuilder(context.Background(), root, kind, preImage)
	must(t, err)
	t.Cleanup(b.Discard)
	return b
}

// buildShard makes a shard of the traces from a number on, up to another one.
func buildShard(t testing.TB, c *mmapcache.Cache, from, to int) (made mmapcache.Shard) {
	s := mmapcache.NewStructure()
	var blocks, fillers []uint32
	starts := startsOf(t, c)
	for k := from; k < to; k++ {
		p := Plan(c, k)
		first, filler := int(p.Trace.FirstBlock), c.Facts.Blocks+int(p.Trace.FirstTurn)
		blocks = append(blocks, starts[first:first+int(p.Trace.Blocks)]...)
		fillers = append(fillers, starts[filler:filler+len(p.Turns)]...)
		if p.Trace.Scope == "global" {
			p.Trace.Scope = "local"
		}
		must(t, s.Append(p))
		if ms, ok, err := c.RecordedStart(k); ok && err == nil {
			s.SetRecordedStart(k-from, ms)
		}
	}
	made.Traces, made.Sessions, made.Turns, made.Blocks = s.Traces.Len(), s.Sessions.Len(), s.Turns.Len(), s.Blocks()
	b := builder(t, c.Root, mmapcache.StructureKind, []any{c.Manifest.Key, from, to})
	must(t, b.BuildStructure(s, mmapcache.StructureFacts{
		Traces: made.Traces, Sessions: made.Sessions, Turns: made.Turns, Blocks: made.Blocks, Rules: c.Facts.Rules, Starts: s.RecordedStarts(),
	}))
	m, err := b.Publish(context.Background(), mmapcache.Provenance{})
	must(t, err)
	made.Structure.Key, made.Structure.Digest = m.Key, m.Digest

	b = builder(t, c.Root, mmapcache.PlacementKind, []any{c.Manifest.Key, from, to})
	table, err := b.NewPlacement(len(blocks)+len(fillers), c.CorpusTokens())
	must(t, err)
	must(t, table.Put(0, append(blocks, fillers...)))
	must(t, table.Close(context.Background()))
	m, err = b.Publish(context.Background(), mmapcache.Provenance{})
	must(t, err)
	made.Starts.Key, made.Starts.Digest = m.Key, m.Digest
	return made
}

// startsOf reads where in the corpus the blocks and fillers of a cache of one shard begin.
func startsOf(t testing.TB, c *mmapcache.Cache) (starts []uint32) {
	data, err := os.ReadFile(filepath.Join(c.Root, mmapcache.PlacementKind, c.Manifest.Parts[mmapcache.PlacementKind].Key, "starts.bin"))
	must(t, err)
	width := int(binary.LittleEndian.Uint32(data[12:]))
	for rest := data[64:]; len(rest) > 0; rest = rest[width:] {
		starts = append(starts, binary.LittleEndian.Uint32(append(bytes.Clone(rest[:width]), 0)))
	}
	return starts
}

// DamageShard changes a byte in the table of turns of a shard of a dataset, and returns the path of its file.
func DamageShard(t testing.TB, c *mmapcache.Cache, shard int) string {
	t.Helper()
	facts, err := mmapcache.DatasetFactsOf(c.Manifest)
	must(t, err)
	path := filepath.Join(c.Root, mmapcache.StructureKind, facts.Shards[shard].Structure.Key, "turns.arrow")
	data, err := os.ReadFile(path)
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.WriteFile(path, data, 0o666))
	t.Cleanup(func() { // other tests may have the same dataset
		data[len(data)/2] ^= 1
		must(t, os.WriteFile(path, data, 0o666))
	})
	return path
}
