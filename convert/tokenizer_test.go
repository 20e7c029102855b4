package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache"
)

// smallTokenizer copies a small tokenizer of the tests of internal/tokenizer to a directory, and returns that.
func smallTokenizer(t *testing.T, name string) string {
	t.Helper()
	file, err := os.ReadFile("../internal/tokenizer/testdata/" + name + ".json")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), file, 0o666))
	return dir
}

// The tokenizer of a file takes part in the keys of arenas and placement by its content alone, and builds what its provenance names again.
func TestTokenizerOfAFile(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	o.Corpus = "code"
	o.Tokenizer = smallTokenizer(t, "small-cl100k")
	first := o.convert(t)
	requireSound(t, first)
	require.NoError(t, VerifyRebuild(t.Context(), o.Root, first.Key, Options{}))

	o.Tokenizer = filepath.Join(smallTokenizer(t, "small-cl100k"), "tokenizer.json")
	again := o.convert(t)
	assert.True(t, again.Hit)
	assert.Equal(t, first.Key, again.Key)

	o.Tokenizer = smallTokenizer(t, "small-o200k")
	other := o.convert(t)
	assert.True(t, other.Parts[mmapcache.StructureKind].Hit)
	assert.False(t, other.Parts[mmapcache.ArenasKind].Hit)
	assert.False(t, other.Parts[mmapcache.PlacementKind].Hit)
	e, err := Explain(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, e.Hit)
	assert.Equal(t, other.Key, e.Key)
}

// A file that is refused is reported before traces are read into a structure.
func TestTokenizerIsTriedFirst(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	dir := smallTokenizer(t, "small-o200k")
	path := filepath.Join(dir, "tokenizer.json")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(file), `"Split"`, `"Whitespace"`, 1)), 0o666))
	o.Tokenizer = dir
	_, err = Convert(t.Context(), o)
	assert.ErrorContains(t, err, `tokenizer: `+dir+`: pre_tokenizer: pretokenizers: "Whitespace" is not known: want Split and ByteLevel`)
	requireClean(t, o.Root)
}
