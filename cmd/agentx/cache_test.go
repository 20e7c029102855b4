package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// An error about a cache root that the user may not write in comes with the hint --cache; other errors do not.
func TestHintRoot(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("LocalAppData", home) // Windows
	cmd := newVersion()
	root := filepath.Join(home, "agentx")
	denied := func(path string, why error) error {
		return fmt.Errorf("lease: %w", &fs.PathError{Op: "mkdir", Path: path, Err: why})
	}
	newRoot().AddCommand(cmd) // for --cache
	require.NoError(t, cmd.ParseFlags(nil))
	for name, c := range map[string]struct {
		err     error
		advised bool
	}{
		"the root":           {denied(root, fs.ErrPermission), true},
		"in the root":        {denied(filepath.Join(root, ".staging"), fs.ErrPermission), true},
		"above the root":     {denied(home, fs.ErrPermission), true},
		"a read-only disk":   {denied(root, syscall.EROFS), true},
		"no such parent":     {denied(root, fs.ErrNotExist), true},
		"beside the root":    {denied(root+"-old", fs.ErrPermission), false},
		"an input":           {denied(filepath.Join(home, "x.jsonl"), fs.ErrPermission), false},
		"another error":      {denied(root, fs.ErrExist), false},
		"advice of its own":  {hintError{denied(root, fs.ErrPermission), "sleep"}, false},
		"no path in it":      {fs.ErrPermission, false},
		"nothing went wrong": {nil, false},
	} {
		got := hintRoot(cmd, c.err)
		var try hintError
		if c.advised && assert.ErrorAs(t, got, &try, name) {
			assert.Equal(t, "--cache DIR or AGENTX_CACHE=DIR, a directory that you may write in", try.hint, name)
			at, _ := errors.AsType[*fs.PathError](c.err)
			assert.ErrorIs(t, got, at, name)
			assert.Equal(t, at.Path != filepath.Join(root, ".staging"), strings.HasPrefix(got.Error(), "cache root "+root+" cannot be made: mkdir "), name)
		} else {
			assert.Equal(t, c.err, got, name)
		}
	}
}

// Every flag of convert either can change a byte of a part, and then it changes the key of that part, or it cannot, and
// then it changes no key. A flag that is missing here fails the test.
var flagHeads = map[string]struct {
	value   string // not the default
	changes string // the parts whose keys it changes
}{
	"profile":   {"aiperf", "structure starts"},
	"set":       {"block_size=128", "structure starts"},
	"seed":      {"7", "starts"},
	"corpus":    {"", "starts arenas"}, // a file that the test writes
	"tokenizer": {"cl100k_base", "starts arenas"},

	"workers":      {"3", ""},
	"force":        {"true", ""},
	"verify-hit":   {"true", ""},
	"trust-root":   {"true", ""},
	"wait":         {"5s", ""},
	"no-wait":      {"true", ""},
	"skip-invalid": {"true", ""},
	"strict":       {"true", ""},
	// Of logs alone.
	"format":       {"auto", ""},
	"redact":       {"none", ""},
	"prefix":       {"none", ""},
	"sessions":     {"a*", ""},
	"since":        {"2026-03-01", ""},
	"until":        {"2026-03-01", ""},
	"min-turns":    {"2", ""},
	"max-sessions": {"2", ""},
	"max-gap":      {"1s", ""},

	"json":     {"true", ""},
	"cache":    {"", ""}, // another root
	"quiet":    {"true", ""},
	"no-color": {"true", ""},
}

func TestFlagsChangeTheKeysTheyShould(t *testing.T) {
	corpus := filepath.Join(t.TempDir(), "corpus.u32le")
	require.NoError(t, os.WriteFile(corpus, make([]byte, 4000), 0o666))
	keys := func(args ...string) map[string]string {
		var out, errs strings.Builder
		status := run(append([]string{"cache", "explain", "demo", "--json"}, args...), nil, &out, &errs)
		require.Zero(t, status, errs.String())
		var e struct{ Parts []struct{ Kind, Key string } }
		require.NoError(t, json.Unmarshal([]byte(out.String()), &e))
		found := map[string]string{}
		for _, p := range e.Parts {
			found[p.Kind] = p.Key
		}
		return found
	}
	t.Setenv("AGENTX_CACHE", t.TempDir())
	base := keys()
	require.Len(t, base, 4)
	root := newRoot()
	convert, _, err := root.Find([]string{"convert"})
	require.NoError(t, err)
	seen := 0
	check := func(f *pflag.Flag) {
		// Where a builder begins changes no byte, and a dry run makes none. Explain takes none of them.
		if slices.Contains([]string{"help", "part", "dry-run", "ids", "explain"}, f.Name) {
			return
		}
		head, ok := flagHeads[f.Name]
		if !assert.True(t, ok, "--%s stands under neither head", f.Name) {
			return
		}
		seen++
		switch f.Name {
		case "corpus":
			head.value = corpus
		case "cache":
			head.value = t.TempDir()
		}
		changed := []string{}
		got := keys("--" + f.Name + "=" + head.value)
		for _, kind := range []string{"structure", "starts", "arenas"} {
			if got[kind] != base[kind] {
				changed = append(changed, kind)
			}
		}
		assert.Equal(t, head.changes, strings.Join(changed, " "), "--%s", f.Name)
		assert.Equal(t, head.changes != "", got["dataset"] != base["dataset"], "--%s", f.Name)
	}
	convert.Flags().VisitAll(check)
	root.PersistentFlags().VisitAll(check)
	assert.Equal(t, len(flagHeads), seen, "a flag that is no more")
}

// The cache root is what the user names, else the user cache directory of the system. Elsewhere the entry was lost with
// its container.
//
// Covers F17.
func TestCacheRoot(t *testing.T) {
	root := func(args ...string) string {
		var out, errs strings.Builder
		require.Zero(t, run(append([]string{"cache", "ls"}, args...), nil, &out, &errs), errs.String())
		return strings.Fields(out.String())[0]
	}
	home, other, third := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("AGENTX_CACHE", "")
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	assert.Equal(t, filepath.Join(home, ".cache", "agentx"), root())
	t.Setenv("XDG_CACHE_HOME", other)
	assert.Equal(t, filepath.Join(other, "agentx"), root())
	t.Setenv("AGENTX_CACHE", third)
	assert.Equal(t, third, root())
	assert.Equal(t, home, root("--cache", home))
}

// While another process builds the same, --no-wait fails at once and names it, --wait after that time. A hit needs neither.
func TestWaitingForAnotherBuilder(t *testing.T) {
	root := t.TempDir()
	t.Setenv("AGENTX_CACHE", root)
	agentx := func(args ...string) (status int, out, errs string) {
		var o, e strings.Builder
		status = run(args, nil, &o, &e)
		return status, o.String(), e.String()
	}
	traces := filepath.Join(t.TempDir(), "in.json")
	require.NoError(t, os.WriteFile(traces, []byte(`{"id":"a","models":["m"],"block_size":64,"hash_id_scope":"local","requests":[{"t":0,"type":"n","model":"m","in":70,"out":2,"hash_ids":[1],"api_time":1}]}`), 0o666))
	corpus := filepath.Join(t.TempDir(), "corpus.u32le")
	require.NoError(t, os.WriteFile(corpus, make([]byte, 4000), 0o666))
	_, out, _ := agentx("cache", "explain", traces, "--corpus", corpus, "--json")
	var e struct{ Parts []struct{ Kind, Key string } }
	require.NoError(t, json.Unmarshal([]byte(out), &e))
	lease, err := durable.Acquire(t.Context(), root, e.Parts[0].Kind+"-"+e.Parts[0].Key, func() (bool, error) { return false, nil }, durable.Waiting{})
	require.NoError(t, err)
	for _, wait := range []string{"--no-wait", "--wait=10ms"} {
		status, _, errs := agentx("convert", traces, "--corpus", corpus, wait)
		assert.Equal(t, exitFailed, status)
		assert.Contains(t, errs, "being made by another process (process ")
		assert.Contains(t, errs, "try: ")
	}
	require.NoError(t, lease.Release())
	status, _, errs := agentx("convert", traces, "--corpus", corpus, "--no-wait")
	require.Zero(t, status, errs)
	status, _, errs = agentx("convert", traces, "--corpus", corpus, "--no-wait", "--wait", "5s")
	assert.Equal(t, exitUsage, status, errs)
}

// cache verify reports damage of one cache although another one cannot be read, and damage decides the exit status.
func TestVerifyOfSeveralCaches(t *testing.T) {
	root := warmRoot(t)
	caches := map[string]string{}
	for _, name := range []string{"whole", "damaged", "newer"} {
		input := filepath.Join(t.TempDir(), name+".jsonl")
		require.NoError(t, os.WriteFile(input, []byte(strings.Replace(`{"id":"ID","models":["m"],"block_size":64,"hash_id_scope":"local","tool_tokens":0,"system_tokens":0,"requests":[{"t":0,"type":"n","model":"m","in":70,"out":2,"hash_ids":[1],"input_types":[],"output_types":[],"stop":"","api_time":1}]}`+"\n", "ID", name, 1)), 0o600))
		out := strings.TrimSpace(agentx(t, "convert", input, "--quiet", "--cache", root))
		caches[name] = out[strings.LastIndexByte(out, '\n')+1:]
	}
	require.NoError(t, os.Truncate(filepath.Join(caches["damaged"], manifest.FileName), 5))
	path := filepath.Join(caches["newer"], manifest.FileName)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text := strings.Replace(string(data), `"manifest": 1`, `"manifest": 99`, 1)
	const line = ",\n  \"digest\": \""
	text = text[:strings.LastIndex(text, line)]
	require.NoError(t, os.WriteFile(path, []byte(text+line+manifest.Sum([]byte(text))+"\"\n}\n"), 0o600))

	for _, c := range []struct {
		names  string
		status int
		out    []string
		err    []string
	}{
		{"whole whole", 0, []string{"whole: 18 files"}, nil},
		{"whole newer", 1, nil, []string{"version 99"}},
		{"damaged newer whole", exitVerdict, []string{"damaged " + caches["damaged"]}, []string{"verify: " + caches["damaged"], "version 99", "try: agentx convert"}},
		{"newer damaged", exitVerdict, []string{"damaged " + caches["damaged"]}, []string{"verify: " + caches["damaged"], "version 99", "try: agentx convert"}},
		{"damaged nothing", exitFailed, nil, []string{"no such cache"}},
	} {
		args := []string{"cache", "verify", "--cache", root}
		for name := range strings.FieldsSeq(c.names) {
			args = append(args, cmp.Or(caches[name], name))
		}
		var out, problems strings.Builder
		assert.Equal(t, c.status, run(args, nil, &out, &problems), c.names)
		if c.out == nil {
			assert.Empty(t, out.String(), c.names)
		}
		for _, part := range c.out {
			assert.Contains(t, out.String(), part, c.names)
		}
		for _, part := range c.err {
			assert.Contains(t, problems.String(), part, c.names)
		}
		out.Reset()
		assert.Equal(t, c.status, run(append(args, "--json"), nil, &out, &problems), c.names)
		assert.Equal(t, c.names != "damaged nothing", strings.Contains(out.String(), `"files":`), c.names)
	}
}

// inspect says of a dataset of shards what it says of one shard with the same traces.
func TestInspectShards(t *testing.T) {
	t.Cleanup(cachetest.RemoveRoot)
	demo := cachetest.Demo(t)
	shards := cachetest.Shards(t, demo, 0, 3, 3, 10, 16)
	said := func(c *mmapcache.Cache) (text string) {
		for _, f := range []inspectFlags{
			{}, {asJSON: true}, {stats: true}, {stats: true, asJSON: true}, {digest: true, model: "-"}, {all: true},
			{digest: true, model: "m", sel: mmapcache.Selection{Trace: "demo-01-append"}}, {messages: true, sel: mmapcache.Selection{Trace: "demo-01-append"}},
		} {
			var out bytes.Buffer
			w := bufio.NewWriter(&out)
			require.NoError(t, f.write(t.Context(), w, c))
			require.NoError(t, w.Flush())
			require.NotEmpty(t, out.String())
			text += out.String()
		}
		for _, sel := range []mmapcache.Selection{{Trace: "demo-01-append"}, {Trace: "demo-1-append"}, {Session: "demo-01"}} {
			err := checkSelection(c, "CACHE", sel)
			var hint hintError
			text += fmt.Sprintln(err, errors.As(err, &hint), hint)
		}
		return text
	}
	require.Equal(t, said(demo), said(shards))
	require.NoError(t, checkSelection(shards, "CACHE", mmapcache.Selection{Trace: "demo-01-append"}))

	file := cachetest.DamageShard(t, shards, 3)
	damaged := cachetest.Open(t, shards.Root, shards.Manifest.Key)
	for _, f := range []inspectFlags{{}, {stats: true}, {digest: true}, {all: true}} {
		err := f.write(t.Context(), bufio.NewWriter(&bytes.Buffer{}), damaged)
		require.ErrorIs(t, err, mmapcache.ErrDamaged)
		require.ErrorContains(t, err, file)
	}
	require.NoError(t, checkSelection(damaged, "CACHE", mmapcache.Selection{}))
	require.ErrorContains(t, checkSelection(damaged, "CACHE", mmapcache.Selection{Trace: "demo-01-append"}), file)
}
