package mmapcache

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
)

// filesOf lists the files of a dataset and its parts that a manifest vouches for, manifests included.
func filesOf(t *testing.T, root, key string) (files []string) {
	info, err := Describe(root, key)
	require.NoError(t, err)
	for _, d := range info.Directories {
		files = append(files, filepath.Join(d.Path, manifest.FileName))
		for _, f := range d.Manifest.Files {
			files = append(files, filepath.Join(d.Path, f.Name))
		}
	}
	return files
}

// damaged reports whether the damages name a file.
func damaged(v *Verification, path string) bool {
	return slices.ContainsFunc(v.Damages, func(d Damage) bool { return d.File == path })
}

// checkDamage holds Verify and Open against a file that was damaged. Open promises to find it unless spot lies in what it
// leaves to Verify.
func checkDamage(t *testing.T, root, key, path string, spot int) {
	t.Helper()
	v, err := Verify(t.Context(), root, key)
	require.NoError(t, err)
	require.True(t, damaged(v, path), "%s, byte %d: %+v", path, spot, v.Damages)
	if spot%4 != 0 { // for speed
		return
	}
	c, err := Open(root, key)
	if err == nil {
		require.NoError(t, c.Close())
		promised := filepath.Base(path) == manifest.FileName || strings.HasSuffix(path, ".arrow") || spot < headerSize
		require.False(t, promised, "Open accepts %s with byte %d flipped", path, spot)
		return
	}
	require.ErrorIs(t, err, manifest.ErrDamaged, path)
	require.ErrorContains(t, err, path)
}

func TestVerifyFindsEveryDamage(t *testing.T) {
	y := plainToy(40)
	y.corpus = append(y.corpus, 12, 13, 30) // with a split character and no character
	root := t.TempDir()
	key := y.build(t, root, "")
	files := filesOf(t, root, key)
	v, err := Verify(t.Context(), root, key)
	require.NoError(t, err)
	assert.Equal(t, &Verification{Files: len(files), Bytes: v.Bytes, Damages: []Damage{}, Notes: []string{}}, v)
	for _, path := range files {
		good, err := os.ReadFile(path)
		require.NoError(t, err)
		stride := 1
		if strings.HasSuffix(path, ".arrow") {
			stride = 37
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		put := func(k int, b byte) {
			_, err := f.WriteAt([]byte{b}, int64(k))
			require.NoError(t, err)
		}
		for k := 0; k < len(good); k += stride {
			put(k, good[k]^1<<(k%8))
			checkDamage(t, root, key, path, k)
			put(k, good[k])
		}
		require.NoError(t, f.Close())
		for _, bad := range [][]byte{{}, good[:1], good[:len(good)/2], good[:len(good)-1], append(bytes.Clone(good), 0), append(bytes.Clone(good), '\n')} {
			require.NoError(t, os.WriteFile(path, bad, 0o666))
			checkDamage(t, root, key, path, 0)
		}
		require.NoError(t, os.Remove(path))
		v, err := Verify(t.Context(), root, key)
		require.NoError(t, err)
		require.True(t, damaged(v, path), path)
		c, err := Open(root, key)
		require.Nil(t, c)
		require.ErrorContains(t, err, filepath.Dir(path))
		require.NoError(t, os.WriteFile(path, good, 0o666))
	}
	v, err = Verify(t.Context(), root, key)
	require.NoError(t, err)
	assert.Empty(t, v.Damages)
}

// A manifest that is sound by itself but not the one that the dataset names is damage: content under another's name.
func TestVerifyFindsAnotherManifest(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	m, err := readManifest(root, DatasetKind, key, "")
	require.NoError(t, err)
	path := filepath.Join(root, ArenasKind, m.Parts[ArenasKind].Key, manifest.FileName)
	part, err := manifest.Read(filepath.Dir(path))
	require.NoError(t, err)
	part.Facts = []byte(`{"tokens":40}`)
	data, err := part.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o666))
	checkDamage(t, root, key, path, 0)
}

func TestVerifyNotesWhatIsHarmless(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	dir := DatasetPath(root, key)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stray"), nil, 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifest.ProvenanceName), []byte("{"), 0o666))
	v, err := Verify(t.Context(), root, key)
	require.NoError(t, err)
	assert.Empty(t, v.Damages)
	require.Len(t, v.Notes, 2)
	assert.Contains(t, v.Notes[0], manifest.ProvenanceName)
	assert.Contains(t, v.Notes[1], "stray")
}

func TestVerifyStopsWithItsContext(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Verify(ctx, root, key)
	assert.ErrorIs(t, err, ctx.Err())
}

func TestVerifyOfNothing(t *testing.T) {
	v, err := Verify(t.Context(), t.TempDir(), "0123456789")
	require.NoError(t, err)
	assert.Len(t, v.Damages, 1)
}
