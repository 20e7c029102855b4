package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// Each of the tests below that has a Covers line reproduces one failure of earlier caches: doc/spec/cache.md 2 lists them.

// keysFor returns the keys of a conversion, by kind.
func keysFor(t *testing.T, rules rules.Rules, draws rules.Placement, files []hfsource.File, p promptCorpus) map[string]string {
	list, err := wantedParts(rules, draws, Probe(rules, draws), &hfsource.Snapshot{Files: files}, nil, p)
	require.NoError(t, err)
	keys := map[string]string{}
	for kind, m := range list {
		keys[kind] = m.Key
	}
	return keys
}

// differing lists the kinds whose keys differ.
func differing(a, b map[string]string) (kinds []string) {
	for _, kind := range append(mmapcache.PartKinds(), mmapcache.DatasetKind) {
		if a[kind] != b[kind] {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// changed returns a value other than v's.
func changed(t *testing.T, v reflect.Value) reflect.Value {
	n := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Bool:
		n.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		n.SetInt(v.Int() + 1)
	case reflect.Float64:
		n.SetFloat(v.Float() + 0.5)
	case reflect.String:
		n.SetString(v.String() + "x")
	case reflect.Pointer:
		n.Set(reflect.New(v.Type().Elem()))
	default:
		t.Fatalf("a field of kind %s: say how to change it", v.Kind())
	}
	return n
}

// Every field of the rules and of the placement, every file, and every part of the corpus changes the keys of exactly those
// parts whose bytes it can change, and of the dataset. The failure: a field was missing in the key.
//
// Covers F1, F4.
func TestEveryIngredientIsInTheKey(t *testing.T) {
	p, err := resolvePromptCorpus("code", builtinTokenizer(t, "o200k_base"))
	require.NoError(t, err)
	r, draws := rules.Default(), rules.Placement{Backend: rules.XXH3, Seed: 42}
	files := []hfsource.File{{Path: "a", SHA256: "aa"}, {Path: "b", SHA256: "bb", Format: hfsource.FileFormat{Lines: true}}}
	base := keysFor(t, r, draws, files, p)
	all := []string{mmapcache.StructureKind, mmapcache.PlacementKind, mmapcache.DatasetKind}
	for k := range reflect.TypeFor[rules.Rules]().NumField() {
		other := r
		f := reflect.ValueOf(&other).Elem().Field(k)
		f.Set(changed(t, f))
		name, found := reflect.TypeFor[rules.Rules]().Field(k).Name, differing(base, keysFor(t, other, draws, files, p))
		if other.WithoutMooncake() != r.WithoutMooncake() {
			assert.Equal(t, all, found, name)
			continue
		}
		assert.Empty(t, found, "%s counts for Mooncake rows alone", name)
		assert.Equal(t, other, structureImageOf(other, "", &hfsource.Snapshot{}, []int{1}).Rules, name)
	}
	for k := range reflect.TypeFor[rules.Placement]().NumField() {
		other := draws
		f := reflect.ValueOf(&other).Elem().Field(k)
		f.Set(changed(t, f))
		assert.Equal(t, all[1:], differing(base, keysFor(t, r, other, files, p)), reflect.TypeFor[rules.Placement]().Field(k).Name)
	}
	a, b := files[0], files[1]
	for what, other := range map[string][]hfsource.File{
		"content": {{SHA256: "ab"}, b}, "order": {b, a}, "more": {a, b, b}, "fewer": {a}, "form": {{SHA256: "aa", Format: hfsource.FileFormat{Lines: true}}, b},
	} {
		assert.Equal(t, all, differing(base, keysFor(t, r, draws, other, p)), what)
	}
	renamed := []hfsource.File{{Path: "elsewhere/a", SHA256: "aa", Size: 5}, b}
	assert.Empty(t, differing(base, keysFor(t, r, draws, renamed, p)), "names and places are no part of a key")
	text, tokenizer, longer := p, p, p
	text.image.Corpus.SHA256, tokenizer.image.Tokenizer = "other", "other"
	longer.tokens++
	assert.Equal(t, []string{mmapcache.ArenasKind, mmapcache.DatasetKind}, differing(base, keysFor(t, r, draws, files, text)))
	assert.Equal(t, []string{mmapcache.ArenasKind, mmapcache.DatasetKind}, differing(base, keysFor(t, r, draws, files, tokenizer)))
	assert.Equal(t, []string{mmapcache.PlacementKind, mmapcache.DatasetKind}, differing(base, keysFor(t, r, draws, files, longer)))
}

// The key of every part contains a probe, so a program that builds something else has other keys, whatever its version numbers
// are. probe_test.go shows that probes change. The failure: two branches had the same version number.
//
// Covers F2.
func TestAnotherProgramHasOtherKeys(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	r := o.convert(t)
	info, err := cachestore.Describe(o.Root, r.Key)
	require.NoError(t, err)
	probes := Probe(o.Rules, o.Placement)
	made := map[string]string{mmapcache.StructureKind: probes.Structure, mmapcache.PlacementKind: probes.Placement, mmapcache.ArenasKind: probes.Arenas}
	for _, d := range info.Directories[1:] {
		var image map[string]any
		require.NoError(t, json.Unmarshal(d.Manifest.PreImage, &image))
		for _, field := range []string{"probe", "format", "recipe"} {
			require.Contains(t, image, field)
			require.Equal(t, made[d.Manifest.Kind], image["probe"])
			old := image[field]
			image[field] = "of another program"
			other, err := manifest.New(d.Manifest.Kind, image)
			require.NoError(t, err)
			assert.NotEqual(t, d.Manifest.Key, other.Key)
			image[field] = old
		}
		same, err := manifest.New(d.Manifest.Kind, image)
		require.NoError(t, err)
		assert.Equal(t, d.Manifest.Key, same.Key)
	}
}

// What cannot be encoded as a key is an error. The failure: caching was silently off.
//
// Covers F5.
func TestKeyErrorsAreErrors(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	o.Rules.SeamMaxGap = math.NaN()
	_, err := Convert(t.Context(), o)
	require.ErrorContains(t, err, "NaN")
	requireClean(t, o.Root)
}

// A key does not depend on chance, the clock, the directory or the number of workers. The failure: there was never a hit.
//
// Covers F6.
func TestTheSameIsAHit(t *testing.T) {
	text := []byte(traceText("a") + "\n")
	o := options(t, write(t, "in.jsonl", text))
	first := o.convert(t)
	o.Inputs = []string{write(t, "elsewhere.jsonl", text)}
	o.now, o.Workers, o.Version = time.Now, 5, "another"
	again := o.convert(t)
	assert.True(t, again.Hit)
	assert.Equal(t, first.Key, again.Key)
}

// Concurrent readers of one cache each get the trace that they ask for.
//
// Covers F7.
func TestConcurrentReadersReadWhatTheyAskFor(t *testing.T) {
	o := options(t, "@demo")
	c := openResult(t, o, o.convert(t))
	var want []mmapcache.Digest
	for i := range c.Structure.Traces.Len() {
		d, err := c.Digest(i, "-")
		require.NoError(t, err)
		want = append(want, d)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for k := range 3 * len(want) {
				i := (k*7 + g) % len(want)
				d, err := c.Digest(i, "-")
				if assert.NoError(t, err) {
					assert.Equal(t, want[i], d)
				}
			}
		})
	}
	wg.Wait()
}

// A hit does not wait for leases, whether their holders are alive or dead.
//
// Covers F8.
func TestAFinishedEntryIsReadWithoutALock(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	r := o.convert(t)
	for _, kind := range append(mmapcache.PartKinds(), mmapcache.DatasetKind) {
		key := r.Key
		if kind != mmapcache.DatasetKind {
			key = r.Parts[kind].Key
		}
		lease, err := durable.Acquire(t.Context(), o.Root, kind+"-"+key, func() (bool, error) { return false, nil }, durable.Waiting{})
		require.NoError(t, err)
		defer func() { require.NoError(t, lease.Release()) }()
	}
	o.Wait = -1
	assert.True(t, o.convert(t).Hit)
	o.Force = true
	_, err := Convert(t.Context(), o)
	require.ErrorIs(t, err, durable.ErrBusy, "the leases are real")
}

// Of several processes that want one part, one builds it.
//
// Covers F10.
func TestOneBuilderForEachPart(t *testing.T) {
	o := options(t, "@demo")
	o.disk.Heartbeat = time.Second // the processes that wait look more often
	results := make([]*Result, 6)
	var wg sync.WaitGroup
	for k := range results {
		wg.Go(func() {
			mine := o
			mine.Force = false
			r, err := Convert(t.Context(), mine)
			if assert.NoError(t, err) {
				results[k] = r
			}
		})
	}
	wg.Wait()
	built := map[string]int{}
	for _, r := range results {
		require.NotNil(t, r)
		assert.Equal(t, results[0].Key, r.Key)
		for kind, p := range r.Parts {
			if !p.Hit {
				built[kind]++
			}
		}
	}
	assert.Equal(t, map[string]int{mmapcache.StructureKind: 1, mmapcache.PlacementKind: 1, mmapcache.ArenasKind: 1}, built)
	requireSound(t, results[0])
}

// A directory without a manifest, with a bad one, or another file in its place does not block a key.
//
// Covers F11.
func TestNothingBlocksAKey(t *testing.T) {
	seconds(t)
	o := options(t, lines(t, traceText("a")))
	r := o.convert(t)
	want := filesOf(t, o.Root)
	paths := []string{r.Path}
	for kind, p := range r.Parts {
		paths = append(paths, filepath.Join(o.Root, kind, p.Key))
	}
	for _, path := range paths {
		for what, spoil := range map[string]func() error{
			"no manifest": func() error { return os.WriteFile(filepath.Join(path, "half"), nil, 0o666) },
			"bad":         func() error { return os.WriteFile(filepath.Join(path, manifest.FileName), []byte("{}"), 0o666) },
			"empty":       func() error { return nil },
		} {
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, os.Mkdir(path, 0o777))
			require.NoError(t, spoil())
			again := o.convert(t)
			assert.Equal(t, r.Key, again.Key)
			require.Equal(t, want, filesOf(t, o.Root), "%s %s", path, what)
		}
		for what, put := range map[string]func() error{
			"file": func() error { return os.WriteFile(path, []byte("x"), 0o666) },
			"link": func() error { return os.Symlink("nowhere", path) },
		} {
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, put())
			assert.Equal(t, r.Key, o.convert(t).Key)
			require.Equal(t, want, filesOf(t, o.Root), "%s in the place of %s", what, path)
		}
	}
}

// A manifest with a correct digest but impossible content is damage: Open reports it, and Convert builds again. The failure: a
// hit crashed on metadata that was not checked before.
//
// Covers F12.
func TestNonsenseInManifestsIsBuiltAgain(t *testing.T) {
	seconds(t)
	o := options(t, lines(t, traceText("a")))
	other := o
	other.Placement.Seed = 5
	second := other.convert(t)
	r := o.convert(t)
	want := filesOf(t, o.Root)
	set := func(m *manifest.Manifest, field string, value any) {
		var facts map[string]any
		require.NoError(t, json.Unmarshal(m.Facts, &facts))
		facts[field] = value
		data, err := json.Marshal(facts)
		require.NoError(t, err)
		m.Facts = data
	}
	for name, c := range map[string]struct {
		kind  string
		spoil func(m *manifest.Manifest)
	}{
		"other types": {mmapcache.StructureKind, func(m *manifest.Manifest) { set(m, "traces", "many") }},
		"a list":      {mmapcache.StructureKind, func(m *manifest.Manifest) { m.Facts = json.RawMessage(`[]`) }},
		"nothing":     {mmapcache.StructureKind, func(m *manifest.Manifest) { m.Facts = json.RawMessage(`null`) }},
		"a file of no input": {mmapcache.StructureKind, func(m *manifest.Manifest) {
			set(m, "skipped", []any{map[string]any{"file": 99, "line": 3, "why": "x"}})
		}},
		"file 0":          {mmapcache.StructureKind, func(m *manifest.Manifest) { set(m, "skipped", []any{map[string]any{"file": 0, "line": 3, "why": "x"}}) }},
		"fewer than none": {mmapcache.StructureKind, func(m *manifest.Manifest) { set(m, "blocks", -1) }},
		"another content": {mmapcache.StructureKind, func(m *manifest.Manifest) { set(m, "seams", 12) }},
		"no tokens":       {mmapcache.ArenasKind, func(m *manifest.Manifest) { set(m, "tokens", 0) }},
		"more tokens":     {mmapcache.ArenasKind, func(m *manifest.Manifest) { set(m, "tokens", 1e12) }},
		"no such part": {mmapcache.DatasetKind, func(m *manifest.Manifest) {
			m.Parts[mmapcache.PlacementKind] = manifest.Part{Key: strings.Repeat("0", 64), Digest: strings.Repeat("0", 64)}
		}},
		"another's part": {mmapcache.DatasetKind, func(m *manifest.Manifest) {
			p, err := manifest.Read(filepath.Join(o.Root, mmapcache.PlacementKind, second.Parts[mmapcache.PlacementKind].Key))
			require.NoError(t, err)
			m.Parts[mmapcache.PlacementKind] = manifest.Part{Key: p.Key, Digest: p.Digest}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := r.Path
			if c.kind != mmapcache.DatasetKind {
				path = filepath.Join(o.Root, c.kind, r.Parts[c.kind].Key)
			}
			m, err := manifest.Read(path)
			require.NoError(t, err)
			c.spoil(m)
			seal(t, path, m)
			_, err = mmapcache.Open(o.Root, r.Key)
			require.ErrorIs(t, err, manifest.ErrDamaged)
			again := o.convert(t)
			assert.False(t, again.Hit)
			if name == "another content" { // sound by itself: only the dataset tells that it is not what was made
				forced := o
				forced.Force = true
				forced.convert(t)
			}
			require.Equal(t, want, filesOf(t, o.Root))
			assert.True(t, o.convert(t).Hit)
		})
	}
}

// A part with a truncated file is no hit.
//
// Covers F13.
func TestTruncatedFilesAreNoHit(t *testing.T) {
	seconds(t)
	o := options(t, lines(t, traceText("a")))
	r := o.convert(t)
	want := filesOf(t, o.Root)
	for name, data := range want {
		if len(data) == 0 || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "README") {
			continue
		}
		require.NoError(t, os.Truncate(filepath.Join(o.Root, name), int64(len(data)-1)))
		_, err := mmapcache.Open(o.Root, r.Key)
		require.ErrorIs(t, err, manifest.ErrDamaged, name)
		assert.False(t, o.convert(t).Hit, name)
		require.Equal(t, want, filesOf(t, o.Root), name)
	}
}

// A run that fails late keeps the parts that it has published, and the next run finds them.
//
// Covers F14.
func TestWhatWasPublishedIsKept(t *testing.T) {
	o := options(t, "@demo")
	died := errors.New("died")
	dying := o
	dying.disk.Step = func(name, path string) error {
		if name == "rename" && strings.Contains(path, mmapcache.PlacementKind) {
			return died
		}
		return nil
	}
	_, err := Convert(t.Context(), dying)
	require.ErrorIs(t, err, died)
	requireClean(t, o.Root)
	assert.Equal(t, "arenas structure", hits(o.convert(t)))
}

// VerifyHit finds a dataset with correct digests whose content is not what is built now. The failure: a warm cache hid a broken
// conversion.
//
// Covers F20.
func TestVerifyHitFindsWhatDigestsCannot(t *testing.T) {
	o := options(t, "@demo")
	r := o.convert(t)
	o.VerifyHit = true
	good := o.convert(t)
	assert.True(t, good.Hit)
	assert.Contains(t, good.Stages, "verify")

	path := filepath.Join(o.Root, mmapcache.PlacementKind, r.Parts[mmapcache.PlacementKind].Key)
	starts, err := os.ReadFile(filepath.Join(path, "starts.bin"))
	require.NoError(t, err)
	starts[len(starts)-3] ^= 1 // another place in the corpus
	require.NoError(t, os.WriteFile(filepath.Join(path, "starts.bin"), starts, 0o666))
	part, err := manifest.Read(path)
	require.NoError(t, err)
	part.Files[0].SHA256 = manifest.Sum(starts)
	seal(t, path, part)
	dataset, err := manifest.Read(r.Path)
	require.NoError(t, err)
	dataset.Parts[mmapcache.PlacementKind] = manifest.Part{Key: part.Key, Digest: part.Digest}
	seal(t, r.Path, dataset)
	requireSound(t, r)

	before := filesOf(t, o.Root)
	_, err = Convert(t.Context(), o)
	var differs *RebuildMismatchError
	require.ErrorAs(t, err, &differs)
	assert.ErrorContains(t, err, filepath.Join(path, "starts.bin"))
	assert.Equal(t, before, filesOf(t, o.Root), "it only looks")
	o.VerifyHit = false
	assert.True(t, o.convert(t).Hit)
	err = VerifyRebuild(t.Context(), o.Root, r.Key, o)
	require.ErrorAs(t, err, &differs)
}

// seal writes a manifest with its correct digest.
func seal(t *testing.T, dir string, m *manifest.Manifest) {
	data, err := m.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifest.FileName), data, 0o666))
}

// Requests without output, and prompts that equal the one before, are converted.
//
// Covers F21.
func TestZeroOutputAndUnchangedPrompts(t *testing.T) {
	o := options(t, lines(t, `{"id":"a","models":["m"],"block_size":4,"hash_id_scope":"local","requests":[`+
		`{"t":0,"type":"n","model":"m","in":8,"out":0,"hash_ids":[1,2],"api_time":1},`+
		`{"t":2,"type":"n","model":"m","in":8,"out":0,"hash_ids":[1,2],"api_time":1},`+
		`{"t":3,"type":"n","model":"m","in":8,"out":5,"hash_ids":[1,2],"api_time":0}]}`))
	r := o.convert(t)
	requireSound(t, r)
	assert.Equal(t, 3, r.Facts.Turns)
	c := openResult(t, o, r)
	tree, err := c.Render(0, mmapcache.IDs)
	require.NoError(t, err)
	var p mmapcache.Prompt
	for turn := range tree.Turns {
		tree.Prompt(turn, &p)
		assert.Equal(t, 8, p.Tokens)
	}
}

// Pretty-printed JSON is read as one value, whatever the name of the file.
//
// Covers F22.
func TestPrettyPrintedJSON(t *testing.T) {
	var value any
	require.NoError(t, json.Unmarshal([]byte(traceText("a")), &value))
	pretty, err := json.MarshalIndent(value, "", "  ")
	require.NoError(t, err)
	o := options(t, lines(t, traceText("a")))
	o.convert(t)
	want := tables(t, o.Root)
	o = options(t, write(t, "in.json", pretty))
	o.convert(t)
	assert.Equal(t, want, tables(t, o.Root))
	o = options(t, write(t, "in.jsonl", pretty))
	o.convert(t)
	assert.Equal(t, want, tables(t, o.Root))
}

// A dataset can be built again from its provenance, as long as the input exists.
func TestVerifyRebuild(t *testing.T) {
	input := lines(t, traceText("a"))
	o := options(t, input)
	o.Rules.BlockSize, o.Placement.Seed, o.Placement.Backend = 8, -3, rules.SHA256MT
	r := o.convert(t)
	plain := Options{Source: o.Source, disk: o.disk}
	require.NoError(t, VerifyRebuild(t.Context(), o.Root, r.Key, plain))
	staging, err := os.ReadDir(filepath.Join(o.Root, durable.StagingDir))
	require.NoError(t, err)
	assert.Empty(t, staging)

	text, err := os.ReadFile(input)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(input, append(text, '\n'), 0o666))
	err = VerifyRebuild(t.Context(), o.Root, r.Key, plain)
	require.ErrorContains(t, err, "inputs[0].sha256")
	require.NoError(t, os.Remove(input))
	require.ErrorContains(t, VerifyRebuild(t.Context(), o.Root, r.Key, plain), input)
	o = options(t, "-")
	o.Source.Stdin = strings.NewReader(traceText("a"))
	r = o.convert(t)
	require.ErrorContains(t, VerifyRebuild(t.Context(), o.Root, r.Key, plain), "standard input")
	o.Source.Stdin, o.VerifyHit = strings.NewReader(traceText("a")), true
	assert.True(t, o.convert(t).Hit, "the same input is there to be read twice")
}

// Explaining a hit reads no other part of the root, of which there may be thousands.
func TestExplainOfAHitReadsNoOtherPart(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	o.convert(t)
	allocations := func() float64 {
		return testing.AllocsPerRun(1, func() {
			e, err := Explain(t.Context(), o)
			require.NoError(t, err)
			require.True(t, e.Hit)
		})
	}
	before := allocations()
	const others = 1000
	for k := range others {
		for _, kind := range mmapcache.PartKinds() {
			require.NoError(t, os.Mkdir(filepath.Join(o.Root, kind, fmt.Sprintf("%064x", k)), 0o777))
		}
	}
	assert.Less(t, allocations()-before, float64(others))
}

func TestExplain(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	e, err := Explain(t.Context(), o)
	require.NoError(t, err)
	assert.False(t, e.Hit)
	require.Len(t, e.Parts, 4)
	assert.Empty(t, e.Parts[0].Nearest)
	_, err = os.Stat(o.Root)
	require.ErrorIs(t, err, os.ErrNotExist, "it changes nothing")

	r := o.convert(t)
	before := filesOf(t, o.Root)
	e, err = Explain(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, e.Hit)
	assert.Equal(t, r.Key, e.Key)
	assert.Equal(t, r.Path, e.Path)

	other := o
	other.Placement.Seed, other.Rules.BlockSize = 7, 8
	other.Inputs = []string{lines(t, traceText("b"))}
	e, err = Explain(t.Context(), other)
	require.NoError(t, err)
	assert.False(t, e.Hit)
	fields := map[string][]manifest.Difference{}
	for _, p := range e.Parts {
		for _, n := range p.Nearest {
			fields[p.Kind] = append(fields[p.Kind], n.Differences...)
		}
	}
	assert.True(t, e.Parts[2].Hit)
	require.Len(t, fields[mmapcache.StructureKind], 2)
	input := fields[mmapcache.StructureKind][0]
	assert.Equal(t, "inputs[0].sha256", input.Field)
	assert.Contains(t, input.Want, other.Inputs[0])
	assert.Contains(t, input.Have, o.Inputs[0])
	assert.Equal(t, manifest.Difference{Field: "rules.block_size", Want: "8", Have: "0"}, fields[mmapcache.StructureKind][1])
	require.Len(t, fields[mmapcache.PlacementKind], 2)
	assert.Equal(t, manifest.Difference{Field: "draws.seed", Want: "7", Have: "42"}, fields[mmapcache.PlacementKind][0])
	assert.Equal(t, before, filesOf(t, o.Root))

	o.Force = true
	e, err = Explain(t.Context(), o)
	require.NoError(t, err)
	assert.False(t, e.Hit)
	assert.Contains(t, e.Parts[0].Why, "forced")
	o.Force = false
	require.NoError(t, os.Truncate(filepath.Join(o.Root, mmapcache.StructureKind, r.Parts[mmapcache.StructureKind].Key, "turns.arrow"), 3))
	e, err = Explain(t.Context(), o)
	require.NoError(t, err)
	assert.False(t, e.Hit)
	assert.Contains(t, e.Parts[0].Why, "turns.arrow")
}

// Explain says where the flags refuse a hit.
func TestExplainRefusedHit(t *testing.T) {
	o := options(t, lines(t, traceText("a"), "{}"))
	o.SkipInvalid = true
	o.convert(t)
	e, err := Explain(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, e.Hit)
	assert.Empty(t, e.Refused)
	o.SkipInvalid = false
	e, err = Explain(t.Context(), o)
	require.NoError(t, err)
	assert.Contains(t, e.Refused, o.Inputs[0])
}
