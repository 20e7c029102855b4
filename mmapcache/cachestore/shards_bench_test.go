package cachestore

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// buildMany builds three datasets of n shards each, of which every two share half. Their parts have no files.
func buildMany(b *testing.B, root string, n int) (key string) {
	y := plainToy(40)
	empty := func(kind, salt string) *manifest.Manifest {
		return y.part(b, root, kind, salt, func(*mmapcache.Builder) error { return nil })
	}
	for d := range 3 {
		var parts []*manifest.Manifest
		for k := range n {
			salt := fmt.Sprint(d*n/2 + k)
			parts = append(parts, empty(mmapcache.StructureKind, salt), empty(mmapcache.PlacementKind, salt))
		}
		key = y.nameShards(b, root, empty(mmapcache.ArenasKind, ""), parts...)
	}
	return key
}

// BenchmarkGC frees 3 datasets of 100 shards and of 1,000, beside a process that uses as many: what a directory takes must be
// the same.
func BenchmarkGC(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			removed, spent := 0, time.Duration(0)
			for range b.N {
				root := b.TempDir()
				buildMany(b, root, n)
				used := make([]string, 2*n)
				for k := range used {
					used[k] = fmt.Sprintf("starts/%064x", k)
				}
				note := NoteUse(b.Context(), root, used...)
				begin := time.Now()
				r, err := GC(withoutSync(b), root, GCOptions{MaxBytes: new(int64(0)), Keep: new(time.Duration(0))})
				spent += time.Since(begin)
				require.NoError(b, err)
				removed += len(r.Removed)
				note.Close()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(spent.Microseconds())/float64(removed), "µs/directory")
		})
	}
}

// BenchmarkCopyOfShards copies a dataset of 100 shards, synced to disk, one at a time and several at once.
func BenchmarkCopyOfShards(b *testing.B) {
	from := b.TempDir()
	var salts []string
	for k := range 100 {
		salts = append(salts, fmt.Sprint(k))
	}
	key := plainToy(40).buildShards(b, from, salts...)
	spent := map[int]time.Duration{}
	for b.Loop() {
		for _, workers := range []int{1, partsAtOnce} {
			begin := time.Now()
			_, err := Copy(b.Context(), from, b.TempDir(), key, CopyOptions{Workers: workers})
			require.NoError(b, err)
			spent[workers] += time.Since(begin)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(spent[1].Seconds()/spent[partsAtOnce].Seconds(), "times-as-fast")
}
