package cachestore

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// overlay mounts an overlay whose lower layer is what make leaves in a directory, and returns the root in it.
func overlay(t *testing.T, make func(lower string)) string {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("nothing can be mounted here (%v): run it as root", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		require.NoError(t, os.Mkdir(filepath.Join(disk, name), 0o755))
	}
	make(filepath.Join(disk, "lower"))
	merged := filepath.Join(disk, "merged")
	options := "redirect_dir=off,lowerdir=" + disk + "/lower,upperdir=" + disk + "/upper,workdir=" + disk + "/work"
	if err := syscall.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Skipf("no overlay can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(merged, syscall.MNT_DETACH) })
	return merged
}

// A cache that came with a container image lies in a lower layer, whose directories cannot be renamed: it is removed, repaired and
// replaced all the same, and so is what was left in its staging directory.
//
// Covers F30.
func TestCachesOfALowerLayer(t *testing.T) {
	y := plainToy(40)
	var first, second, third string
	turns := filepath.Join(mmapcache.StructureKind, keyOf(t, mmapcache.StructureKind, "b"), "turns.arrow")
	root := overlay(t, func(lower string) {
		first, second, third = y.build(t, lower, "a"), y.build(t, lower, "b"), y.build(t, lower, "c")
		require.NoError(t, os.Truncate(filepath.Join(lower, turns), 5))
		require.NoError(t, os.Mkdir(filepath.Join(lower, ".staging", killed(t)), 0o755))
	})
	dir := mmapcache.DatasetPath(root, third)
	require.ErrorIs(t, os.Rename(dir, dir+".away"), syscall.EXDEV, "the file system is what the test is about")

	r, err := Remove(t.Context(), root, first, RemoveOptions{})
	require.NoError(t, err)
	assert.Len(t, r.Removed, 4)
	assert.Empty(t, r.Kept)

	v, err := mmapcache.Verify(t.Context(), root, second)
	require.NoError(t, err)
	require.NotEmpty(t, v.Damages)
	damaged := []mmapcache.Reference{{Kind: mmapcache.StructureKind, Part: manifest.Part{Key: keyOf(t, mmapcache.StructureKind, "b")}}}
	r, err = removeDamaged(t.Context(), root, damaged, RemoveOptions{})
	require.NoError(t, err)
	assert.Len(t, r.Removed, 1)
	y.buildStructure(t, root, "b")
	whole(t, root, second)

	m, err := manifest.Read(dir)
	require.NoError(t, err)
	arenas := filepath.Join(root, mmapcache.ArenasKind, m.Parts[mmapcache.ArenasKind].Key, "text.json")
	require.NoError(t, os.Truncate(arenas, 5))
	y.buildArenas(t, root, "c") // replaces the damaged one
	whole(t, root, third)

	report := gc(t, root, time.Now().Add(48*time.Hour), GCOptions{MaxAge: time.Hour})
	assert.Len(t, report.Removed, 8)
	assert.Len(t, report.Swept, 1)
	for _, kind := range append(mmapcache.PartKinds(), mmapcache.DatasetKind, ".staging") {
		left, err := os.ReadDir(filepath.Join(root, kind))
		require.NoError(t, err)
		assert.Empty(t, left, kind)
	}
}
