package hfsource

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/fakehub"
)

const corpus = "semianalysisai/cc-traces-weka-062126"

// onHub runs a test with a fake hub that has one dataset, and options for it.
func onHub(t *testing.T, files map[string]fakehub.File, test func(t *testing.T, h *fakehub.Hub, commit string, o Options)) {
	home := t.TempDir()
	h := fakehub.New()
	env := map[string]string{"HF_HOME": home}
	o := Options{Hub: hub.Options{Version: "test", Transport: h.ListenInMemory(),
		Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}}
	env["HF_ENDPOINT"] = h.HubURL
	defer h.Close()
	test(t, h, h.Commit(corpus, "main", files), o)
}

func TestDatasetsOfTheHub(t *testing.T) {
	text := []byte("{\"a\":1}\n{\"a\":2}\n")
	files := map[string]fakehub.File{"b.jsonl": {Data: text, LFS: true}, "a.jsonl": {Data: []byte("{}\n")}, "x.txt": {Data: []byte("x")}}
	onHub(t, files, func(t *testing.T, h *fakehub.Hub, commit string, o Options) {
		for _, input := range []string{"hf://datasets/" + corpus, "agentx-062126", "hf://datasets/" + corpus + "@" + commit} {
			s, err := Resolve(t.Context(), []string{input}, o)
			require.NoError(t, err)
			require.Len(t, s.Files, 2)
			for k, name := range []string{"a.jsonl", "b.jsonl"} {
				f := s.Files[k]
				assert.Equal(t, "hf://datasets/"+corpus+"@"+commit[:12]+"/"+name, f.Path)
				assert.Equal(t, fakehub.Digest(files[name].Data), f.SHA256)
				assert.EqualValues(t, len(files[name].Data), f.Size)
				assert.Equal(t, FileFormat{Lines: true}, f.Format)
				assert.Equal(t, input, f.Split, "the files of a dataset belong together")
			}
			var rows []string
			require.NoError(t, s.Rows(t.Context(), nil, nil, func(r Row) error {
				rows = append(rows, string(r.Data))
				r.Free()
				return nil
			}))
			assert.Equal(t, []string{"{}", `{"a":1}`, `{"a":2}`}, rows)
			require.Len(t, s.Datasets, 1)
			d := s.Datasets[0]
			assert.Equal(t, []string{"a.jsonl", "b.jsonl"}, d.Paths)
			assert.Equal(t, corpus, d.Repo)
			assert.Equal(t, commit, d.Commit)
			assert.False(t, d.ResolvedAt.IsZero())
			require.NoError(t, s.Close())
		}
		_, _, cdn := h.Calls()
		assert.Equal(t, 1, cdn)
		s, err := Resolve(t.Context(), []string{"hf://datasets/" + corpus + "/a.jsonl"}, o)
		require.NoError(t, err)
		assert.Empty(t, s.Files[0].Split, "a file that was asked for by itself")
		require.NoError(t, s.Close())
	})
}

// Files of the hub are what their content says, too.
//
// Covers I-1.
func TestContentOfTheHubDecides(t *testing.T) {
	for name, data := range map[string][]byte{"a.json": []byte("{}\n{}\n"), "a.ndjson": []byte("{}\n{}\n"), "a.jsonl": zst(t, []byte("{}\n{}\n")), "a.JSONL.gz": []byte("{}\n{}\n")} {
		onHub(t, map[string]fakehub.File{name: {Data: data, LFS: true}}, func(t *testing.T, _ *fakehub.Hub, _ string, o Options) {
			s := resolve(t, o, "hf://datasets/"+corpus)
			require.Len(t, s.Files, 1)
			assert.Equal(t, FileFormat{Lines: true}, s.Files[0].Format, name)
			assert.Len(t, rows(t, s), 2, name)
		})
	}
}

// A copy in the cache that was changed is an error when it is read; with Verify it is downloaded again.
func TestDamagedCopyOfTheHub(t *testing.T) {
	text := bytes.Repeat([]byte("{\"a\":1}\n"), 1000)
	for _, name := range []string{"b.jsonl", "b.parquet"} {
		onHub(t, map[string]fakehub.File{name: {Data: text, LFS: true}}, func(t *testing.T, h *fakehub.Hub, commit string, o Options) {
			input := "hf://datasets/" + corpus + "@" + commit
			rows := func() error {
				s, err := Resolve(t.Context(), []string{input}, o)
				require.NoError(t, err)
				err = s.Rows(t.Context(), nil, nil, func(r Row) error { r.Free(); return nil })
				return errors.Join(err, s.Close())
			}
			require.NoError(t, rows())
			env, _ := o.Hub.Env("HF_HOME")
			blob := filepath.Join(env, "hub", "datasets--"+strings.ReplaceAll(corpus, "/", "--"), "blobs", fakehub.Digest(text))
			bad := bytes.Clone(text)
			bad[len(bad)-4] = '2'
			require.NoError(t, os.WriteFile(blob, bad, 0o666))
			err := rows()
			require.ErrorIs(t, err, ErrMismatch)
			require.ErrorIs(t, err, ErrChanged)
			for _, text := range []string{"hash mismatch", name, corpus, "agentx fetch hf://datasets/" + corpus + "@" + commit + "/" + name} {
				assert.ErrorContains(t, err, text)
			}
			o.Verify = true
			require.NoError(t, rows())
			o.Verify = false
			require.NoError(t, rows())
		})
	}
}

func TestExistingPathWins(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("agentx-062126", []byte("{}"), 0o666))
	f := resolve(t, Options{}, "agentx-062126").Files[0]
	r, err := f.open()
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, errors.Join(err, r.Close()))
	assert.Equal(t, "{}", string(text))
}
