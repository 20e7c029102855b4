package cachestore

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// startsFile is the file in a directory of starts.
const startsFile = "starts.bin"

// A dataset that another process removes, and perhaps makes again, while it is opened or copied is whole, gone, or reported
// as changing; never as damaged.
func TestDatasetsRemovedWhileReadAreNotDamaged(t *testing.T) {
	const again = 3
	for name, read := range map[string]func(d disk, root, key string) error{
		"open": func(d disk, root, key string) error {
			c, err := d.openDataset(contextOf(t), root, key, d.opener)
			if err == nil {
				err = c.Close()
			}
			return err
		},
		"copy": func(d disk, root, key string) error {
			_, err := d.copy(withoutSync(t), root, filepath.Join(t.TempDir(), "to"), key, CopyOptions{})
			return err
		},
	} {
		for outcome, made := range map[string]int{"gone": 0, "whole": again, "comes and goes": math.MaxInt} {
			t.Run(name+" "+outcome, func(t *testing.T) {
				root := t.TempDir()
				key := plainToy(40).build(t, root, "")
				part := filepath.Join(root, mmapcache.PlacementKind, partKey(t, root, key, mmapcache.PlacementKind))
				times := 0
				d := hasty(realDisk())
				d.Open = func(path string) (fs.File, int64, error) {
					if path == filepath.Join(part, startsFile) && times < max(made, 1) {
						times++
						dataset := mmapcache.DatasetPath(root, key)
						if made == 0 {
							require.NoError(t, os.RemoveAll(dataset))
							require.NoError(t, os.RemoveAll(part))
						} else { // another one of that name
							require.NoError(t, os.Chtimes(dataset, time.Time{}, time.Now().Add(time.Duration(times)*time.Second)))
							return nil, 0, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
						}
					}
					return manifest.Open(path)
				}
				err := read(d, root, key)
				switch outcome {
				case "gone":
					assert.ErrorIs(t, err, mmapcache.ErrNoCache)
				case "whole":
					assert.NoError(t, err)
				default:
					assert.ErrorContains(t, err, outcome)
				}
				if err != nil {
					assert.NotContains(t, err.Error(), "damaged")
				}
			})
		}
	}
}

// Open waits for a dataset that is being replaced, and notes it with its parts.
func TestOpenWaitsForReplacedDatasets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, away := t.TempDir(), filepath.Join(t.TempDir(), "away")
		key := plainToy(40).build(t, root, "")
		for _, name := range []string{mmapcache.DatasetKind + "/" + key, mmapcache.PlacementKind + "/" + partKey(t, root, key, mmapcache.PlacementKind)} {
			require.NoError(t, os.Rename(filepath.Join(root, name), away))
			back := time.AfterFunc(200*time.Millisecond, func() { assert.NoError(t, os.Rename(away, filepath.Join(root, name))) })
			c, err := Open(contextOf(t), root, key)
			require.NoError(t, err)
			assert.Len(t, usersOf(t, root), 4)
			require.NoError(t, c.Close())
			assert.Empty(t, usersOf(t, root))
			back.Stop()
		}
		begin := time.Now()
		_, err := Open(contextOf(t), root, strings.Repeat("0", 64))
		assert.ErrorIs(t, err, mmapcache.ErrNoCache)
		assert.Less(t, time.Since(begin), 2*time.Second)
		assert.Empty(t, usersOf(t, root))

		begin = time.Now()
		require.NoError(t, os.Truncate(filepath.Join(mmapcache.DatasetPath(root, key), manifest.FileName), 5))
		_, err = Open(contextOf(t), root, key)
		assert.ErrorIs(t, err, manifest.ErrDamaged)
		assert.Zero(t, time.Since(begin), "what is damaged is not waited for")
	})
}

// opener opens a dataset once the disk has shown the manifest and the table of its starts.
func (d disk) opener(root, key string) (*mmapcache.Cache, error) {
	dataset, err := d.readManifest(root, mmapcache.DatasetKind, key, "")
	if err != nil {
		return nil, err
	}
	m, err := d.readManifest(root, mmapcache.PlacementKind, dataset.Parts[mmapcache.PlacementKind].Key, "")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(root, m.Kind, m.Key, startsFile)
	f, _, err := d.Disk.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, manifest.ErrDamaged, cachedir.ErrMissing)
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return mmapcache.Open(root, key)
}

// Open notes a dataset once more, with its parts, if it came back between the note and the opening, or if a file of it was
// missing at that moment.
func TestOpenNotesWhatItOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		key := plainToy(40).build(t, root, "")
		for missed, times := range map[string]int{
			filepath.Join(mmapcache.DatasetPath(root, key), manifest.FileName):                                              2, // which is listed, so it is read twice
			filepath.Join(root, mmapcache.PlacementKind, partKey(t, root, key, mmapcache.PlacementKind), startsFile):        1,
			filepath.Join(root, mmapcache.PlacementKind, partKey(t, root, key, mmapcache.PlacementKind), manifest.FileName): 2,
		} {
			d, misses := realDisk(), 0
			d.Disk.Open = func(path string) (fs.File, int64, error) {
				if path == missed && misses < times {
					misses++
					return nil, 0, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
				}
				return manifest.Open(path)
			}
			c, err := d.openDataset(contextOf(t), root, key, d.opener)
			require.NoError(t, err, missed)
			assert.Len(t, usersOf(t, root), 4, missed)
			require.NoError(t, c.Close())
		}
	})
}
