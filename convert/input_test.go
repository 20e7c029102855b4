package convert

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/demo"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/tokensource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// tinyCorpus writes a corpus of n token ids, 0 to n-1. All token ids of one byte are among the first 256, so windows are
// cut inside characters.
func tinyCorpus(t testing.TB, n int) string {
	var ids []byte
	for k := range n {
		ids = binary.LittleEndian.AppendUint32(ids, uint32(k))
	}
	return write(t, "corpus.u32le", ids)
}

// write writes a file into a directory of its own and returns its path.
func write(t testing.TB, name string, data []byte) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, data, 0o666))
	return path
}

// traceText returns a small trace as one line of JSON.
func traceText(id string) string {
	return fmt.Sprintf(`{"id":%q,"models":["m"],"block_size":4,"hash_id_scope":"local","tool_tokens":4,"requests":[`+
		`{"t":0,"type":"n","model":"m","in":14,"out":3,"hash_ids":[1,2,3],"api_time":1},`+
		`{"t":2,"type":"subagent","agent_id":"a","status":"completed","duration_ms":1000,"models":["m"],"subagent_type":"x","requests":[`+
		`{"t":2,"type":"s","model":"n","in":9,"out":5,"hash_ids":[1,9],"ttft":0.1}]},`+
		`{"t":9,"type":"n","model":"m","in":25,"out":8,"hash_ids":[1,2,3,4,5,6]}]}`, id)
}

// lines writes rows as a file of JSON lines.
func lines(t testing.TB, rows ...string) string {
	return write(t, "in.jsonl", []byte(strings.Join(rows, "\n")+"\n"))
}

// builtinTokenizer returns a tokenizer inside the binary.
func builtinTokenizer(t testing.TB, name string) *tokensource.Source {
	t.Helper()
	s, err := tokensource.Resolve(t.Context(), name, hub.Options{})
	require.NoError(t, err)
	return s
}

// options returns options that convert inputs into a new root, with a tiny corpus.
func options(t testing.TB, inputs ...string) Options {
	return plainOptions(filepath.Join(t.TempDir(), "root"), tinyCorpus(t, 300), inputs...)
}

func plainOptions(root, corpus string, inputs ...string) Options {
	return Options{
		Root: root, Inputs: inputs, Source: hfsource.Options{Embedded: map[string][]byte{"@demo": demo.JSONL()}},
		Rules: rules.Default(), Placement: rules.Placement{Backend: rules.XXH3, Seed: 42}, Tokenizer: "cl100k_base", Corpus: corpus,
		disk:    durable.Options{Sync: func(*os.File) error { return nil }}, // builds are many here
		Workers: 2, Version: "test", now: func() time.Time { return time.Unix(0, 0) },
	}
}

// convert runs a conversion, which must succeed.
func (o Options) convert(t testing.TB) *Result {
	t.Helper()
	r, err := Convert(t.Context(), o)
	require.NoError(t, err)
	return r
}

// withArenas returns options with a new root that has the arenas of another one: they take the longest to build.
func withArenas(t testing.TB, o Options) Options {
	from := os.DirFS(filepath.Join(o.Root, mmapcache.ArenasKind))
	o.Root = filepath.Join(t.TempDir(), "root")
	require.NoError(t, os.CopyFS(filepath.Join(o.Root, mmapcache.ArenasKind), from))
	return o
}

// filesOf returns the files of a cache by their paths in the root, without the provenance.
func filesOf(t testing.TB, root string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		if err == nil && e.IsDir() && strings.HasPrefix(name, ".") && name != "." {
			return fs.SkipDir // who is at work, and who uses what
		}
		if err != nil || e.IsDir() || e.Name() == manifest.ProvenanceName || name == e.Name() {
			return err
		}
		data, err := os.ReadFile(path)
		files[name] = string(data)
		return err
	}))
	return files
}

// tables returns the tables of the only structure in a root.
func tables(t testing.TB, root string) map[string]string {
	found := map[string]string{}
	for name, data := range filesOf(t, root) {
		if strings.HasSuffix(name, ".arrow") {
			found[filepath.Base(name)] = data
		}
	}
	require.Contains(t, found, "turns.arrow")
	return found
}

// requireClean checks a root after a failed conversion: no dataset, nothing in staging, and every part complete.
func requireClean(t testing.TB, root string) {
	t.Helper()
	list, err := cachestore.List(root)
	require.NoError(t, err)
	for _, e := range list {
		require.NotEqual(t, mmapcache.DatasetKind, e.Kind)
		require.Empty(t, e.Damaged)
		_, err := mmapcache.Lookup(root, e.Kind, e.Key)
		require.NoError(t, err)
	}
	staging, err := os.ReadDir(filepath.Join(root, durable.StagingDir))
	if err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	require.Empty(t, staging)
}

// requireSound verifies a dataset.
func requireSound(t testing.TB, r *Result) {
	t.Helper()
	found, err := cachestore.Find("", r.Path)
	require.NoError(t, err)
	require.Equal(t, r.Key, found.Key)
	v, err := mmapcache.Verify(t.Context(), found.Root, found.Key)
	require.NoError(t, err)
	require.Empty(t, v.Damages)
	require.Empty(t, v.Notes)
}

// openResult opens a converted dataset.
func openResult(t testing.TB, o Options, r *Result) *mmapcache.Cache {
	c, err := mmapcache.Open(o.Root, r.Key)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// written returns a trace as text: its rows, and the tokens of every message of every prompt.
func written(t testing.TB, c *mmapcache.Cache, i int) string {
	tree, err := c.Render(i, mmapcache.IDs)
	require.NoError(t, err)
	p := *tree.Plan
	p.Trace = mmapcache.Trace{ID: p.Trace.ID, Scope: p.Trace.Scope, BlockSize: p.Trace.BlockSize, Blocks: p.Trace.Blocks}
	out := fmt.Sprintf("%+v\n", p)
	var prompt mmapcache.Prompt
	for turn := range tree.Turns {
		tree.Prompt(turn, &prompt)
		for k, m := range prompt.Messages {
			out += fmt.Sprintf("%d %s %s\n", turn, m.Role, prompt.AppendContent(nil, k))
		}
	}
	return out
}

// shared returns the path of a file in the folder of public test data beside the repository, and skips the test where there
// is none.
func shared(t testing.TB, name string) string {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		require.NotEqual(t, dir, filepath.Dir(dir), "no go.mod above the test")
	}
	path := filepath.Join(filepath.Dir(dir), "shared", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s: the public test data is not here", path)
	}
	return path
}

// decode decodes JSON, which must be valid.
func decode[T any](t testing.TB, data string) (v T) {
	require.NoError(t, json.Unmarshal([]byte(data), &v))
	return v
}
