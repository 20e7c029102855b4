// Package cachetest prepares small caches for the tests of packages that read them. All caches of a test process lie in
// one temporary cache root, where equal ones are prepared once.
package cachetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/demo"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mmapcache"
)

// root is the cache root, "" before the first use.
var root string

// Root returns the cache root of this process.
var Root = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "agentx-test-")
	if err != nil {
		panic(err)
	}
	root = dir
	return dir
})

// RemoveRoot removes the cache root. TestMain calls it after the tests.
func RemoveRoot() {
	if root != "" {
		os.RemoveAll(root)
	}
}

// Prepare converts traces, given as JSON lines, onto a prompt corpus, and opens the cache until the test ends.
func Prepare(t testing.TB, traces, corpus string) *mmapcache.Cache {
	t.Helper()
	r, err := convert.Convert(context.Background(), convert.Options{
		Root: Root(), Inputs: []string{"traces"}, Rules: rules.Default(), Placement: rules.Placement{Backend: rules.XXH3, Seed: 42},
		Tokenizer: "o200k_base", Corpus: corpus, Source: hfsource.Options{Embedded: map[string][]byte{"traces": []byte(traces)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return Open(t, Root(), r.Key)
}

// Open opens a cache until the test ends.
func Open(t testing.TB, root, key string) *mmapcache.Cache {
	t.Helper()
	c, err := mmapcache.Open(root, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Plan returns the plan of a trace of a cache that can be read.
func Plan(c *mmapcache.Cache, trace int) *mmapcache.Plan {
	p, err := c.Plan(trace)
	if err != nil {
		panic(err)
	}
	return p
}

// Demo returns the demo corpus: 16 traces with 197 turns.
func Demo(t testing.TB) *mmapcache.Cache {
	t.Helper()
	return Prepare(t, string(demo.JSONL()), "code")
}

// SplitCharacters returns the demo corpus on a prompt corpus whose windows begin and end inside characters.
func SplitCharacters(t testing.TB) *mmapcache.Cache {
	t.Helper()
	tok, err := tokenizer.Load("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	var ids []byte
	for k := range 400 {
		for _, id := range tok.Encode(fmt.Sprintf("%d \"𒀀𒁀\" 龘龖\n🏴󠁧󠁢󠁳󠁣󠁴󠁿 e\u0301\u0327 \\ 👩‍👩‍👧‍👦\t", k)) {
			ids = binary.LittleEndian.AppendUint32(ids, id)
		}
	}
	file := filepath.Join(Root(), "split.u32le")
	if err := os.WriteFile(file, ids, 0o600); err != nil {
		t.Fatal(err)
	}
	c := Prepare(t, string(demo.JSONL()), file)
	if c.Arenas.Splits == 0 {
		t.Fatal("no window splits a character")
	}
	return c
}

// Large returns one trace whose prompts grow from 103,000 to 118,000 tokens: bodies of 400 KB and more as text.
func Large(t testing.TB) *mmapcache.Cache {
	t.Helper()
	var prompts []int
	for k := range 16 {
		prompts = append(prompts, 103_000+1000*k+k)
	}
	return Prepare(t, TraceLine("large", prompts...), "code")
}

// TraceLine returns the JSON line of a trace with one session. Its requests start a second apart, take 0.25 s, and have
// these prompt tokens and two tokens to answer. Each prompt continues the one before; its first block is the system prompt.
func TraceLine(id string, prompts ...int) string {
	var requests []string
	for k, in := range prompts {
		var ids []string
		for b := range in / 64 {
			ids = append(ids, fmt.Sprint(b))
		}
		requests = append(requests, fmt.Sprintf(`{"t":%d,"type":"n","model":"m","in":%d,"out":2,"hash_ids":[%s],"input_types":[],"output_types":[],"stop":"","api_time":0.25}`,
			k, in, strings.Join(ids, ",")))
	}
	return fmt.Sprintf(`{"id":%q,"models":["m"],"block_size":64,"hash_id_scope":"local","tool_tokens":0,"system_tokens":%d,"requests":[%s]}`+"\n", id, min(64, prompts[0]), strings.Join(requests, ","))
}

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
