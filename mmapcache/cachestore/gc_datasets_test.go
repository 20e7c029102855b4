package cachestore

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache"
)

// buildApart builds n datasets that share nothing.
func buildApart(t testing.TB, root string, n int) {
	y := plainToy(40)
	for k := range n {
		y.build(t, root, fmt.Sprint(k))
	}
}

// gcCounting frees all datasets of a root and returns how often it listed them.
func gcCounting(t testing.TB, root string, dryRun bool) (listed int, r *GCReport) {
	c := newCollector(root, dryRun)
	c.now = time.Now()
	c.disk.ReadDir = func(dir string) ([]fs.DirEntry, error) {
		if dir == filepath.Join(root, mmapcache.DatasetKind) {
			listed++
		}
		return os.ReadDir(dir)
	}
	require.NoError(t, c.collect(withoutSync(t), GCOptions{MaxBytes: new(int64(0)), Keep: new(time.Duration(0))}))
	return listed, c.report
}

// How often GC lists datasets, and reads the notes of use with them, does not grow with what it removes: once to begin with, once for all
// datasets that go and once for all their parts.
func TestGCListsOnceForAllThatGoes(t *testing.T) {
	for _, n := range []int{5, 20} {
		root := t.TempDir()
		buildApart(t, root, n)
		listed, r := gcCounting(t, root, true)
		require.Len(t, r.Removed, 4*n)
		require.Equal(t, 1, listed)
		listed, r = gcCounting(t, root, false)
		require.Len(t, r.Removed, 4*n)
		require.Equal(t, 3, listed)
	}
}

// More than one look decides about goes in several, and no more goes than the limit of bytes asks for.
func TestGCInBatches(t *testing.T) {
	root := t.TempDir()
	buildApart(t, root, 6)
	c := newCollector(root, false)
	c.now, c.most = time.Now(), 2
	require.NoError(t, c.collect(withoutSync(t), GCOptions{MaxBytes: new(totalOf(t, root)/6 + 1), Keep: new(time.Duration(0))}))
	require.Len(t, c.report.Removed, 4*5)
	require.Len(t, keysOf(t, root), 4)
}

// A dataset that comes into use when many are marked stays, and the next ones go in its place.
func TestGCFreesOthersForWhatStays(t *testing.T) {
	root := t.TempDir()
	buildApart(t, root, 6)
	keys, err := realDisk().keysOf(root, mmapcache.DatasetKind)
	require.NoError(t, err)
	first := keys[3]
	now := time.Now()
	dateUse(t, root, first, now.Add(-time.Hour))
	most := totalOf(t, root) / 2
	ctx := onceMarked(t, func() { justNote(t, root, mmapcache.DatasetKind+"/"+first) })
	r := gcUnder(ctx, t, root, now, GCOptions{MaxBytes: &most})
	require.Len(t, r.Kept, 1)
	require.Len(t, r.Removed, 12)
	require.LessOrEqual(t, r.BytesAfter, most)
	whole(t, root, first)
}

// BenchmarkGCOfDatasets frees the datasets of a root with 200 and with 800 of them.
func BenchmarkGCOfDatasets(b *testing.B) {
	for _, dryRun := range []bool{true, false} {
		for _, n := range []int{200, 800} {
			b.Run(fmt.Sprintf("dry=%t/%d", dryRun, n), func(b *testing.B) {
				spent := time.Duration(0)
				for range b.N {
					root := b.TempDir()
					buildApart(b, root, n)
					begin := time.Now()
					gcCounting(b, root, dryRun)
					spent += time.Since(begin)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(spent.Microseconds())/float64(b.N*4*n), "µs/directory")
			})
		}
	}
}
