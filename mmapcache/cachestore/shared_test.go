package cachestore

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// What internal/durable takes away first is what makes a directory count.
func TestTheManifestIsTheSeal(t *testing.T) { assert.Equal(t, manifest.FileName, durable.Seal) }

// What another user alone may remove stays: gc says whose it is and goes on, rm and repair fail with the owner.
//
// Covers F29.
func TestDirectoriesOfAnotherUserStay(t *testing.T) {
	root := t.TempDir()
	y := plainToy(40)
	theirs, mine := y.build(t, root, "theirs"), y.build(t, root, "mine")
	part := mmapcache.Reference{Kind: mmapcache.StructureKind, Part: manifest.Part{Key: keyOf(t, mmapcache.StructureKind, "theirs")}}
	require.NoError(t, os.Truncate(filepath.Join(root, part.Name(), "turns.arrow"), 5))
	ctx := withSteps(t, func(name, path string) error {
		if at, err := filepath.Rel(root, path); name == "remove" && err == nil && (at == mmapcache.DatasetKind+"/"+theirs || at == part.Name()) {
			return &durable.ForeignError{Path: path, Owner: "user alice"}
		}
		return nil
	})
	var foreign *durable.ForeignError
	_, err := Remove(ctx, root, theirs, RemoveOptions{})
	require.ErrorAs(t, err, &foreign)
	assert.ErrorContains(t, err, "belongs to user alice, who alone may remove it")

	r, err := removeDamaged(ctx, root, []mmapcache.Reference{part}, RemoveOptions{})
	require.ErrorAs(t, err, &foreign)
	require.Len(t, r.Kept, 1)

	r = gcUnder(ctx, t, root, time.Now().Add(48*time.Hour), GCOptions{MaxAge: time.Hour})
	require.Len(t, r.Kept, 1)
	assert.Equal(t, KeptDirectory{mmapcache.DatasetPath(root, theirs), "it belongs to user alice, who alone may remove it"}, r.Kept[0])
	assert.False(t, exists(root, mmapcache.DatasetKind, mine))
	assert.True(t, exists(root, part.Kind, part.Key))
}

// A last use in the future, or a directory made there, counts as now, and is recorded so: it is neither kept for years nor taken for used
// meanwhile.
//
// Covers F18.
func TestALastUseInTheFutureIsNow(t *testing.T) {
	root := t.TempDir()
	key, made := plainToy(40).build(t, root, ""), plainToy(40).build(t, root, "made")
	Touch(root, key)
	now := time.Now()
	late := now.AddDate(30, 0, 0)
	require.NoError(t, os.Chtimes(usePath(root, key, usedSuffix), late, late))
	ageDirectory(t, root, mmapcache.DatasetKind, made, late)
	keep, none := time.Hour, int64(0)
	gc(t, root, now, GCOptions{DryRun: true})
	assert.Equal(t, late.Unix(), lastUse(root, key).Unix())
	r := gc(t, root, now, GCOptions{MaxBytes: &none, Keep: &keep})
	require.NotEmpty(t, r.Kept)
	assert.Equal(t, "used 0s ago, less than 1h", r.Kept[0].Why)
	for _, key := range []string{key, made} {
		assert.Less(t, lastUse(root, key).Year(), late.Year())
	}
	r = gc(t, root, now, GCOptions{MaxBytes: &none})
	assert.Empty(t, r.Kept)
	assert.False(t, exists(root, mmapcache.DatasetKind, key) || exists(root, mmapcache.DatasetKind, made))
}

// RemoveUnnamed removes new parts that no dataset names, and keeps what one names or a process uses.
func TestRemoveUnnamed(t *testing.T) {
	root := t.TempDir()
	y := plainToy(40)
	key := y.build(t, root, "named")
	var list []mmapcache.Reference
	for _, salt := range []string{"named", "used", "new"} {
		m := y.buildStructure(t, root, salt)
		list = append(list, mmapcache.Reference{Kind: m.Kind, Part: manifest.Part{Key: m.Key}})
	}
	defer NoteUse(contextOf(t), root, list[1].Name()).Close()
	r, err := RemoveUnnamed(t.Context(), root, list, RemoveOptions{})
	require.NoError(t, err)
	require.Len(t, r.Removed, 1)
	assert.Equal(t, filepath.Join(root, list[2].Name()), r.Removed[0].Path)
	assert.Len(t, r.Kept, 2)
	whole(t, root, key)
}
