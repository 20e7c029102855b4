package mmapcache

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
)

// walk reads all that a player reads.
func walk(c *Cache) error {
	for i := range c.Traces() {
		for _, form := range []Encoding{Text, IDs} {
			tree, err := c.Render(i, form)
			if err != nil {
				return err
			}
			err = c.Guard(func() error {
				var p Prompt
				for turn := range tree.Turns {
					tree.Prompt(turn, &p)
					for k := range p.Messages {
						p.AppendContent(nil, k)
						p.AppendTokenIDs(nil, k)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Cutting a mapped file gives an error that names it, and does not kill the process.
//
// Covers F23.
func TestFileCutWhileInUse(t *testing.T) {
	spared := func(name string) bool { // it is read when the cache is opened
		return name == splitsFile || name == illFormedFile || filepath.Ext(name) == ".arrow"
	}
	y := plainToy(40)
	root := t.TempDir()
	key := y.build(t, root, "")
	for _, path := range filesOf(t, root, key) {
		if filepath.Base(path) == manifest.FileName {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			good, err := os.ReadFile(path)
			require.NoError(t, err)
			c := open(t, root, key)
			require.NoError(t, walk(c))
			require.NoError(t, os.Truncate(path, 0))
			err = walk(c)
			require.NoError(t, os.WriteFile(path, good, 0o666))
			if spared(filepath.Base(path)) {
				assert.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, manifest.ErrDamaged)
			assert.True(t, strings.HasPrefix(err.Error(), path+": "), err)
		})
	}
}

func TestGuardPassesOtherPanicsOn(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	c := open(t, root, y.build(t, root, ""))
	assert.PanicsWithValue(t, "mine", func() { _ = c.Guard(func() error { panic("mine") }) })
	var nowhere *RenderedTrace
	assert.Panics(t, func() { _ = c.Guard(func() error { _ = nowhere.Turns; return nil }) })
}
