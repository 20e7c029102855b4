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

// A root of many datasets is not listed for every look at a directory: in a dry run it is listed as often as one of few, and otherwise
// once more for each part that is removed.
func TestGCListsDatasetsOnceForAPart(t *testing.T) {
	for _, n := range []int{5, 20} {
		root := t.TempDir()
		buildApart(t, root, n)
		listed, r := gcCounting(t, root, true)
		require.Len(t, r.Removed, 4*n)
		require.Equal(t, 1, listed)
		listed, r = gcCounting(t, root, false)
		require.Len(t, r.Removed, 4*n)
		require.Equal(t, 1+3*n, listed)
	}
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
