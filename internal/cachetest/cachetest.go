// Package cachetest prepares small caches for the tests of packages that read them. All caches of a test process lie in
// one temporary cache root, where equal ones are prepared once.
package cachetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/demo"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
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
