package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// manyRows returns n small traces, one row each.
func manyRows(n int) (rows []string) {
	for k := range n {
		rows = append(rows, traceText(fmt.Sprintf("t%03d", k)))
	}
	return rows
}

// oneFileEach writes each row as a file of its own, and returns the directory.
func oneFileEach(t testing.TB, rows []string) string {
	dir := t.TempDir()
	for k, row := range rows {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.json", k)), []byte(row), 0o666))
	}
	return dir
}

// shardsOf returns what the manifest of a dataset says about its shards.
func shardsOf(t testing.TB, root string, r *Result) mmapcache.DatasetFacts {
	t.Helper()
	m, err := mmapcache.Lookup(root, mmapcache.DatasetKind, r.Key)
	require.NoError(t, err)
	require.True(t, mmapcache.HasShards(m))
	facts, err := mmapcache.DatasetFactsOf(m)
	require.NoError(t, err)
	return facts
}

// filesOfPart returns the files of a part as its manifest lists them.
func filesOfPart(t testing.TB, root, kind, key string) []manifest.File {
	t.Helper()
	m, err := mmapcache.Lookup(root, kind, key)
	require.NoError(t, err)
	require.NotNil(t, m)
	return m.Files
}

// contents returns the files of all shards, in order.
func contents(t testing.TB, root string, f mmapcache.DatasetFacts) (list [][]manifest.File) {
	for _, s := range f.Shards {
		list = append(list, filesOfPart(t, root, mmapcache.StructureKind, s.Structure.Key), filesOfPart(t, root, mmapcache.PlacementKind, s.Starts.Key))
	}
	return list
}

// The same rows give the same shards, in files of one row, in one file of lines and in Parquet, by any number of builders and
// workers.
//
// Covers D-1.
func TestShardsAreCutByContent(t *testing.T) {
	rows := manyRows(11)
	var raw [][]byte
	for _, row := range rows {
		raw = append(raw, []byte(row))
	}
	inputs := map[string]string{
		"files": oneFileEach(t, rows), "lines": lines(t, rows...), "parquet": write(t, "in.parquet", arrowParquet(t, raw, 3)),
		"packed": write(t, "in.jsonl.zst", zst(t, []byte(strings.Join(rows, "\n")))),
	}
	var want [][]manifest.File
	for name, input := range inputs {
		for _, builders := range []int{1, 3} {
			o := options(t, input)
			o.shardRows, o.Workers, o.disk.Heartbeat = 4, 1+builders, time.Second // those that wait look more often
			results := make([]*Result, builders)
			var all sync.WaitGroup
			for k := range results {
				all.Go(func() {
					mine := o
					mine.Builder = Builder{k, builders}
					r, err := Convert(t.Context(), mine)
					assert.NoError(t, err)
					results[k] = r
				})
			}
			all.Wait()
			facts := shardsOf(t, o.Root, results[0])
			assert.Equal(t, []int{4, 4, 3}, []int{facts.Shards[0].Traces, facts.Shards[1].Traces, facts.Shards[2].Traces}, name)
			if want == nil {
				want = contents(t, o.Root, facts)
			}
			assert.Equal(t, want, contents(t, o.Root, facts), name)
			for _, r := range results {
				assert.Equal(t, results[0].Path, r.Path)
				assert.Equal(t, 3, r.Shards.Total)
			}
			requireSound(t, results[0])
			again := o.convert(t)
			assert.True(t, again.Hit)
			assert.Equal(t, results[0].Facts, again.Facts)
			assert.Equal(t, &cachestore.ShardCount{Total: 3, Found: 3}, again.Shards)
		}
	}
}

// A file of 2,500 rows makes shards of 1,024, 1,024 and 452, and the key of each has the rows that it takes.
//
// Covers D-1.
func TestShardsOfALongFile(t *testing.T) {
	o := options(t, lines(t, manyRows(2500)...))
	for k, s := range shardsOf(t, o.Root, o.convert(t)).Shards {
		assert.Equal(t, []int{1024, 1024, 452}[k], s.Traces)
		m, err := mmapcache.Lookup(o.Root, mmapcache.StructureKind, s.Structure.Key)
		require.NoError(t, err)
		var image struct{ Rows map[string]int }
		require.NoError(t, json.Unmarshal(m.PreImage, &image))
		assert.Equal(t, map[string]int{"first": 1024 * k, "most": 1024}, image.Rows)
	}
}

// Files of several rows share no shard with other files, and files of one row are cut where as many came together.
func TestUnits(t *testing.T) {
	dir := t.TempDir()
	for name, rows := range map[string][]string{
		"1.json": manyRows(1), "2.jsonl": manyRows(1), "3.json": manyRows(1), "4.json": manyRows(1), "5.jsonl": manyRows(3), "6.json": manyRows(1), "7.jsonl": {" "},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(rows, "\n")), 0o666))
	}
	s, err := hfsource.Resolve(t.Context(), []string{dir}, hfsource.Options{})
	require.NoError(t, err)
	defer s.Close()
	list, err := unitsOf(t.Context(), s, 3)
	require.NoError(t, err)
	assert.Equal(t, []unit{{0, 3, false}, {3, 4, false}, {4, 5, true}, {5, 7, false}}, list)
}

// A corpus with one more file, wherever it stands, finds all shards of the other files.
//
// Covers D-2.
func TestOneMoreFileCostsOneMoreFile(t *testing.T) {
	dir, rows := t.TempDir(), manyRows(24)
	put := func(name string, rows ...string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(rows, "\n")), 0o666))
	}
	put("b.jsonl", rows[:5]...)
	put("d.jsonl", rows[5:11]...)
	o := options(t, dir)
	o.shardRows = 4
	before := shardsOf(t, o.Root, o.convert(t))
	require.Len(t, before.Shards, 4)
	for k, name := range []string{"a.jsonl", "c.jsonl", "e.jsonl"} {
		put(name, rows[11+3*k:14+3*k]...)
		r := o.convert(t)
		assert.Equal(t, &cachestore.ShardCount{Total: 5, Found: 4}, r.Shards)
		after := shardsOf(t, o.Root, r)
		assert.Subset(t, after.Shards, before.Shards)
		assert.Equal(t, 14, after.Traces)
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	assert.Equal(t, before, shardsOf(t, o.Root, o.convert(t)))
}

// A shard has byte for byte the tables and the starts of a dataset of its rows alone.
//
// Covers D-3.
func TestAShardIsADatasetOfItsRows(t *testing.T) {
	rows := append(demoLines(), manyRows(4)...)
	for _, backend := range rules.Backends() {
		o := options(t, lines(t, rows...))
		o.shardRows, o.Placement.Backend = 5, backend
		sharded := contents(t, o.Root, shardsOf(t, o.Root, o.convert(t)))
		require.Len(t, sharded, 2*4)
		for k := 0; k < 4; k++ {
			alone := o
			alone.Root, alone.Inputs = t.TempDir(), []string{lines(t, rows[5*k:min(5*k+5, len(rows))]...)}
			r := alone.convert(t)
			require.Nil(t, r.Shards)
			assert.Equal(t, sharded[2*k], filesOfPart(t, alone.Root, mmapcache.StructureKind, r.Parts[mmapcache.StructureKind].Key))
			assert.Equal(t, sharded[2*k+1], filesOfPart(t, alone.Root, mmapcache.PlacementKind, r.Parts[mmapcache.PlacementKind].Key))
		}
	}
}

// The facts of a dataset of shards are those of one structure of the same rows.
func TestFactsOfAllShards(t *testing.T) {
	rows := append(demoLines(), manyRows(7)...)
	rows[3] = strings.Replace(rows[3], "{", `{"odd":1,`, 1)
	rows[9] = strings.Replace(rows[9], "{", `{"odd":2,"even":[],`, 1)
	rows[5] = "broken"
	first, second := lines(t, rows[:8]...), lines(t, rows[8:]...)
	one := options(t, first, second)
	one.SkipInvalid, one.shardRows = true, 3
	sharded := one.convert(t)
	c := newConversion(one.withDefaults())
	require.NoError(t, c.withInput(t.Context(), c.runOne))
	whole := c.result.Facts
	assert.Equal(t, whole, sharded.Facts)
	assert.Equal(t, []mmapcache.Skipped{{File: 1, Line: 6, Where: first + ":6", Reason: whole.Skipped[0].Reason}}, sharded.Facts.Skipped)
}

// Traces that share blocks, rows that make a trace together, and few rows are one structure, as they were before there were shards.
func TestInputsOfOneShard(t *testing.T) {
	global := strings.Replace(traceText("g"), `"hash_id_scope":"local"`, `"hash_id_scope":"global"`, 1)
	for name, input := range map[string][]string{
		"few rows": {lines(t, manyRows(4)...)}, "few files": {oneFileEach(t, manyRows(4))},
		"shared blocks at the end":      {lines(t, append(manyRows(9), global)...)},
		"shared blocks in another file": {lines(t, manyRows(9)...), lines(t, global)},
		"Mooncake":                      {lines(t, slices.Repeat([]string{mooncakeRow(`"timestamp":5`)}, 9)...), lines(t, manyRows(9)...)},
	} {
		o := options(t, input...)
		o.shardRows, o.Corpus = 4, tinyCorpus(t, 3000)
		before, err := Explain(t.Context(), o)
		require.NoError(t, err)
		r := o.convert(t)
		if name != "shared blocks at the end" { // of which Explain does not know: it reads the first row of each file
			assert.Equal(t, before.Key, r.Key, name)
			assert.Nil(t, before.Shards, name)
		}
		assert.Nil(t, r.Shards, name)
		assert.Len(t, r.Parts, 3, name)
		c := newConversion(o.withDefaults())
		require.NoError(t, c.withInput(t.Context(), c.runOne))
		assert.Equal(t, c.result.Key, r.Key, name)
		assert.Equal(t, c.result.Facts, r.Facts, name)
		requireSound(t, r)
	}
}

// A structure of all rows that exists, which Structure makes, does not change what Convert makes.
func TestOneStructureThatExists(t *testing.T) {
	o := options(t, lines(t, manyRows(9)...))
	o.shardRows = 4
	_, err := Structure(t.Context(), o)
	require.NoError(t, err)
	r := o.convert(t)
	require.NotNil(t, r.Shards)
	assert.Equal(t, 3, r.Shards.Total)
}

// A second session of one name is named with the rows of both, or left out.
func TestSameSessionInTwoShards(t *testing.T) {
	rows := manyRows(9)
	rows[7] = rows[1]
	o := options(t, lines(t, rows...))
	o.shardRows = 4
	_, err := Convert(t.Context(), o)
	require.EqualError(t, err, o.Inputs[0]+`:8: trace "t001": a second trace of this id: the first is line 2 of file 1 of the input`)
	o.SkipInvalid = true
	r := o.convert(t)
	assert.Nil(t, r.Shards, "which one is left out depends on all rows")
	assert.Equal(t, 8, r.Facts.Traces)
	require.Len(t, r.Facts.Skipped, 1)
	assert.Equal(t, 8, r.Facts.Skipped[0].Line)
}

// A new seed computes starts, and reads no row.
func TestShardsOfANewSeed(t *testing.T) {
	in := lines(t, manyRows(9)...)
	o := options(t, in)
	o.shardRows = 4
	before := shardsOf(t, o.Root, o.convert(t))
	o.Placement.Seed = 7
	var planned int64
	o.Progress = func(stage string, done, _ int64) {
		if stage == "plan" {
			planned += done
		}
	}
	after := shardsOf(t, o.Root, o.convert(t))
	assert.Zero(t, planned)
	for k := range before.Shards {
		assert.Equal(t, before.Shards[k].Structure, after.Shards[k].Structure)
		assert.NotEqual(t, before.Shards[k].Starts.Key, after.Shards[k].Starts.Key)
	}
}

// While the dataset is published its shards, found or built, are noted as in use, all in one note.
func TestShardsAreNotedTogether(t *testing.T) {
	rows := manyRows(6)
	o := options(t, lines(t, rows[:2]...), lines(t, rows[2:4]...), lines(t, rows[4:]...))
	seen := 0
	o.disk.Step = func(name, path string) error {
		if name != "rename" || filepath.Base(filepath.Dir(path)) != mmapcache.DatasetKind {
			return nil
		}
		notes, err := filepath.Glob(filepath.Join(o.Root, ".use", "*.use"))
		require.NoError(t, err)
		assert.Len(t, notes, 2, "that of all that the input may become, and that of the shards")
		text := ""
		for _, note := range notes {
			data, err := os.ReadFile(note)
			require.NoError(t, err)
			text += string(data)
		}
		for _, kind := range []string{mmapcache.StructureKind, mmapcache.PlacementKind} {
			keys, err := os.ReadDir(filepath.Join(o.Root, kind))
			require.NoError(t, err)
			for _, key := range keys {
				seen++
				assert.Contains(t, text, kind+"/"+key.Name()+"\n")
			}
		}
		return nil
	}
	o.convert(t)
	assert.Equal(t, 6, seen)
}

// What is damaged or missing is built again, and nothing else changes.
func TestDamagedShardsAreBuiltAlone(t *testing.T) {
	o := options(t, lines(t, manyRows(9)...), lines(t, demoLines()...))
	o.shardRows = 4
	r := o.convert(t)
	want, facts := filesOf(t, o.Root), shardsOf(t, o.Root, r)
	for _, c := range []struct {
		part  string
		found int
		spoil func(dir string)
	}{
		{"structure/" + facts.Shards[1].Structure.Key, 6, func(dir string) { require.NoError(t, os.RemoveAll(dir)) }},
		{"structure/" + facts.Shards[4].Structure.Key, 6, func(dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, "turns.arrow"), 3)) }},
		{"starts/" + facts.Shards[2].Starts.Key, 6, func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, manifest.FileName))) }},
		{"dataset/" + r.Key, 7, func(dir string) { require.NoError(t, os.RemoveAll(dir)) }},
	} {
		c.spoil(filepath.Join(o.Root, c.part))
		again := o.convert(t)
		assert.Equal(t, want, filesOf(t, o.Root), c.part)
		assert.Equal(t, r.Key, again.Key)
		assert.Equal(t, &cachestore.ShardCount{Total: r.Shards.Total, Found: c.found}, again.Shards, c.part)
	}
}

// An input that changes while it is read publishes none of its shards, and those of the files before stay.
func TestCorpusThatChangesWhileItIsBuilt(t *testing.T) {
	first, second := lines(t, manyRows(9)...), lines(t, demoLines()...)
	o := options(t, first, second)
	o.shardRows = 4
	var changed atomic.Bool
	o.disk.Step = func(name, path string) error {
		if name == "create" && strings.HasSuffix(path, "traces.arrow") && strings.Contains(path, cachestore.ShardsKind) && published(t, o.Root) == 6 && changed.CompareAndSwap(false, true) {
			f, err := os.OpenFile(second, os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString(traceText("new") + "\n")
			return errors.Join(err, f.Close())
		}
		return nil
	}
	_, err := Convert(t.Context(), o)
	require.ErrorIs(t, err, hfsource.ErrChanged)
	require.ErrorContains(t, err, second)
	assert.Equal(t, 6, published(t, o.Root))
	requireWhole(t, o.Root)
}

// published counts the parts of shards below a root.
func published(t testing.TB, root string) (n int) {
	for _, kind := range []string{mmapcache.StructureKind, mmapcache.PlacementKind} {
		list, _ := filepath.Glob(filepath.Join(root, kind, "*"))
		n += len(list)
	}
	return n
}

// A builder that is stopped until another has taken its lease publishes nothing, and then uses what the other has built.
//
// Covers D-6.
func TestABuilderStoppedPastItsLease(t *testing.T) {
	o := options(t, lines(t, manyRows(9)...))
	o.shardRows, o.disk.Heartbeat = 4, 50*time.Millisecond
	stopped, taken := make(chan bool), make(chan bool)
	var once sync.Once
	slow := o
	slow.disk.Step = func(name, path string) error {
		if name == "beat" && strings.Contains(path, cachestore.ShardsKind) {
			select {
			case <-stopped:
				<-taken // the process does not run
			default:
			}
		}
		if name == "rename" && strings.Contains(path, filepath.Join(o.Root, mmapcache.StructureKind)) {
			once.Do(func() {
				close(stopped)
				<-taken
			})
		}
		return nil
	}
	var warned []string
	slow.Warn = func(format string, args ...any) { warned = append(warned, fmt.Sprintf(format, args...)) }
	var late *Result
	var all sync.WaitGroup
	all.Go(func() {
		var err error
		late, err = Convert(t.Context(), slow)
		assert.NoError(t, err)
	})
	<-stopped
	assert.Zero(t, published(t, o.Root))
	r := o.convert(t) // waits for three heartbeats, and takes over
	want := filesOf(t, o.Root)
	close(taken)
	all.Wait()
	assert.Equal(t, r.Path, late.Path)
	assert.Equal(t, want, filesOf(t, o.Root))
	assert.Equal(t, &cachestore.ShardCount{Total: 3, Found: 3}, late.Shards)
	assert.True(t, slices.ContainsFunc(warned, func(s string) bool { return strings.Contains(s, "waiting for that process") }), "%q", warned)
	requireSound(t, r)
}

// Several builders of many files read each byte once, together, and build nothing twice.
func TestBuildersShareTheFiles(t *testing.T) {
	dir, size := t.TempDir(), int64(0)
	for k := range 12 {
		rows := strings.Join(manyRows(60)[5*k:5*k+5], "\n")
		size += int64(len(rows))
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.jsonl", k)), []byte(rows), 0o666))
	}
	o := options(t, dir)
	o.shardRows, o.disk.Heartbeat = 4, time.Second
	var mu sync.Mutex
	read, renamed := int64(0), map[string]int{}
	o.Progress = func(stage string, done, _ int64) {
		if stage == "plan" {
			mu.Lock()
			defer mu.Unlock()
			read += done
		}
	}
	o.disk.Step = func(name, path string) error {
		if name == "rename" && !strings.Contains(path, durable.StagingDir) {
			mu.Lock()
			defer mu.Unlock()
			renamed[path]++
		}
		return nil
	}
	var all sync.WaitGroup
	for k := range 4 {
		all.Go(func() {
			mine := o
			mine.Builder = Builder{k, 4}
			_, err := Convert(t.Context(), mine)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Equal(t, size, read)
	for path, n := range renamed {
		assert.Equal(t, 1, n, path)
	}
	assert.Equal(t, 2*24, published(t, o.Root))
}

// Every file counts, also those of which a run makes one shard.
func TestExplainFilesOfOneRow(t *testing.T) {
	dir := oneFileEach(t, manyRows(11))
	o := options(t, dir)
	o.shardRows = 4
	r := o.convert(t)
	facts := shardsOf(t, o.Root, r)
	require.NoError(t, os.RemoveAll(filepath.Join(o.Root, mmapcache.StructureKind, facts.Shards[1].Structure.Key)))
	e, err := Explain(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, []int{11, 7, 3, 2}, []int{e.Shards.Files, e.Shards.Complete, e.Shards.Total, e.Shards.Found})
	require.Len(t, e.Shards.Missing, 1)
	assert.Equal(t, 4, e.Shards.Missing[0].Files)
}

// An interrupted build ends at once, and leaves whole parts.
func TestShardsOfAnInterruptedBuild(t *testing.T) {
	o := options(t, lines(t, manyRows(9)...), lines(t, demoLines()...))
	o.shardRows = 4
	ctx, cancel := context.WithCancel(t.Context())
	o.disk.Step = func(name, path string) error {
		if published(t, o.Root) == 6 {
			cancel()
		}
		return nil
	}
	_, err := Convert(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	requireWhole(t, o.Root)
	o.disk.Step = nil
	r := o.convert(t)
	assert.Equal(t, 3, r.Shards.Found)
}

// Explain says which files have all their shards, why the others have not, and who builds them.
func TestExplainShards(t *testing.T) {
	first, second := lines(t, manyRows(9)...), lines(t, demoLines()...)
	o := options(t, first)
	o.shardRows = 4
	one := o.convert(t)
	e, err := Explain(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, e.Hit)
	assert.Equal(t, []string{one.Key, one.Path}, []string{e.Key, e.Path})
	assert.Equal(t, &ShardsExplanation{Files: 1, Complete: 1, Total: 3, Found: 3, Missing: []MissingUnit{}, Nearest: []SimilarPart{}}, e.Shards)

	o.Inputs = []string{first, second}
	e, err = Explain(t.Context(), o)
	require.NoError(t, err)
	assert.False(t, e.Hit)
	assert.Equal(t, []MissingUnit{{second, 1, 0, "there is no structure of this key"}}, e.Shards.Missing)
	assert.Equal(t, []int{2, 1, 0, 3}, []int{e.Shards.Files, e.Shards.Complete, e.Shards.Total, e.Shards.Found})
	require.NotEmpty(t, e.Shards.Nearest)
	require.NotEmpty(t, e.Shards.Nearest[0].Differences)
	differ := e.Shards.Nearest[0].Differences[0]
	assert.Equal(t, "inputs[0].sha256", differ.Field)
	assert.Contains(t, differ.Want, " ("+second+")", "the file of the shard, not the first of the input")
	assert.Contains(t, differ.Have, " ("+first+")")

	o.disk.Step = func(name, path string) error {
		if name == "create" && strings.HasSuffix(path, "traces.arrow") {
			during, err := Explain(t.Context(), o)
			require.NoError(t, err)
			require.Len(t, during.Shards.Missing, 1)
			assert.Contains(t, during.Shards.Missing[0].Why, "builds it")
		}
		return nil
	}
	two := o.convert(t)
	assert.Equal(t, e.Key, two.Key)

	facts := shardsOf(t, o.Root, two)
	o.disk.Step = nil
	require.NoError(t, os.RemoveAll(filepath.Join(o.Root, mmapcache.PlacementKind, facts.Shards[1].Starts.Key)))
	require.NoError(t, os.Truncate(filepath.Join(o.Root, mmapcache.StructureKind, facts.Shards[5].Structure.Key, "turns.arrow"), 3))
	o.Warn = func(format string, args ...any) { assert.Failf(t, "nothing is built again", format, args...) }
	e, err = Explain(t.Context(), o)
	require.NoError(t, err)
	assert.False(t, e.Hit)
	require.Len(t, e.Shards.Missing, 2)
	assert.Equal(t, []int{2, 0, 7, 5}, []int{e.Shards.Files, e.Shards.Complete, e.Shards.Total, e.Shards.Found})
	assert.Equal(t, MissingUnit{first, 1, 1, "its structure exists, and there are no starts of this key"}, e.Shards.Missing[0])
	assert.Equal(t, 2, e.Shards.Missing[1].Found)
	assert.Contains(t, e.Shards.Missing[1].Why, "turns.arrow")
}
