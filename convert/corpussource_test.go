package convert

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/manifest"
)

// A corpus of AIPerf that was made for another seed than the conversion's is refused: by its content, or by what lies beside it. Of
// a file of which neither tells the seed, a warning says so.
func TestCorpusSeed(t *testing.T) {
	ids := []byte{1, 0, 0, 0, 2, 0, 0, 0}
	known := knownCorpora
	t.Cleanup(func() { knownCorpora = known })
	knownCorpora = []CorpusSource{{Corpus: CodingCorpus, Seed: 42, SHA256: manifest.Sum([]byte{3, 0, 0, 0})}}
	file := func(ids []byte, source any) string {
		path := write(t, "c.u32le", ids)
		if source != nil {
			data, err := json.Marshal(source)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(CorpusSourcePath(path), data, 0o666))
		}
		return path
	}
	of := func(kind string, seed uint64) *CorpusSource {
		s, err := NewCorpusSource(kind, seed, "o200k_base", ids)
		require.NoError(t, err)
		return s
	}
	for name, c := range map[string]struct {
		corpus, warning string
		seed            int64
		other           uint64 // seed of the corpus, where it is refused
		backend         string
	}{
		"of this seed":       {corpus: file(ids, of(CodingCorpus, 7)), seed: 7},
		"of another":         {corpus: file(ids, of(CodingCorpus, 7)), seed: 42, other: 7},
		"of the largest":     {corpus: file(ids, of(CodingCorpus, 1<<64-1)), seed: -1},
		"another draw":       {corpus: file(ids, of(CodingCorpus, 7)), seed: 42, backend: rules.Exact},
		"sonnet":             {corpus: "sonnet:" + file(ids, nil), seed: 42},
		"sonnet by its file": {corpus: file(ids, of(SonnetCorpus, 42)), seed: 7},
		"known content":      {corpus: file([]byte{3, 0, 0, 0}, nil), seed: 7, other: 42},
		"known before told":  {corpus: file([]byte{3, 0, 0, 0}, of(CodingCorpus, 7)), seed: 42},
		"unknown":            {corpus: file(ids, nil), seed: 42, warning: "there is no "},
		"of other ids":       {corpus: file([]byte{4, 0, 0, 0}, of(CodingCorpus, 7)), seed: 7, warning: "is of other ids"},
		"unreadable":         {corpus: file(ids, "seven"), seed: 7, warning: "cannot unmarshal"},
		"null":               {corpus: file(ids, json.RawMessage("null")), seed: 7, warning: "is of other ids"},
		"no file":            {corpus: "nowhere.u32le", seed: 7},
		"a text":             {corpus: "code", seed: 7},
	} {
		t.Run(name, func(t *testing.T) {
			if c.backend == "" {
				c.backend = rules.SHA256MT
			}
			warning, err := Options{Corpus: c.corpus, Placement: rules.Placement{Backend: c.backend, Seed: c.seed}}.CheckCorpusSeed()
			if c.other != 0 {
				assert.Equal(t, &CorpusSeedError{c.corpus, c.other, uint64(c.seed)}, err)
			} else {
				assert.NoError(t, err)
			}
			if c.warning == "" {
				assert.Empty(t, warning)
			}
			assert.Contains(t, warning, c.warning)
		})
	}
}

// An AIPerf whose corpus is not the one that is known is refused.
func TestNewCorpusSource(t *testing.T) {
	for _, k := range knownCorpora {
		_, err := NewCorpusSource(k.Corpus, k.Seed, k.Tokenizer, []byte{1, 0, 0, 0})
		assert.ErrorContains(t, err, k.SHA256)
	}
	_, err := NewCorpusSource(SonnetCorpus, 7, "o200k_base", []byte{1, 0, 0, 0})
	assert.ErrorContains(t, err, "f379b397", "one for all seeds")
	s, err := NewCorpusSource(CodingCorpus, 7, "o200k_base", []byte{1, 0, 0, 0, 2, 0, 0, 0})
	require.NoError(t, err)
	assert.Equal(t, 2, s.Tokens)
}
