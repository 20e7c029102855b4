package cachestore

import (
	flags "flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// partPool is a root from which model roots are put together: parts, a dataset for every combination of three, and datasets of
// shards, which share shards and name parts that the others name, too.
type partPool struct {
	root     string
	parts    map[string][]string // keys by kind
	datasets []string            // keys
}

func newPartPool(t *testing.T) *partPool {
	y := plainToy(40)
	q := &partPool{root: t.TempDir(), parts: map[string][]string{}}
	var structures, starts, arenas []*manifest.Manifest
	for k := range 2 {
		structures = append(structures, y.buildStructure(t, q.root, fmt.Sprint(k)))
		arenas = append(arenas, y.buildArenas(t, q.root, fmt.Sprint(k)))
	}
	for k := range 3 {
		starts = append(starts, y.buildStarts(t, q.root, fmt.Sprint(k)))
	}
	for _, m := range slices.Concat(structures, starts, arenas) {
		q.parts[m.Kind] = append(q.parts[m.Kind], m.Key)
	}
	for k, a := range arenas {
		for i, s := range structures {
			for j, r := range starts {
				q.datasets = append(q.datasets, y.part(t, q.root, mmapcache.DatasetKind, fmt.Sprint(i, j, k), func(b *mmapcache.Builder) error {
					for _, m := range []*manifest.Manifest{s, r, a} {
						b.AddPart(m)
					}
					return nil
				}).Key)
			}
		}
		for _, shards := range [][]int{{0, 0, 1, 1}, {0, 0, 1, 2}, {0, 0, 0, 1, 0, 0}, {1, 2}} { // structure and starts in turn
			var list []*manifest.Manifest
			for i := 0; i < len(shards); i += 2 {
				list = append(list, structures[shards[i]], starts[shards[i+1]])
			}
			q.datasets = append(q.datasets, y.nameShards(t, q.root, a, list...))
		}
	}
	return q
}

// modelRoot is a root in any state, and what the test knows of it.
type modelRoot struct {
	root     string
	now      time.Time
	datasets map[string]*modelDataset // by key
	noted    map[string]bool          // "kind/key" in use by a process that may live
	young    map[string]bool          // parts made within the hour
	notes    int
	left     int // things that killed processes and removed datasets have left
	close    func()
}

// modelDataset is a dataset of a model root.
type modelDataset struct {
	parts   []string
	used    time.Time
	pinned  bool
	state   string // "whole", "cut", "empty", "foul" or "newer"
	isYoung bool
}

// leaveNote writes a note of use of another process.
func (e *modelRoot) leaveNote(t *rapid.T, owner string, age time.Duration, names []string) {
	path := filepath.Join(useDirOf(e.root), owner+".use")
	require.NoError(t, os.MkdirAll(useDirOf(e.root), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(names, "\n")+"\n"), 0o666))
	require.NoError(t, os.Chtimes(path, e.now.Add(-age), e.now.Add(-age)))
}

// killed returns an owner like this process, with a process id that no process has.
func killed(t require.TestingT) string {
	root, err := os.MkdirTemp("", "")
	require.NoError(t, err)
	defer os.RemoveAll(root)
	u := NoteUse(contextOf(t), root)
	entries, err := os.ReadDir(useDirOf(root))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	u.Close()
	fields := strings.Split(strings.TrimSuffix(entries[0].Name(), ".use"), "_")
	fields[3] = "536870912"
	return strings.Join(fields, "_")
}

func (e *modelRoot) drawNote(t *rapid.T, names []string) {
	e.notes++
	name := fmt.Sprint(e.notes)
	switch rapid.SampledFrom([]string{"", "", "", "live", "dead", "foreign", "silent"}).Draw(t, "note") {
	case "live":
		u := NoteUse(contextOf(t), e.root, names...)
		before := e.close
		e.close = func() { before(); u.Close() }
	case "foreign":
		e.leaveNote(t, "elsewhere_boot_4_12_"+name, 80*time.Minute, names)
	case "dead":
		e.leaveNote(t, killed(t)+name, 0, names)
		e.left++
		return
	case "silent":
		e.leaveNote(t, "elsewhere_boot_4_12_"+name, 100*time.Minute, names)
		e.left++
		return
	default:
		return
	}
	for _, n := range names {
		e.noted[n] = true
	}
}

func (e *modelRoot) copy(t require.TestingT, q *partPool, name string) {
	if _, err := os.Stat(filepath.Join(e.root, name)); err != nil {
		require.NoError(t, os.CopyFS(filepath.Join(e.root, name), os.DirFS(filepath.Join(q.root, name))))
	}
}

func drawRoot(t *rapid.T, q *partPool) *modelRoot {
	root, err := os.MkdirTemp("", "modelRoot")
	require.NoError(t, err)
	e := &modelRoot{root: root, now: time.Now().Truncate(time.Second), datasets: map[string]*modelDataset{}, noted: map[string]bool{}, young: map[string]bool{}}
	e.close = func() { require.NoError(t, os.RemoveAll(root)) }
	hours := func(label string) time.Time {
		return e.now.Add(-time.Duration(rapid.SampledFrom([]float64{0, 0.5, 2, 5, 40, 300}).Draw(t, label) * float64(time.Hour)))
	}
	parts := map[string]bool{}
	for range rapid.IntRange(0, 6).Draw(t, "datasets") {
		key := rapid.SampledFrom(q.datasets).Draw(t, "dataset")
		if e.datasets[key] != nil {
			continue
		}
		d := &modelDataset{}
		for _, part := range partsIn(t, q.root, key) {
			d.parts = append(d.parts, part.Name())
		}
		e.datasets[key] = d
		e.copy(t, q, mmapcache.DatasetKind+"/"+key)
		for _, part := range d.parts {
			e.copy(t, q, part)
			parts[part] = true
		}
		dir := mmapcache.DatasetPath(root, key)
		d.state = rapid.SampledFrom([]string{"whole", "whole", "whole", "whole", "whole", "cut", "empty", "foul", "newer"}).Draw(t, "state")
		switch d.state {
		case "foul": // shards that lead elsewhere, and other parts than datasets have
			rewrite(t, root, mmapcache.DatasetKind, key, func(m *manifest.Manifest) {
				m.Manifest, m.Facts = manifest.PartsInFacts, []byte(`{"shards":[{"structure":{"key":"../../x"}}]}`)
			})
		case "cut":
			require.NoError(t, os.Truncate(filepath.Join(dir, manifest.FileName), 70))
		case "empty":
			require.NoError(t, os.Remove(filepath.Join(dir, manifest.FileName)))
		case "newer":
			newer(t, dir)
		}
		d.used = hours("made")
		d.isYoung = e.now.Sub(d.used) < time.Hour
		require.NoError(t, os.Chtimes(dir, d.used, d.used))
		if rapid.Bool().Draw(t, "recorded") {
			d.used = hours("used")
			dateUse(t, root, key, d.used)
		}
		if d.pinned = rapid.IntRange(0, 4).Draw(t, "pinned") == 0; d.pinned {
			require.NoError(t, Pin(contextOf(t), root, key, "me"))
		}
		names := []string{mmapcache.DatasetKind + "/" + key}
		if rapid.Bool().Draw(t, "with parts") {
			names = append(names, d.parts...)
		}
		e.drawNote(t, names)
	}
	for _, kind := range mmapcache.PartKinds() {
		for _, key := range q.parts[kind] {
			name := kind + "/" + key
			if rapid.IntRange(0, 3).Draw(t, "alone") == 0 {
				e.copy(t, q, name)
				parts[name] = true
				e.drawNote(t, []string{name})
			}
			if parts[name] {
				at := hours("part made")
				e.young[name] = e.now.Sub(at) < time.Hour
				ageDirectory(t, root, kind, key, at)
			}
		}
	}
	e.drawLeftovers(t)
	return e
}

// drawLeftovers leaves what killed processes and removed datasets leave.
func (e *modelRoot) drawLeftovers(t *rapid.T) {
	gone := strings.Repeat("a", 64)
	old := e.now.Add(-2 * time.Hour)
	for _, name := range []string{gone + ".used", gone + ".pin", "." + gone + ".pin.123"} {
		if rapid.IntRange(0, 3).Draw(t, name) == 0 {
			path := filepath.Join(useDirOf(e.root), name)
			require.NoError(t, os.MkdirAll(useDirOf(e.root), 0o777))
			require.NoError(t, os.WriteFile(path, []byte("{}"), 0o666))
			if rapid.Bool().Draw(t, "old") {
				require.NoError(t, os.Chtimes(path, old, old))
				e.left++
			}
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "staging") == 0 {
		dir := filepath.Join(e.root, durable.StagingDir, killed(t))
		require.NoError(t, os.MkdirAll(dir, 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("12345"), 0o666))
		e.left++
	}
}

// held returns what keeps a dataset from GC, "" if nothing does.
func (e *modelRoot) held(key string, keep time.Duration) string {
	d := e.datasets[key]
	switch {
	case d.pinned:
		return "pinned"
	case e.noted[mmapcache.DatasetKind+"/"+key]:
		return "in use"
	case d.state == "newer":
		return "newer"
	case d.state != "whole" && d.isYoung:
		return "young"
	case d.state == "whole" && e.now.Sub(d.used) < keep:
		return "used"
	}
	return ""
}

// opaque reports whether a dataset that cannot be read is left: it might name any part.
func (e *modelRoot) opaque() bool {
	for key, d := range e.datasets {
		if d.state != "whole" && exists(e.root, mmapcache.DatasetKind, key) {
			return true
		}
	}
	return false
}

func (e *modelRoot) named(part string) bool {
	for key, d := range e.datasets {
		if d.state == "whole" && exists(e.root, mmapcache.DatasetKind, key) && slices.Contains(d.parts, part) {
			return true
		}
	}
	return false
}

// In any root and under any options GC removes nothing that is pinned, in use or named, what is left is whole, and small
// enough unless something keeps it. A dry run reports exactly what a run does.
func TestGCAgreesWithItsModel(t *testing.T) {
	q := newPartPool(t)
	if checks := flags.Lookup("rapid.checks"); os.Getenv("AGENTX_LONG") == "" && checks.Value.String() == checks.DefValue {
		require.NoError(t, checks.Value.Set("30"))
		defer func() { require.NoError(t, checks.Value.Set(checks.DefValue)) }()
	}
	rapid.Check(t, func(t *rapid.T) {
		e := drawRoot(t, q)
		defer func() { e.close() }()
		before := totalOf(t, e.root)
		hour := func(label string, list ...float64) time.Duration {
			return time.Duration(rapid.SampledFrom(list).Draw(t, label) * float64(time.Hour))
		}
		o := GCOptions{MaxAge: hour("max age", 0, 0, 1, 10, 100), now: e.now}
		if rapid.Bool().Draw(t, "limited") {
			o.MaxBytes = new(rapid.Int64Range(0, before).Draw(t, "max bytes"))
		}
		keep := hour("keep", 0, 0, 1, 10, 1000)
		if keep > 0 || rapid.Bool().Draw(t, "keep given") {
			o.Keep = &keep
		}

		o.DryRun = true
		was := names(t, e.root)
		said := gc(t, e.root, e.now, o)
		delete(was, durable.StagingDir) // GC takes the time there
		require.Equal(t, was, func() map[string]bool { n := names(t, e.root); delete(n, durable.StagingDir); return n }(), "a dry run changes nothing")
		o.DryRun = false
		r := gc(t, e.root, e.now, o)
		said.DryRun = false
		require.Equal(t, said, r)

		require.Len(t, r.Swept, e.left)
		require.Equal(t, totalOf(t, e.root), r.BytesAfter)
		require.Equal(t, r.BytesBefore-r.BytesAfter, r.Freed)
		e.checkDatasets(t, o, keep)
		e.checkParts(t, r)
		e.checkSize(t, o, keep, r)

		again := gc(t, e.root, e.now, o)
		require.Empty(t, again.Removed)
		require.Empty(t, again.Swept)
	})
}

// names lists everything below a directory.
func names(t require.TestingT, dir string) map[string]bool {
	list := map[string]bool{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		list[path] = true
		return err
	}))
	return list
}

func (e *modelRoot) checkDatasets(t *rapid.T, o GCOptions, keep time.Duration) {
	for key, d := range e.datasets {
		there, held := exists(e.root, mmapcache.DatasetKind, key), e.held(key, keep)
		switch {
		case held != "":
			require.True(t, there, "held: %s", held)
		case d.state != "whole":
			require.False(t, there, "damaged datasets go")
		case o.MaxAge > 0 && e.now.Sub(d.used) > o.MaxAge:
			require.False(t, there, "too old")
		case o.MaxBytes == nil:
			require.True(t, there, "no option asks for its removal")
		}
		if there && d.state == "whole" {
			whole(t, e.root, key)
		}
	}
}

func (e *modelRoot) checkParts(t *rapid.T, r *GCReport) {
	gone := map[string]bool{}
	for _, m := range r.Removed {
		name := m.Kind + "/" + m.Key
		gone[name] = true
		require.False(t, exists(e.root, m.Kind, m.Key))
		require.False(t, e.noted[name], "in use")
		require.NotEmpty(t, m.Why)
		if m.Kind == mmapcache.DatasetKind {
			continue
		}
		require.False(t, e.named(name))
		require.False(t, e.opaque(), "it might be named")
		for key, d := range e.datasets { // the dataset goes before its parts
			if d.state == "whole" && slices.Contains(d.parts, name) {
				require.True(t, gone[mmapcache.DatasetKind+"/"+key])
			}
		}
	}
	for _, kind := range mmapcache.PartKinds() {
		keys, err := realDisk().keysOf(e.root, kind)
		require.NoError(t, err)
		for _, key := range keys {
			name := kind + "/" + key
			require.True(t, e.named(name) || e.noted[name] || e.young[name] || e.opaque(), "nothing needs %s", name)
		}
	}
}

func (e *modelRoot) checkSize(t *rapid.T, o GCOptions, keep time.Duration, r *GCReport) {
	last, freed := time.Time{}, int64(0)
	for k, m := range r.Removed {
		if strings.HasPrefix(m.Why, "least recently used") {
			last, freed = e.datasets[m.Key].used, 0
			require.NotNil(t, o.MaxBytes)
		}
		if freed += m.Bytes; k == len(r.Removed)-1 && !last.IsZero() {
			require.Greater(t, r.BytesAfter+freed, *o.MaxBytes, "the last one need not have gone")
		}
	}
	for key := range e.datasets {
		if !exists(e.root, mmapcache.DatasetKind, key) || e.held(key, keep) != "" {
			continue
		}
		require.True(t, o.MaxBytes == nil || r.BytesAfter <= *o.MaxBytes, "%s could go", key)
		require.False(t, e.datasets[key].used.Before(last), "it was used before one that went")
	}
}
