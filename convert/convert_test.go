package convert

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert/demo"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/mmapcache"
)

// demoLines returns the traces of the demo, one row each.
func demoLines() []string {
	return strings.Split(strings.TrimSpace(string(demo.JSONL())), "\n")
}

// Covers P10, P11.
func TestWorkersChangeNoByte(t *testing.T) {
	o := options(t, "@demo", lines(t, traceText("a"), traceText("b")))
	o.Workers = 1
	one := o.convert(t)
	requireSound(t, one)
	files := filesOf(t, o.Root)
	for _, backend := range []string{rules.XXH3, rules.SHA256MT, rules.Exact} {
		o.Placement.Backend, o.Workers, o.Root = backend, 1, t.TempDir()
		if backend == rules.Exact {
			o.Corpus = DefaultCorpus
		}
		one := o.convert(t)
		want := filesOf(t, o.Root)
		o.Workers, o.Root = 7, t.TempDir()
		seven := o.convert(t)
		assert.Equal(t, one.Key, seven.Key)
		assert.Equal(t, want, filesOf(t, o.Root))
		if backend == rules.XXH3 {
			assert.Equal(t, files, want)
		}
	}
}

func TestOrderOfTheInputChangesNoTrace(t *testing.T) {
	rows := append(demoLines(), traceText("a"))
	all := func(rows []string) (map[string]string, []string, string) {
		o := options(t, lines(t, rows...))
		r := o.convert(t)
		c := openResult(t, o, r)
		found, order := map[string]string{}, []string{}
		for i := range c.Structure.Traces.Len() {
			id := c.Structure.Traces.At(i).ID
			found[id] = written(t, c, i)
			order = append(order, id)
		}
		return found, order, r.Key
	}
	want, order, key := all(rows)
	slices.Reverse(rows)
	got, reversed, other := all(rows)
	assert.Equal(t, want, got)
	slices.Reverse(reversed)
	assert.Equal(t, order, reversed)
	assert.NotEqual(t, key, other)
}

// Names, directories and dates of input files do not change keys. Their compression does, but it changes no table.
func TestOnlyContentOfTheInputCounts(t *testing.T) {
	text := []byte(traceText("a") + "\n" + traceText("b") + "\n")
	o := options(t, write(t, "in.jsonl", text))
	r := o.convert(t)
	want := tables(t, o.Root)

	o.Inputs = []string{write(t, "renamed.jsonl", text)}
	again := o.convert(t)
	assert.True(t, again.Hit)
	assert.Equal(t, r.Key, again.Key)

	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, err := w.Write(text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	dir := t.TempDir()
	for name, row := range map[string]string{"1.json": traceText("a"), "2.json": traceText("b")} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(row), 0o666))
	}
	for _, input := range []string{write(t, "in.jsonl.gz", gz.Bytes()), write(t, "in.jsonl.zst", enc.EncodeAll(text, nil)), dir} {
		o := options(t, input)
		other := o.convert(t)
		assert.NotEqual(t, r.Key, other.Key)
		assert.Equal(t, want, tables(t, o.Root))
	}
}

func TestStandardInputIsJSONLines(t *testing.T) {
	text := traceText("a") + "\n" + traceText("b") + "\n"
	o := options(t, write(t, "in.jsonl", []byte(text)))
	want := o.convert(t)
	o.Inputs, o.Source.Stdin = []string{"-"}, strings.NewReader(text)
	t.Setenv("TMPDIR", t.TempDir())
	got := o.convert(t)
	assert.Equal(t, want.Key, got.Key)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left)
}

// hits returns which parts a conversion found.
func hits(r *Result) string {
	var found []string
	for kind, p := range r.Parts {
		if p.Hit {
			found = append(found, kind)
		}
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

func TestEveryPartHasItsOwnKey(t *testing.T) {
	o := options(t, "@demo")
	first := o.convert(t)
	assert.False(t, first.Hit)
	assert.Equal(t, "", hits(first))
	for _, c := range []struct {
		change func(*Options)
		hits   string
	}{
		{func(o *Options) { o.Placement.Seed = 7 }, "arenas structure"},
		{func(o *Options) { o.Placement.Backend = rules.SHA256MT }, "arenas structure"},
		{func(o *Options) { o.Corpus = tinyCorpus(t, 299) }, "structure"},
		{func(o *Options) { o.Tokenizer = "o200k_base" }, "starts structure"},
		{func(o *Options) { o.Inputs = append(o.Inputs, lines(t, traceText("a"))) }, "arenas"},
		{func(o *Options) { o.Rules.BlockSize = 128 }, "arenas"},
		{func(o *Options) { o.Rules.LengthRule = "upstream" }, "arenas"},
		{func(o *Options) { o.Workers, o.Version, o.Strict, o.SkipInvalid = 1, "other", true, true }, "arenas starts structure"},
	} {
		changed := o
		c.change(&changed)
		r := changed.convert(t)
		assert.Equal(t, c.hits, hits(r))
		assert.Equal(t, c.hits == "arenas starts structure", r.Hit)
		assert.Equal(t, r.Hit, r.Key == first.Key)
		requireSound(t, r)
	}
}

// Covers F16.
func TestSecondRunCopiesNothing(t *testing.T) {
	o := options(t, "@demo")
	first := o.convert(t)
	require.NoError(t, filepath.WalkDir(o.Root, func(path string, e os.DirEntry, err error) error {
		return os.Chmod(path, 0o555)
	}))
	o.disk.Step = func(name, path string) error {
		t.Errorf("%s %s", name, path)
		return nil
	}
	o.now = nil
	second := o.convert(t)
	assert.True(t, second.Hit)
	first.Hit, second.Stages, second.Parts = true, first.Stages, first.Parts
	assert.Equal(t, first, second)
	require.NoError(t, filepath.WalkDir(o.Root, func(path string, e os.DirEntry, err error) error {
		return os.Chmod(path, 0o777)
	}))
}

func TestForcedBuildGivesTheSame(t *testing.T) {
	o := options(t, "@demo")
	first := o.convert(t)
	want := filesOf(t, o.Root)
	o.Force = true
	again := o.convert(t)
	assert.False(t, again.Hit)
	assert.Equal(t, "", hits(again))
	assert.Equal(t, first.Key, again.Key)
	assert.Equal(t, want, filesOf(t, o.Root))
}

func TestDamagedPartsAreBuiltAgain(t *testing.T) {
	seconds(t)
	o := options(t, lines(t, traceText("a")))
	r := o.convert(t)
	want := filesOf(t, o.Root)
	for name, data := range want {
		path := filepath.Join(o.Root, name)
		if !slices.Contains([]string{"turns.arrow", "starts.bin", "text.json", "manifest.json"}, filepath.Base(path)) {
			continue // as the others; mmapcache tests every file
		}
		for what, spoil := range map[string]func() error{
			"cut":     func() error { return os.Truncate(path, int64(len(data)-1)) },
			"missing": func() error { return os.Remove(path) },
			"all":     func() error { return os.RemoveAll(filepath.Dir(path)) },
			"flipped": func() error { return os.WriteFile(path, flip(data), 0o666) }, // not looked for unless forced
		} {
			require.NoError(t, spoil())
			warned := 0
			o.Warn = func(string, ...any) { warned++ }
			o.Force = what == "flipped"
			again := o.convert(t)
			assert.False(t, again.Hit)
			assert.Equal(t, r.Key, again.Key)
			if what == "cut" || what == "missing" {
				assert.Equal(t, 1, warned, "%s %s", name, what)
			}
			if !o.Force && !strings.HasPrefix(name, mmapcache.DatasetKind) {
				assert.Len(t, strings.Fields(hits(again)), 2, "%s %s", name, what)
			}
			require.Equal(t, want, filesOf(t, o.Root), "%s %s", name, what)
		}
	}
}

// Where a part is removed between its discovery and the end, no dataset is published that names it.
func TestPartsThatAreRemovedMeanwhile(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	first := o.convert(t)
	for kind, part := range first.Parts {
		require.NoError(t, os.RemoveAll(first.Path))
		removing := o
		removing.disk.Step = func(string, string) error { // the first step is the dataset's: the parts are hits
			return os.RemoveAll(filepath.Join(o.Root, kind, part.Key))
		}
		_, err := Convert(t.Context(), removing)
		require.ErrorContains(t, err, kind+"/"+part.Key)
		require.ErrorContains(t, err, "again")
		requireClean(t, o.Root)
		again := o.convert(t)
		assert.Equal(t, first.Key, again.Key)
		requireSound(t, again)
	}
}

// flip flips a bit in the middle.
func flip(data string) []byte {
	b := []byte(data)
	b[len(b)/2] ^= 4
	return b
}

func TestProvenanceSaysWhereItCameFrom(t *testing.T) {
	o := options(t, "@demo", lines(t, traceText("a")))
	r := o.convert(t)
	p, err := mmapcache.ReadProvenance(r.Path)
	require.NoError(t, err)
	assert.Equal(t, o.now().UTC(), p.Created)
	assert.Equal(t, "test", p.Agentx)
	require.Len(t, p.Sources, 2)
	assert.Equal(t, mmapcache.Source{Path: "@demo", Size: int64(len(demo.JSONL())), SHA256: demo.SHA256}, p.Sources[0])
	assert.Equal(t, o.Inputs[1], p.Sources[1].Path)
	assert.Equal(t, r.InputBytes, p.Sources[0].Size+p.Sources[1].Size)
}

func TestProgressAddsUp(t *testing.T) {
	o := options(t, "@demo")
	o.Workers = 1
	done, totals := map[string]int64{}, map[string]int64{}
	o.Progress = func(stage string, n, total int64) {
		done[stage] += n
		totals[stage] = total
	}
	r := o.convert(t)
	assert.Equal(t, totals, done)
	assert.Equal(t, map[string]int64{"plan": int64(len(demo.JSONL())), "fill": int64(r.Facts.Blocks)}, done)
	assert.Equal(t, demo.SHA256, decode[structureImage](t, string(preImage(t, o, r))).Inputs[0].SHA256)
}

// preImage returns the pre-image of a structure's key.
func preImage(t *testing.T, o Options, r *Result) []byte {
	info, err := cachestore.Describe(o.Root, r.Key)
	require.NoError(t, err)
	return info.Directories[1].Manifest.PreImage
}
