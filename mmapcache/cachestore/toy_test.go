package cachestore

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// unsynced skips fsync, which makes builds slow and is tested elsewhere.
var unsynced = durable.Options{Sync: func(*os.File) error { return nil }}

// withoutSync is the context of a test in which nothing is forced to disk.
func withoutSync(t require.TestingT) context.Context {
	return durable.WithOptions(contextOf(t), unsynced)
}

// withSteps is withoutSync with a function that is called before every step on disk.
func withSteps(t require.TestingT, step func(name, path string) error) context.Context {
	return durable.WithOptions(contextOf(t), durable.Options{Sync: unsynced.Sync, Step: step})
}

// onceMarked is a context under which f is called once, when a directory is marked and about to be checked.
func onceMarked(t require.TestingT, f func()) context.Context {
	return withSteps(t, func(name, _ string) error {
		if name == "check" && f != nil {
			once := f
			f = nil
			once()
		}
		return nil
	})
}

// toy is a small dataset: one trace over a corpus of plain tokens.
type toy struct {
	corpus []uint32
	starts []uint32 // of three blocks and two fillers
}

func plainToy(n int) *toy {
	y := &toy{starts: []uint32{0, uint32(n - 2), uint32(n / 2), uint32(n - 1), 1}}
	for k := range n {
		y.corpus = append(y.corpus, uint32(k%8))
	}
	return y
}

// build writes the four directories of a toy below root and returns the dataset's key. salt tells datasets apart.
func (y *toy) build(t require.TestingT, root, salt string) string {
	structure := y.buildStructure(t, root, salt)
	arenas := y.buildArenas(t, root, salt)
	starts := y.buildStarts(t, root, salt)
	return y.part(t, root, mmapcache.DatasetKind, salt, func(b *mmapcache.Builder) error {
		b.AddPart(structure)
		b.AddPart(starts)
		b.AddPart(arenas)
		return nil
	}).Key
}

func (y *toy) buildStructure(t require.TestingT, root, salt string) *manifest.Manifest {
	s := mmapcache.NewStructure()
	require.NoError(t, s.Append(&mmapcache.Plan{
		Trace:    mmapcache.Trace{ID: "t", Scope: "local", BlockSize: 4, Blocks: 3},
		Sessions: []mmapcache.Session{{ID: "t", Parent: mmapcache.None, Turns: 2, SpawnTurn: mmapcache.None, JoinTurn: mmapcache.None}},
		Turns:    []mmapcache.Turn{{In: 14, HashIDs: 3, Last: 1, Model: "m"}, {T: 2, In: 16, HashIDs: 3, Last: 3, Model: "m"}},
		Segments: []mmapcache.Segment{
			{Parent: mmapcache.None, Role: mmapcache.User, First: 0, Count: 3},
			{Parent: 0, Role: mmapcache.User, Flags: mmapcache.Continues | mmapcache.Filler, First: 0, Count: 2},
			{Parent: 0, Role: mmapcache.Assistant, First: 1, Count: 2},
			{Parent: 2, Role: mmapcache.User, Flags: mmapcache.Filler, First: 1, Count: 4},
		},
		Runs: []mmapcache.BlockRun{{Scope: "t", ID: 1, First: 0, Count: 3}},
	}))
	return y.part(t, root, mmapcache.StructureKind, salt, func(b *mmapcache.Builder) error {
		return b.BuildStructure(s, mmapcache.StructureFacts{Traces: 1, Sessions: 1, Turns: 2, Blocks: 3})
	})
}

func (y *toy) buildArenas(t require.TestingT, root, salt string) *manifest.Manifest {
	return y.part(t, root, mmapcache.ArenasKind, salt, func(b *mmapcache.Builder) error {
		text := func(id uint32) ([]byte, bool) { return []byte{'a' + byte(id)}, true }
		markers := mmapcache.NewMarkerPieces(func(s string) []uint32 { return []uint32{uint32(len(s))} })
		return b.BuildArenas(mmapcache.PromptCorpus{Tokens: y.corpus, Bytes: text}, markers)
	})
}

func (y *toy) buildStarts(t require.TestingT, root, salt string) *manifest.Manifest {
	return y.part(t, root, mmapcache.PlacementKind, salt, func(b *mmapcache.Builder) error { return y.writeStarts(t, b) })
}

// buildShards writes a dataset of shards below root, one shard for each salt, and returns its key.
func (y *toy) buildShards(t require.TestingT, root string, salts ...string) string {
	var shards []*manifest.Manifest
	for _, salt := range salts {
		shards = append(shards, y.buildStructure(t, root, salt), y.buildStarts(t, root, salt))
	}
	return y.nameShards(t, root, y.buildArenas(t, root, ""), shards...)
}

// nameShards writes a dataset of shards, which are given as structure and starts in turn, and returns its key.
func (y *toy) nameShards(t require.TestingT, root string, arenas *manifest.Manifest, parts ...*manifest.Manifest) string {
	facts, salt := mmapcache.DatasetFacts{}, ""
	for k := 0; k < len(parts); k += 2 {
		facts.Shards = append(facts.Shards, mmapcache.Shard{Structure: partOf(parts[k]), Starts: partOf(parts[k+1]), Traces: 1, Sessions: 1, Turns: 2, Blocks: 3})
		salt += parts[k].Key + parts[k+1].Key
	}
	n := len(facts.Shards)
	facts.Traces, facts.Sessions, facts.Turns, facts.Blocks = n, n, 2*n, 3*n
	image := map[string]any{"format": mmapcache.FormatShards, "salt": salt, mmapcache.ArenasKind: arenas.Key}
	return y.publish(t, root, mmapcache.DatasetKind, image, func(b *mmapcache.Builder) error {
		b.AddPart(arenas)
		return b.NameShards(facts)
	}).Key
}

func partOf(m *manifest.Manifest) manifest.Part { return manifest.Part{Key: m.Key, Digest: m.Digest} }

func (y *toy) writeStarts(t require.TestingT, b *mmapcache.Builder) error {
	table, err := b.NewPlacement(len(y.starts), len(y.corpus))
	require.NoError(t, err)
	require.NoError(t, table.Put(0, y.starts))
	return table.Close(contextOf(t))
}

func contextOf(t require.TestingT) context.Context {
	return t.(interface{ Context() context.Context }).Context()
}

// part publishes one directory.
func (y *toy) part(t require.TestingT, root, kind, salt string, fill func(*mmapcache.Builder) error) *manifest.Manifest {
	return y.publish(t, root, kind, map[string]string{"kind": kind, "salt": salt}, fill)
}

func (y *toy) publish(t require.TestingT, root, kind string, image any, fill func(*mmapcache.Builder) error) *manifest.Manifest {
	b, err := mmapcache.NewBuilder(withoutSync(t), root, kind, image)
	require.NoError(t, err)
	defer b.Discard()
	writeReadme(root)
	require.NoError(t, fill(b))
	m, err := b.Publish(contextOf(t), mmapcache.Provenance{Created: time.Unix(0, 0).UTC(), Host: "host", Agentx: "test",
		Sources: []mmapcache.Source{{Path: "in", Size: 1, SHA256: "00"}}})
	require.NoError(t, err)
	return m
}

// snapshotOf reads every file below a directory.
func snapshotOf(t *testing.T, dir string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	}))
	return files
}

// stagingOf lists what stands below the staging directory of a root.
func stagingOf(t *testing.T, root string) (names []string) {
	entries, err := os.ReadDir(filepath.Join(root, durable.StagingDir))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// filesOf lists the files of a dataset and its parts that a manifest vouches for, manifests included.
func filesOf(t *testing.T, root, key string) (files []string) {
	info, err := Describe(root, key)
	require.NoError(t, err)
	for _, d := range info.Directories {
		files = append(files, filepath.Join(d.Path, manifest.FileName))
		for _, f := range d.Manifest.Files {
			files = append(files, filepath.Join(d.Path, f.Name))
		}
	}
	return files
}

// hasty is a disk whose pauses take no time.
func hasty(d disk) disk {
	d.Sleep = func(context.Context, time.Duration) error { return nil }
	return d
}

// rewrite changes the manifest of a directory.
func rewrite(t require.TestingT, root, kind, key string, change func(*manifest.Manifest)) {
	dir := filepath.Join(root, kind, key)
	m, err := manifest.Read(dir)
	require.NoError(t, err)
	change(m)
	data, err := m.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifest.FileName), data, 0o666))
}

// readManifest reads a manifest with the real disk.
func readManifest(root, kind, key, digest string) (*manifest.Manifest, error) {
	return realDisk().readManifest(root, kind, key, digest)
}

// use notes and records the use of a dataset, as Open does.
func use(t require.TestingT, root, key string) *Use {
	Touch(root, key)
	return NoteDataset(contextOf(t), root, key)
}

// twins builds two datasets that share a structure and arenas, and returns their keys.
func twins(t *testing.T, root string) (first, second string) {
	y := plainToy(40)
	first = y.build(t, root, "first")
	m, err := readManifest(root, mmapcache.DatasetKind, first, "")
	require.NoError(t, err)
	starts := y.buildStarts(t, root, "second")
	second = y.part(t, root, mmapcache.DatasetKind, "second", func(b *mmapcache.Builder) error {
		for kind, part := range m.Parts {
			b.AddPart(&manifest.Manifest{Kind: kind, Key: part.Key, Digest: part.Digest})
		}
		b.AddPart(starts)
		return nil
	}).Key
	return first, second
}

// keysOf lists the directories of a root by kind.
func keysOf(t *testing.T, root string) map[string]int {
	list, err := List(root)
	require.NoError(t, err)
	n := map[string]int{}
	for _, e := range list {
		n[e.Kind]++
	}
	return n
}

func kindsOf(list []RemovedDirectory) (kinds []string) {
	for _, r := range list {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

func bytesOf(t *testing.T, dir string) (n int64) {
	for _, data := range snapshotOf(t, dir) {
		n += int64(len(data))
	}
	return n
}

// usersOf reads the notes of use of a root.
func usersOf(t require.TestingT, root string) map[string]string {
	notes, users := durable.NewNotes(useDirOf(root)), map[string]string{}
	_, err := notes.Read(time.Now())
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(useDirOf(root), "*.use"))
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range strings.Fields(string(data)) {
			if who := notes.Users(name); who != "" {
				users[name] = who
			}
		}
	}
	return users
}

// dateUse sets the last use of a dataset.
func dateUse(t require.TestingT, root, key string, at time.Time) {
	Touch(root, key)
	require.NoError(t, os.Chtimes(usePath(root, key, usedSuffix), at, at))
}

// entryOf returns the entry of a directory in List.
func entryOf(t require.TestingT, root, kind, key string) Entry {
	list, err := List(root)
	require.NoError(t, err)
	for _, e := range list {
		if e.Kind == kind && e.Key == key {
			return e
		}
	}
	require.Fail(t, "not listed", "%s/%s", kind, key)
	return Entry{}
}

func partKey(t require.TestingT, root, dataset, kind string) string {
	m, err := readManifest(root, mmapcache.DatasetKind, dataset, "")
	require.NoError(t, err)
	return m.Parts[kind].Key
}
