package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
)

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
	"json":         {"true", ""},
	"cache":        {"", ""}, // another root
	"quiet":        {"true", ""},
	"no-color":     {"true", ""},
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
		if f.Name == "help" || f.Name == "part" { // where a builder begins changes no byte, and explain does not take it
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
