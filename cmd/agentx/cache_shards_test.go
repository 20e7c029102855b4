package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// oneTrace is a line of JSON with a trace of one request.
const oneTrace = `{"id":"ID","models":["m"],"block_size":64,"hash_id_scope":"local","tool_tokens":0,"system_tokens":0,"requests":[{"t":0,"type":"n","model":"m","in":70,"out":2,"hash_ids":[1],"input_types":[],"output_types":[],"stop":"","api_time":1}]}` + "\n"

// sharded makes a dataset in which each of some traces is a shard, and returns its key.
func sharded(t *testing.T, root string, ids ...string) string {
	facts := mmapcache.DatasetFacts{StructureFacts: mmapcache.StructureFacts{Skipped: []mmapcache.Skipped{}}}
	image := map[string]any{"format": mmapcache.FormatShards}
	var inputs []any
	var sources []mmapcache.Source
	var arenas manifest.Part
	for _, id := range ids {
		input := filepath.Join(t.TempDir(), id+".jsonl")
		require.NoError(t, os.WriteFile(input, []byte(strings.Replace(oneTrace, "ID", id, 1)), 0o600))
		out := strings.TrimSpace(agentx(t, "convert", input, "--quiet", "--cache", root))
		info, err := cachestore.Describe(root, filepath.Base(out[strings.LastIndexByte(out, '\n')+1:]))
		require.NoError(t, err)
		part := info.Directories[0].Manifest.Parts
		f, err := mmapcache.StructureFactsOf(info.Directories[1].Manifest)
		require.NoError(t, err)
		facts.Shards = append(facts.Shards, mmapcache.Shard{Structure: part[mmapcache.StructureKind], Starts: part[mmapcache.PlacementKind],
			Traces: f.Traces, Sessions: f.Sessions, Turns: f.Turns, Blocks: f.Blocks})
		facts.Traces, facts.Sessions, facts.Turns, facts.Blocks = facts.Traces+f.Traces, facts.Sessions+f.Sessions, facts.Turns+f.Turns, facts.Blocks+f.Blocks
		var of struct {
			Rules         json.RawMessage
			Inputs, Draws any
		}
		for _, d := range info.Directories {
			require.NoError(t, json.Unmarshal(d.Manifest.PreImage, &of))
		}
		image["rules"], image["draws"] = of.Rules, of.Draws
		inputs = append(inputs, of.Inputs.([]any)...)
		sources = append(sources, info.Directories[0].Provenance.Sources...)
		arenas = part[mmapcache.ArenasKind]
		agentx(t, "cache", "pin", "--cache", root, info.Key) // its parts stay until they are named
		defer func() {
			agentx(t, "cache", "unpin", "--cache", root, info.Key)
			agentx(t, "cache", "rm", "--cache", root, info.Key)
		}()
	}
	image["inputs"], image[mmapcache.ArenasKind] = inputs, arenas.Key
	b, err := mmapcache.NewBuilder(t.Context(), root, mmapcache.DatasetKind, image)
	require.NoError(t, err)
	defer b.Discard()
	b.AddPart(&manifest.Manifest{Kind: mmapcache.ArenasKind, Key: arenas.Key, Digest: arenas.Digest})
	require.NoError(t, b.NameShards(facts))
	m, err := b.Publish(t.Context(), mmapcache.Provenance{Host: "here", Sources: sources})
	require.NoError(t, err)
	return m.Key
}

// The verbs of a cache root speak of shards: a dataset of shards is one line of ls, info counts them, pull copies those that are
// missing, rm keeps those that another dataset names.
func TestCacheVerbsOfShards(t *testing.T) {
	root, other := warmRoot(t), t.TempDir()
	first, second := sharded(t, root, "a", "b", "c"), sharded(t, root, "a", "b", "d")
	cache := func(args ...string) string {
		return agentx(t, append([]string{"cache", args[0], "--cache", root}, args[1:]...)...)
	}

	out := cache("ls")
	assert.Regexp(t, `^KIND +KEY +SIZE +SHARDS +CREATED`, out)
	assert.Regexp(t, `dataset +`+first[:12]+` +[0-9.]+ MB +3 `, out)
	assert.Contains(t, out, "2 datasets, 9 parts, ")
	assert.NotContains(t, out, "structure")
	assert.NotContains(t, out, "no dataset names")
	assert.Equal(t, 2+9+2, strings.Count(cache("ls", "--parts"), "\n"))
	assert.Equal(t, 2, strings.Count(cache("ls", "--json"), `"shards":3`))

	out = cache("info", first)
	assert.Contains(t, out, "  shards   3, 3 whole\n")
	assert.Contains(t, out, "  arrivals not recorded\n")
	assert.Contains(t, out, "c.jsonl")
	assert.NotContains(t, out, "structure ")
	assert.NotContains(t, out, "traces 0 to")
	assert.NotContains(t, cache("info", "--json", first), "first_trace")
	assert.Contains(t, cache("info", "--shards", first), "       2   traces 2 to 2, 1 turns, ")
	assert.Contains(t, cache("info", "--json", first), `"shards":{"total":3,"whole":3,"missing":0,"damaged":0,"files":21,`)
	assert.Equal(t, 3, strings.Count(cache("info", "--json", "--shards", first), `"first_trace"`))
	assert.Equal(t, 3, strings.Count(cache("info", "--json", "--shards", first), filepath.Join(root, "structure")))

	assert.Contains(t, agentx(t, "cache", "pull", "--quiet", "--cache", other, "--from", root, first, "--json"), `"shards":{"total":3,"found":0}`)
	assert.Contains(t, agentx(t, "cache", "pull", "--quiet", "--cache", other, "--from", root, second), ", 3 shards (2 found)\n")
	assert.Contains(t, agentx(t, "cache", "pull", "--quiet", "--cache", other, "--from", root, second), "hit: there before, nothing copied\n")

	d, err := datasetProvenance(root, first)
	require.NoError(t, err)
	assert.Equal(t, "default", d.Profile)
	assert.Empty(t, d.Changed)
	require.Len(t, d.Inputs, 3)
	assert.Equal(t, "c.jsonl", filepath.Base(d.Inputs[2].Name))
	assert.Len(t, d.Inputs[2].SHA256, 64)
	assert.Contains(t, string(d.Draws), `"seed":42`)
	assert.Equal(t, "o200k_base", d.Tokenizer)
	assert.Equal(t, "code", d.Corpus)

	info, err := cachestore.Describe(root, first)
	require.NoError(t, err)
	shards, err := cachestore.LookAtShards(t.Context(), root, info.Directories[0].Manifest)
	require.NoError(t, err)
	cache("rm", first)
	cache("ls")
	require.NoError(t, os.RemoveAll(filepath.Join(root, mmapcache.StructureKind, shards.List[0].Structure.Key)))
	out = cache("info", "--shards", second)
	assert.Contains(t, out, "  shards   3, 2 whole, 1 missing\n")
	assert.Contains(t, out, "missing: "+filepath.Join(root, mmapcache.StructureKind, shards.List[0].Structure.Key))
	require.NoError(t, os.RemoveAll(mmapcache.DatasetPath(root, second)))
	assert.Regexp(t, `(?m)^no dataset names 6 of the parts, [0-9.]+ MB: `, cache("ls"))
	assert.Contains(t, cache("ls", "--parts", "--json"), `"unnamed":true`)
}
