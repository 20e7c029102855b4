package mmapcache

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
)

func TestOpenOfNothingNamesThePath(t *testing.T) {
	root := t.TempDir()
	_, err := Open(root, "0123456789")
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, DatasetPath(root, "0123456789"))
}

// A directory renamed to another key is not the cache of that key.
func TestOpenHoldsTheKeyAgainstTheName(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	require.NoError(t, os.Rename(DatasetPath(root, key), DatasetPath(root, "0123456789")))
	_, err := Open(root, "0123456789")
	assert.ErrorIs(t, err, manifest.ErrDamaged)
}

// Sound digests over content that does not fit together: what a faulty program would write. Open or the loading of a
// tree refuses it and names the file; so does Verify.
func TestPartsThatDoNotFitAreRefused(t *testing.T) {
	words := func(kind string, list ...uint32) func(io.Writer) error {
		return func(w io.Writer) error { return writeFlat(w, kind, list) }
	}
	for name, spoil := range map[string]struct {
		file  string
		write func(io.Writer) error
	}{
		"a token less":             {idOffsetsFile, words(kindIDOffsets, 0, 2)},
		"first offset":             {textOffsetsFile, words(kindTextOffsets, 1, 1, 2, 3)},
		"last offset":              {textOffsetsFile, words(kindTextOffsets, 0, 1, 2, 4)},
		"offsets go back":          {textOffsetsFile, words(kindTextOffsets, 0, 3, 1, 3)},
		"offset beyond":            {idOffsetsFile, words(kindIDOffsets, 0, 7, 8, 6)},
		"split beyond":             {splitsFile, words(kindSplits, 3)},
		"ill-formed token beyond":  {illFormedFile, words(kindIllFormed, 0, 1, 99)},
		"another kind of file":     {splitsFile, words(kindIllFormed)},
		"elements of another size": {splitsFile, func(w io.Writer) error { return writeFlat(w, kindSplits, []byte{}) }},
		"more tokens than counted": {"tokens.u32", words(kindTokens, 0, 0, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			y, root := plainToy(40), t.TempDir()
			y.corpus = []uint32{0, 0, 0} // "aaa" and "0,0,0,"
			y.starts = [][]uint32{{0, 1, 2, 0, 0}}
			structure := y.buildStructure(t, root, "")
			starts := y.part(t, root, StartsKind, "", func(b *Builder) error { return y.writeStarts(t, b) })
			arenas := y.part(t, root, ArenasKind, "", func(b *Builder) error {
				for file, write := range map[string]func(io.Writer) error{
					"tokens.u32": words(kindTokens, y.corpus...), textOffsetsFile: words(kindTextOffsets, 0, 1, 2, 3),
					"text.json":   func(w io.Writer) error { return writeFlat(w, kindText, []byte("aaa")) },
					"ids.txt":     func(w io.Writer) error { return writeFlat(w, kindIDs, []byte("0,0,0,")) },
					idOffsetsFile: words(kindIDOffsets, 0, 2, 4, 6), splitsFile: words(kindSplits), illFormedFile: words(kindIllFormed),
				} {
					if file == spoil.file {
						write = spoil.write
					}
					if err := b.file(file, write); err != nil {
						return err
					}
				}
				return b.facts(ArenaFacts{Tokens: 3})
			})
			key := y.part(t, root, DatasetKind, "", func(b *Builder) error {
				b.Name(structure)
				b.Name(starts)
				b.Name(arenas)
				return nil
			}).Key
			c, err := Open(root, key)
			if err == nil {
				err = walk(c)
				require.NoError(t, c.Close())
			}
			assert.ErrorIs(t, err, manifest.ErrDamaged)
			v, verifyErr := Verify(t.Context(), root, key)
			require.NoError(t, verifyErr)
			require.Len(t, v.Damages, 1)
			assert.Contains(t, v.Damages[0].Why, filepath.Join(root, ArenasKind, arenas.Key))
		})
	}
}

func TestDatasetThatNamesTooLittle(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	structure := y.buildStructure(t, root, "")
	m := y.part(t, root, DatasetKind, "", func(b *Builder) error { b.Name(structure); return nil })
	_, err := Open(root, m.Key)
	assert.ErrorIs(t, err, manifest.ErrDamaged)
	v, err := Verify(t.Context(), root, m.Key)
	require.NoError(t, err)
	assert.NotEmpty(t, v.Damages)
}

func TestStructureOpensAlone(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	m := y.buildStructure(t, root, "")
	c, err := OpenStructure(root, m.Key)
	require.NoError(t, err)
	assert.Equal(t, asAppended(y.plans[0]), asAppended(c.Structure.Plan(0)))
	assert.Equal(t, 3, c.Structure.Blocks())
	require.NoError(t, c.Close())
	_, err = OpenStructure(root, "0123456789")
	assert.ErrorIs(t, err, os.ErrNotExist)
}
