package mmapcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
)

// manyToys is a toy of n traces that share no blocks.
func manyToys(n int) *toy {
	y := plainToy(40)
	plan, starts := y.plans[0], y.starts[0]
	y.plans, y.starts = nil, nil
	for k := range n {
		p := *plan
		p.Trace.ID = fmt.Sprint("trace ", k)
		p.Runs = []BlockRun{{Scope: p.Trace.ID, ID: 1, Count: 3}}
		y.plans, y.starts = append(y.plans, &p), append(y.starts, starts)
	}
	return y
}

// flip changes a byte in the middle of a file.
func flip(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 0x55
	require.NoError(t, os.WriteFile(path, data, 0o666))
}

// watched is a disk that notes which files are opened.
func watched() (disk, func(name string) int) {
	d := realDisk()
	var mu sync.Mutex
	opened := map[string]int{}
	d.Open = func(path string) (fs.File, int64, error) {
		mu.Lock()
		defer mu.Unlock()
		opened[filepath.Base(path)]++
		return manifest.Open(path)
	}
	return d, func(name string) int {
		mu.Lock()
		defer mu.Unlock()
		return opened[name]
	}
}

// Open reads no table. A shard is opened once, by whichever of several goroutines asks first.
func TestShardsOpenWhenTaken(t *testing.T) {
	y, root := manyToys(9), t.TempDir()
	key := y.buildShards(t, root, "", []int{2, 4, 4, 9})
	d, opened := watched()
	c, err := d.openDataset(root, key)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, []int{0, 0, 1 + 4*2 + 1}, []int{opened("traces.arrow"), opened(placementFile), opened(manifest.FileName)})
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for _, i := range []int{3, 8, 2} {
				tree, err := c.Render(i, IDs)
				if assert.NoError(t, err) {
					assert.Equal(t, fmt.Sprint("trace ", i), tree.Trace.ID)
				}
			}
		})
	}
	readers.Wait()
	require.Equal(t, []int{2, 2}, []int{opened("traces.arrow"), opened(placementFile)})

	seen := 0
	require.NoError(t, c.EachShard(func(first int, s *Structure) error {
		require.Equal(t, seen, first)
		seen += s.Traces.Len()
		return nil
	}))
	require.Equal(t, 9, seen)
	var inMemory []bool
	for _, s := range c.shards {
		inMemory = append(inMemory, s.tables.Load() != nil)
	}
	require.Equal(t, []bool{false, true, false, true}, inMemory, "a pass keeps what a lane has taken, and nothing else")
	require.Equal(t, 4, opened("traces.arrow"))

	tree, err := c.Render(0, IDs) // its tables are read again, its starts are still mapped
	require.NoError(t, err)
	require.NoError(t, c.EachShard(func(int, *Structure) error { return fs.SkipAll }))
	require.Equal(t, []int{5, 4}, []int{opened("traces.arrow"), opened(placementFile)})
	c.shards[0].drop()
	var p Prompt
	tree.Prompt(1, &p)
	require.NotEmpty(t, p.AppendTokenIDs(nil, 0), "a trace outlives the tables")

	require.NoError(t, c.Prefault(t.Context(), nil))
	for _, s := range c.shards {
		require.NotNil(t, s.tables.Load())
	}
	stopped := errors.New("stopped")
	require.Equal(t, stopped, c.EachShard(func(int, *Structure) error { return stopped }))
}

// Damage of a shard is an error of what needs it, with the name of the file, and stays one. What is wrong with a manifest or the
// size of a file is one of Open.
func TestDamagedShard(t *testing.T) {
	y, root := manyToys(6), t.TempDir()
	key := y.buildShards(t, root, "", []int{2, 4, 6})
	turns := shardFile(t, root, key, StructureKind, 1, "turns.arrow")
	good, err := os.ReadFile(turns)
	require.NoError(t, err)
	flip(t, turns)
	c := open(t, root, key)
	for range 2 {
		for _, i := range []int{0, 1, 4, 5} {
			_, err := c.Render(i, Text)
			require.NoError(t, err)
		}
		for what, use := range map[string]func() error{
			"plan":           func() error { _, err := c.Plan(2); return err },
			"trace":          func() error { _, err := c.Trace(3); return err },
			"render":         func() error { _, err := c.Render(2, IDs); return err },
			"digest":         func() error { _, err := c.Digest(2, "-"); return err },
			"recorded start": func() error { _, _, err := c.RecordedStart(2); return err },
			"first session":  func() error { _, err := c.FirstSession(2); return err },
			"windows":        func() error { _, err := c.AppendWindows(nil, 2, y.plans[2], 0); return err },
			"pass":           func() error { return c.EachShard(func(int, *Structure) error { return nil }) },
			"rates":          func() error { _, _, err := c.HitRates(); return err },
			"sharing":        func() error { _, err := c.Sharing(); return err },
			"reuse":          func() error { _, err := c.Reuse(MarkerPlace{}); return err },
			"prefault":       func() error { return c.Prefault(t.Context(), nil) },
			"text": func() error {
				return c.WriteText(context.Background(), &bytes.Buffer{}, Selection{}, false)
			},
		} {
			err := use()
			require.ErrorIs(t, err, ErrDamaged, what)
			require.ErrorContains(t, err, turns+": ", what)
		}
		require.NoError(t, os.WriteFile(turns, good, 0o666)) // too late for this cache
	}
	_, err = open(t, root, key).Plan(2)
	require.NoError(t, err)

	for _, kind := range []string{StructureKind, PlacementKind} {
		for _, name := range append(contents[kind], manifest.FileName) {
			path := shardFile(t, root, key, kind, 2, name)
			good, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, bad := range [][]byte{nil, good[:len(good)-1], append(bytes.Clone(good), 0)} {
				require.NoError(t, os.RemoveAll(path))
				if bad != nil {
					require.NoError(t, os.WriteFile(path, bad, 0o666))
				}
				_, err = Open(root, key)
				require.ErrorContains(t, err, filepath.Dir(path))
				require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, fs.ErrNotExist), err)
				c, err := OpenTables(root, key)
				require.Equal(t, kind == PlacementKind, err == nil, "it does not need the starts")
				if err == nil {
					require.NoError(t, c.Close())
				}
			}
			require.NoError(t, os.WriteFile(path, good, 0o666))
		}
	}
}

// What the disk could not do for once is not remembered as damage.
func TestShardIsTakenAgainAfterAnError(t *testing.T) {
	y, root := manyToys(4), t.TempDir()
	key := y.buildShards(t, root, "", []int{2, 4})
	d := realDisk()
	var full atomic.Bool
	d.Open = func(path string) (fs.File, int64, error) {
		if full.Load() {
			return nil, 0, &fs.PathError{Op: "open", Path: path, Err: syscall.EMFILE}
		}
		return manifest.Open(path)
	}
	c, err := d.openDataset(root, key)
	require.NoError(t, err)
	defer c.Close()
	full.Store(true)
	_, err = c.Plan(3)
	require.ErrorIs(t, err, syscall.EMFILE)
	full.Store(false)
	_, err = c.Plan(3)
	require.NoError(t, err)
}

// Shards with valid digests that are not what the dataset says are refused: of other counts, or with traces that share blocks.
func TestShardsThatDoNotFitAreRefused(t *testing.T) {
	for what, spoil := range map[string]func(*toy, *StructureFacts){
		"the dataset KEY says 1, 1, 3, 3":        func(_ *toy, own *StructureFacts) { own.Turns++ },
		`trace 0 "trace 0" has the scope global`: func(y *toy, _ *StructureFacts) { y.plans[0].Trace.Scope = "global" },
		"5 starts for 10 blocks and turns":       func(y *toy, _ *StructureFacts) { y.plans = append(y.plans, y.plans[0]) },
	} {
		y, root := manyToys(1), t.TempDir()
		starts := y.part(t, root, PlacementKind, "", func(b *Builder) error { return y.writeStarts(t, b) })
		spoil(y, new(StructureFacts))
		structure := y.buildStructure(t, root, "")
		own, err := StructureFactsOf(structure)
		require.NoError(t, err)
		spoil(manyToys(1), &own)
		var facts DatasetFacts
		facts.addShard(structure, starts, own)
		key := publishShards(t, root, "", facts, y.buildArenas(t, root, ""))
		c := open(t, root, key)
		_, err = c.Plan(0)
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, strings.Replace(what, "KEY", key, 1))
		v, err := Verify(t.Context(), root, key)
		require.NoError(t, err)
		require.Len(t, v.Damages, 1)
	}
}

// Verify names the damage of every shard, and goes on after it.
func TestVerifyGoesOnAfterDamage(t *testing.T) {
	y, root := manyToys(8), t.TempDir()
	key := y.buildShards(t, root, "", []int{2, 4, 6, 8})
	whole, err := Verify(t.Context(), root, key)
	require.NoError(t, err)
	require.Empty(t, whole.Damages)
	flip(t, shardFile(t, root, key, StructureKind, 0, "turns.arrow"))
	flip(t, shardFile(t, root, key, PlacementKind, 1, placementFile))
	require.NoError(t, os.Remove(shardFile(t, root, key, StructureKind, 3, "traces.arrow")))
	d, opened := watched()
	v, err := hasty(d).verifyDirectory(t.Context(), root, DatasetKind, key)
	require.NoError(t, err)
	var names []string
	for _, x := range v.Damages {
		names = append(names, x.File)
	}
	require.Equal(t, []string{
		shardFile(t, root, key, StructureKind, 0, "turns.arrow"), shardFile(t, root, key, PlacementKind, 1, placementFile),
		shardFile(t, root, key, StructureKind, 3, "traces.arrow"),
	}, names)
	require.Equal(t, whole.Files, v.Files)
	require.Equal(t, 4+1, opened("sessions.arrow"), "what is good is not read again while Verify waits for what is missing")
}
