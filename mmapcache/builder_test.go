package mmapcache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
)

// snapshotOf reads every file below a directory.
func snapshotOf(t *testing.T, dir string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	}))
	return files
}

// stagingOf lists what is below the staging directory of a root.
func stagingOf(t *testing.T, root string) (names []string) {
	entries, err := os.ReadDir(filepath.Join(root, durable.StagingDir))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestPublishedAgainStaysAsItIs(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	stamp := filepath.Join(DatasetPath(root, key), manifest.ProvenanceName)
	require.NoError(t, os.WriteFile(stamp, []byte(`{"host":"first"}`), 0o666))
	before := snapshotOf(t, root)
	assert.Equal(t, key, y.build(t, root, ""))
	assert.Equal(t, before, snapshotOf(t, root))
	assert.Empty(t, stagingOf(t, root))
}

// Publish replaces a damaged directory, whichever bit is wrong.
func TestPublishReplacesWhatIsDamaged(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	before := snapshotOf(t, root)
	for _, path := range filesOf(t, root, key) {
		good := []byte(before[path])
		flipped := bytes.Clone(good)
		flipped[len(good)/2] ^= 1
		for _, bad := range [][]byte{nil, flipped, good[:len(good)-1]} {
			require.NoError(t, os.Remove(path))
			if bad != nil {
				require.NoError(t, os.WriteFile(path, bad, 0o666))
			}
			y.build(t, root, "")
			require.Equal(t, before, snapshotOf(t, root), path)
			require.Empty(t, stagingOf(t, root))
		}
	}
}

// A Publish whose context ends while it checks the existing directory replaces nothing.
func TestPublishStopsWithItsContext(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	before := snapshotOf(t, root)
	m, err := realDisk().readManifest(root, DatasetKind, key, "")
	require.NoError(t, err)
	part, err := realDisk().readManifest(root, StructureKind, m.Parts[StructureKind].Key, "")
	require.NoError(t, err)
	b, err := NewBuilder(withoutSync(t), root, StructureKind, part.PreImage)
	require.NoError(t, err)
	require.Equal(t, part.Key, b.Key())
	for _, f := range part.Files {
		require.NoError(t, b.writeFile(f.Name, func(w io.Writer) error {
			_, err := io.WriteString(w, before[filepath.Join(root, StructureKind, part.Key, f.Name)])
			return err
		}))
	}
	b.manifest.Facts = part.Facts
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.Publish(ctx, Provenance{Host: "another"})
	require.ErrorIs(t, err, context.Canceled)
	b.Discard()
	assert.Equal(t, before, snapshotOf(t, root))
	assert.Empty(t, stagingOf(t, root))
}

// Two contents under one key mean that a key does not cover what it should: the first stays, the second is refused.
func TestPublishOfOtherContentIsRefused(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	before := snapshotOf(t, root)
	b, err := NewBuilder(withoutSync(t), root, DatasetKind, map[string]string{"kind": DatasetKind, "salt": ""})
	require.NoError(t, err)
	require.Equal(t, key, b.Key())
	_, err = b.Publish(t.Context(), Provenance{})
	assert.ErrorContains(t, err, "it exists with other content")
	b.Discard()
	assert.Equal(t, before, snapshotOf(t, root))
	assert.Empty(t, stagingOf(t, root))
}

func TestUnfinishedStartsAreAnError(t *testing.T) {
	root := t.TempDir()
	b, err := NewBuilder(withoutSync(t), root, PlacementKind, "k")
	require.NoError(t, err)
	defer b.Discard()
	table, err := b.NewPlacement(3, 100)
	require.NoError(t, err)
	require.NoError(t, table.Put(0, []uint32{1, 2}))
	assert.ErrorContains(t, table.Close(t.Context()), placementFile)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b2, err := NewBuilder(withoutSync(t), root, PlacementKind, "k")
	require.NoError(t, err)
	defer b2.Discard()
	table, err = b2.NewPlacement(0, 100)
	require.NoError(t, err)
	assert.ErrorIs(t, table.Close(ctx), context.Canceled)
}

func TestFileErrorsNameTheFile(t *testing.T) {
	full := errors.New("disk full")
	b, err := NewBuilder(withoutSync(t), t.TempDir(), PlacementKind, "k")
	require.NoError(t, err)
	defer b.Discard()
	err = b.writeFile("a", func(io.Writer) error { return full })
	assert.ErrorIs(t, err, full)
	assert.ErrorContains(t, err, b.dir.Path("a"))
}

func TestTokensOutsideTheVocabularyAreRefused(t *testing.T) {
	y := plainToy(3)
	y.corpus[2] = uint32(len(vocabulary))
	b, err := NewBuilder(withoutSync(t), t.TempDir(), ArenasKind, "k")
	require.NoError(t, err)
	defer b.Discard()
	err = b.BuildArenas(PromptCorpus{y.corpus, vocabularyBytes}, MarkerPieces{})
	assert.ErrorContains(t, err, "token 2 (byte offset 8)")
}
