package cachestore

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachedir/faultdisk"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// startsFile is the file of a directory of starts.
const startsFile = "starts.bin"

// A dataset that another process removes, and perhaps makes again, while it is opened or copied is not damaged: it is
// whole, or gone, or comes and goes.
func TestWhatIsRemovedMeanwhileIsNotDamaged(t *testing.T) {
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

// A dataset that another host has published a moment ago is found, although this one remembers that it was missing.
func TestFindSeesWhatWasRememberedAsMissing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "root")
	key := plainToy(40).build(t, root, "")
	var ways []string
	for path := mmapcache.DatasetPath(root, key); path != filepath.Dir(filepath.Dir(root)); path = filepath.Dir(path) {
		ways = append(ways, path)
	}
	for _, missing := range append([][]string{ways}, singles(ways)...) {
		for _, name := range []string{key, key[:minPrefix], mmapcache.DatasetPath(root, key)} {
			c := &faultdisk.Client{Missing: map[string]bool{}}
			for _, path := range missing {
				c.Missing[path] = true
			}
			_, found, err := disk{c.Disk()}.findDataset(root, name)
			require.NoError(t, err, "%s", missing)
			require.Equal(t, key, found)
		}
	}
}

func singles(list []string) (sets [][]string) {
	for _, s := range list {
		sets = append(sets, []string{s})
	}
	return sets
}
