package convert

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// tinyCache converts one trace with a corpus of a few hundred ids, which gives less than 32 KB. It returns the root, the key,
// and every file that has a digest, manifests included, by its path in the root.
func tinyCache(t *testing.T) (root, key string, files map[string][]byte) {
	o := options(t, lines(t, traceText("a")))
	r := o.convert(t)
	info, err := cachestore.Describe(o.Root, r.Key)
	require.NoError(t, err)
	files = map[string][]byte{}
	total := 0
	for _, d := range info.Directories {
		for _, name := range append([]string{manifest.FileName}, namesOf(d.Manifest.Files)...) {
			data, err := os.ReadFile(filepath.Join(d.Path, name))
			require.NoError(t, err)
			path, err := filepath.Rel(o.Root, filepath.Join(d.Path, name))
			require.NoError(t, err)
			files[path] = data
			total += len(data)
		}
	}
	require.Less(t, total, 32<<10)
	return o.Root, r.Key, files
}

func namesOf(files []manifest.File) (names []string) {
	for _, f := range files {
		names = append(names, f.Name)
	}
	return names
}

// checkEveryDamage flips bits and cuts files of a tiny cache, one damage at a time, and checks that Verify finds each. It does
// every stride-th damage, and returns how many.
func checkEveryDamage(t *testing.T, stride int) (done int) {
	root, key, files := tinyCache(t)
	v, err := mmapcache.Verify(t.Context(), root, key)
	require.NoError(t, err)
	require.Empty(t, v.Damages)
	paths := make(chan string)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		mine := filepath.Join(t.TempDir(), "root") // each works on a copy
		require.NoError(t, os.CopyFS(mine, os.DirFS(root)))
		wg.Go(func() {
			for path := range paths {
				n := damageFile(t, mine, key, path, files[path], stride)
				mu.Lock()
				done += n
				mu.Unlock()
			}
		})
	}
	names := []string{}
	for path := range files {
		names = append(names, path)
	}
	slices.SortFunc(names, func(a, b string) int { return len(files[b]) - len(files[a]) }) // the largest first
	for _, path := range names {
		paths <- path
	}
	close(paths)
	wg.Wait()
	return done
}

func damageFile(t *testing.T, root, key, path string, good []byte, stride int) (done int) {
	full := filepath.Join(root, path)
	found := func(what string, k int) bool {
		done++
		v, err := mmapcache.Verify(t.Context(), root, key)
		return assert.NoError(t, err) && assert.True(t, slices.ContainsFunc(v.Damages, func(d mmapcache.Damage) bool { return d.File == full }),
			"%s: %s %d is not found: %+v", path, what, k, v.Damages)
	}
	bad := bytes.Clone(good)
	for k := 0; k < 8*len(good); k += stride {
		bad[k/8] ^= 1 << (k % 8)
		if !assert.NoError(t, os.WriteFile(full, bad, 0o666)) || !found("flip of bit", k) {
			return done
		}
		bad[k/8] = good[k/8]
	}
	for n := 0; n < len(good); n += stride {
		if !assert.NoError(t, os.WriteFile(full, good[:n], 0o666)) || !found("cut at", n) {
			return done
		}
	}
	assert.NoError(t, os.WriteFile(full, append(bad, 0), 0o666))
	found("a byte more than", len(good))
	assert.NoError(t, os.WriteFile(full, good, 0o666))
	return done
}

// Verify finds damage everywhere. The stride is coprime to the 8 bits of a byte and to every width of a column.
func TestDamageEverywhereIsFound(t *testing.T) {
	seconds(t)
	assert.Greater(t, checkEveryDamage(t, 97), 1000)
}

// Verify finds every flipped bit and every truncation.
func TestLongEveryBitAndEveryTruncation(t *testing.T) {
	long(t)
	n := checkEveryDamage(t, 1)
	t.Logf("%d damages, each found and named", n)
	assert.Greater(t, n, 100_000)
}

// checkHostileTables changes numbers in the tables of a tiny cache and corrects the digests. Whatever a table then claims,
// opening it takes no more memory than opening the original, and ten times the file.
func checkHostileTables(t *testing.T, mutations int) (refused int) {
	root, key, files := tinyCache(t)
	dataset, err := manifest.Read(mmapcache.DatasetPath(root, key))
	require.NoError(t, err)
	dir := filepath.Join(root, mmapcache.StructureKind, dataset.Parts[mmapcache.StructureKind].Key)
	structure, err := manifest.Read(dir)
	require.NoError(t, err)
	open := func() (bytes uint64, err error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := mmapcache.Open(root, key)
		if err == nil {
			for i := 0; err == nil && i < c.Structure.Traces.Len(); i++ {
				_, err = c.Render(i, mmapcache.Text)
			}
			require.NoError(t, c.Close())
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc, err
	}
	usual, err := open()
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(23, 1))
	for k := range mutations {
		f := &structure.Files[k%len(structure.Files)]
		path, good := filepath.Join(dir, f.Name), *f
		whole := files[filepath.Join(mmapcache.StructureKind, structure.Key, f.Name)]
		bad := bytes.Clone(whole)
		at := random.IntN(len(bad)/2-4) * 2
		number := binary.LittleEndian.Uint32(bad[at:])
		number = [...]uint32{math.MaxUint32, math.MaxInt32, 0, 1 << 28, number + 1, number - 1, number << 8, random.Uint32()}[random.IntN(8)]
		binary.LittleEndian.PutUint32(bad[at:], number)
		require.NoError(t, os.WriteFile(path, bad, 0o666))
		f.SHA256 = manifest.Sum(bad)
		seal(t, dir, structure)
		dataset.Parts[mmapcache.StructureKind] = manifest.Part{Key: structure.Key, Digest: structure.Digest}
		seal(t, mmapcache.DatasetPath(root, key), dataset)
		took, err := open()
		what := fmt.Sprintf("%s: %d at %d", f.Name, number, at)
		require.LessOrEqual(t, took, usual+10*uint64(len(whole)), what)
		if err != nil {
			refused++
			require.ErrorIs(t, err, manifest.ErrDamaged, what)
			require.ErrorContains(t, err, dir, what)
		}
		require.NoError(t, os.WriteFile(path, whole, 0o666))
		*f = good
	}
	return refused
}

func TestHostileTables(t *testing.T) {
	assert.Greater(t, checkHostileTables(t, 300), 100)
}

func TestLongHostileTables(t *testing.T) {
	long(t)
	n := checkHostileTables(t, 10_000)
	t.Logf("%d of 10,000 refused, the others say something else", n)
	assert.Greater(t, n, 3000)
}
