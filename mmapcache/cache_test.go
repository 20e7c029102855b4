package mmapcache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
	"github.com/agentx/agentx/mmapcache/internal/cachedir/faultdisk"
)

func TestOpenOfMissingDatasetNamesThePath(t *testing.T) {
	root := t.TempDir()
	_, err := Open(root, "0123456789")
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, DatasetPath(root, "0123456789"))
}

// A directory renamed to another key is not the cache of that key.
func TestOpenChecksTheKeyAgainstTheName(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	require.NoError(t, os.Rename(DatasetPath(root, key), DatasetPath(root, "0123456789")))
	_, err := Open(root, "0123456789")
	assert.ErrorIs(t, err, manifest.ErrDamaged)
}

// Valid digests over parts that do not fit together, as a faulty program would write them. Open or Render refuses them and
// names the file; so does Verify.
func TestPartsThatDoNotFitAreRefused(t *testing.T) {
	words := func(kind string, list ...uint32) func(io.Writer) error {
		return func(w io.Writer) error { return writeFlat(w, kind, list) }
	}
	for name, spoil := range map[string]struct {
		file  string
		write func(io.Writer) error
	}{
		"a token less":             {idOffsetsFile, words(kindIDOffsets, 0, 2)},
		"first offset":             {textOffsetsFile, words(kindTextOffsets, 1, 1, 2, 3)},
		"last offset":              {textOffsetsFile, words(kindTextOffsets, 0, 1, 2, 4)},
		"offsets go back":          {textOffsetsFile, words(kindTextOffsets, 0, 3, 1, 3)},
		"offset beyond":            {idOffsetsFile, words(kindIDOffsets, 0, 7, 8, 6)},
		"split beyond":             {splitsFile, words(kindSplits, 3)},
		"splits out of order":      {splitsFile, words(kindSplits, 2, 1)},
		"ill-formed token beyond":  {illFormedFile, words(kindIllFormed, 0, 1, 99)},
		"ill-formed token twice":   {illFormedFile, words(kindIllFormed, 1, 1)},
		"empty file":               {"ids.txt", func(io.Writer) error { return nil }},
		"another kind of file":     {splitsFile, words(kindIllFormed)},
		"elements of another size": {splitsFile, func(w io.Writer) error { return writeFlat(w, kindSplits, []byte{}) }},
		"more tokens than counted": {"tokens.u32", words(kindTokens, 0, 0, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			y, root := plainToy(40), t.TempDir()
			y.corpus = []uint32{0, 0, 0} // "aaa" and "0,0,0,"
			y.starts = [][]uint32{{0, 1, 2, 0, 0}}
			structure := y.buildStructure(t, root, "")
			starts := y.part(t, root, PlacementKind, "", func(b *Builder) error { return y.writeStarts(t, b) })
			arenas := y.part(t, root, ArenasKind, "", func(b *Builder) error {
				for name, write := range map[string]func(io.Writer) error{
					"tokens.u32": words(kindTokens, y.corpus...), textOffsetsFile: words(kindTextOffsets, 0, 1, 2, 3),
					"text.json":   func(w io.Writer) error { return writeFlat(w, kindText, []byte("aaa")) },
					"ids.txt":     func(w io.Writer) error { return writeFlat(w, kindIDs, []byte("0,0,0,")) },
					idOffsetsFile: words(kindIDOffsets, 0, 2, 4, 6), splitsFile: words(kindSplits), illFormedFile: words(kindIllFormed),
				} {
					if name == spoil.file {
						write = spoil.write
					}
					if err := b.writeFile(name, write); err != nil {
						return err
					}
				}
				return b.setFacts(ArenaFacts{Tokens: 3})
			})
			key := y.part(t, root, DatasetKind, "", func(b *Builder) error {
				b.AddPart(structure)
				b.AddPart(starts)
				b.AddPart(arenas)
				return nil
			}).Key
			c, err := Open(root, key)
			if err == nil {
				err = walk(c)
				require.NoError(t, c.Close())
			}
			assert.ErrorIs(t, err, manifest.ErrDamaged)
			v, verifyErr := Verify(t.Context(), root, key)
			require.NoError(t, verifyErr)
			require.Len(t, v.Damages, 1)
			assert.Contains(t, v.Damages[0].Reason, filepath.Join(root, ArenasKind, arenas.Key))
		})
	}
}

func TestDatasetWithoutAllPartsIsRefused(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	structure := y.buildStructure(t, root, "")
	m := y.part(t, root, DatasetKind, "", func(b *Builder) error { b.AddPart(structure); return nil })
	_, err := Open(root, m.Key)
	assert.ErrorIs(t, err, manifest.ErrDamaged)
	v, err := Verify(t.Context(), root, m.Key)
	require.NoError(t, err)
	assert.NotEmpty(t, v.Damages)
}

func TestStructureOpensAlone(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	m := y.buildStructure(t, root, "")
	c, err := OpenStructure(root, m.Key)
	require.NoError(t, err)
	assert.Equal(t, asAppended(y.plans[0]), asAppended(c.Structure.Plan(0)))
	assert.Equal(t, 3, c.Structure.Blocks())
	require.NoError(t, c.Close())
	_, err = OpenStructure(root, "0123456789")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// Changing the file of a table while it is in use changes nothing: Open has read and checked it.
func TestTablesChangedWhileInUse(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	m := y.buildStructure(t, root, "")
	c, err := OpenStructure(root, m.Key)
	require.NoError(t, err)
	defer c.Close()
	want := asAppended(y.plans[0])
	for _, f := range m.Files {
		path := filepath.Join(root, StructureKind, m.Key, f.Name)
		good, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, other := range [][]byte{nil, good[:8], bytes.Repeat([]byte{0xee}, len(good))} {
			require.NoError(t, os.WriteFile(path, other, 0o666)) // in place
			assert.Equal(t, want, asAppended(c.Structure.Plan(0)), "%s of %d bytes", f.Name, len(other))
			_, err := OpenStructure(root, m.Key)
			require.ErrorIs(t, err, manifest.ErrDamaged)
			require.ErrorContains(t, err, path)
		}
		require.NoError(t, os.WriteFile(path, good, 0o666))
	}
}

// publish publishes a directory with the given pre-image, files and parts.
func publish(t *testing.T, root, kind string, image any, files map[string]string, parts ...*manifest.Manifest) *manifest.Manifest {
	b, err := NewBuilder(withoutSync(t), root, kind, image)
	require.NoError(t, err)
	defer b.Discard()
	for name, text := range files {
		require.NoError(t, b.writeFile(name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }))
	}
	for _, p := range parts {
		b.AddPart(p)
	}
	m, err := b.Publish(t.Context(), Provenance{})
	require.NoError(t, err)
	return m
}

// A cache in another format is not damaged: the error says what to do. One that names no format is accepted.
func TestAnotherFormatIsNoDamage(t *testing.T) {
	y := plainToy(40)
	for format, shown := range map[string]string{`5`: "5", `0`: "0", `"1"`: `"1"`, `1`: "", `2`: "", `null`: "null", `{}`: "{}"} {
		t.Run(format, func(t *testing.T) {
			image := func(kind string) any {
				return map[string]any{"another": []int{1}, "format": json.RawMessage(format), "kind": kind, "z": nil}
			}
			root := t.TempDir()
			list := directoriesOf(t, root, y.build(t, root, ""))
			parts := []*manifest.Manifest{list[1].Manifest, list[2].Manifest, list[3].Manifest}
			arenas := snapshotOf(t, list[3].Path)
			files := map[string]string{}
			for _, f := range parts[2].Files {
				files[f.Name] = arenas[filepath.Join(list[3].Path, f.Name)]
			}
			odd := publish(t, root, DatasetKind, image(DatasetKind), nil, parts...)
			oddPart := publish(t, root, ArenasKind, image(ArenasKind), files)
			oddParts := publish(t, root, DatasetKind, "of other arenas", nil, parts[0], parts[1], oddPart)
			for m, dir := range map[*manifest.Manifest]string{
				odd: filepath.Join(root, DatasetKind, odd.Key), oddParts: filepath.Join(root, ArenasKind, oddPart.Key),
			} {
				want := fmt.Sprintf("%s: made in cache format %s: this agentx reads formats 1 to 4: convert again, or use the agentx that made it", dir, shown)
				check := func(err error) {
					t.Helper()
					if shown != "" {
						require.EqualError(t, err, want)
						require.NotErrorIs(t, err, manifest.ErrDamaged)
					}
				}
				c, err := Open(root, m.Key)
				check(err)
				if shown == "" && m == odd {
					require.NoError(t, err)
					require.NoError(t, c.Close())
				}
				v, err := Verify(t.Context(), root, m.Key)
				check(err)
				if shown != "" {
					assert.Empty(t, v.Damages)
				}
				kind, key := filepath.Base(filepath.Dir(dir)), filepath.Base(dir)
				_, err = Lookup(root, kind, key)
				check(err)
			}
		})
	}
}

func TestFormatOf(t *testing.T) {
	for image, format := range map[string]string{
		`{"format":2}`: "2", `{"a":{"format":1},"b":["format",1],"format":[2],"g":1}`: "[2]",
		`{}`: "", `{"a":{"format":2}}`: "", `["format",2]`: "", `"format"`: "", `2`: "", ``: "",
	} {
		assert.Equal(t, format, formatOf([]byte(image)), image)
	}
}

// A directory has the files of its kind, and a dataset its parts: a manifest that says otherwise is damage, found before
// anything is opened.
func TestManifestsThatListOtherThings(t *testing.T) {
	y := plainToy(40)
	root := t.TempDir()
	list := directoriesOf(t, root, y.build(t, root, ""))
	n := 0
	check := func(name string, parts ...*manifest.Manifest) {
		n++
		key := publish(t, root, DatasetKind, n, nil, parts...).Key
		_, err := Open(root, key)
		assert.ErrorIs(t, err, manifest.ErrDamaged, name)
		assert.ErrorContains(t, err, name)
		v, err := Verify(t.Context(), root, key)
		require.NoError(t, err)
		require.NotEmpty(t, v.Damages, name)
		assert.Contains(t, v.Damages[0].Reason, name)
	}
	for k, d := range list[1:] {
		all := map[string]string{}
		for _, f := range d.Manifest.Files {
			data, err := os.ReadFile(filepath.Join(d.Path, f.Name))
			require.NoError(t, err)
			all[f.Name] = string(data)
		}
		with := func(change string, files map[string]string) {
			parts := []*manifest.Manifest{list[1].Manifest, list[2].Manifest, list[3].Manifest}
			parts[k] = publish(t, root, d.Manifest.Kind, change, files)
			check(change, parts...)
		}
		for name, data := range all {
			delete(all, name)
			with(name, all)
			all[name] = data
		}
		all["more"] = "1"
		with("more", all)
	}
	structure, starts, arenas := list[1].Manifest, list[2].Manifest, list[3].Manifest
	check(PlacementKind, structure, arenas)
	check("4 parts", structure, starts, arenas, &manifest.Manifest{Kind: "more", Key: "k"})
	part := publish(t, root, PlacementKind, "parts of a part", map[string]string{placementFile: "1"}, structure)
	check("names 1 parts", structure, part, arenas)
	file := publish(t, root, DatasetKind, "a file of a dataset", map[string]string{"more": "1"}, structure, starts, arenas)
	_, err := Open(root, file.Key)
	assert.ErrorContains(t, err, filepath.Join("dataset", file.Key, "more")+": damaged")
}

// A directory that another host has just published is found, although this one remembers that it was missing.
func TestRememberedAbsenceIsLookedUpAgain(t *testing.T) {
	y, root := plainToy(40), filepath.Join(t.TempDir(), "a", "root")
	key := y.build(t, root, "")
	list := directoriesOf(t, root, key)
	var ways []string // to the manifests
	for _, d := range list {
		for path := d.Path; path != filepath.Dir(filepath.Dir(root)); path = filepath.Dir(path) {
			ways = append(ways, path)
		}
	}
	sets := [][]string{ways}
	for _, path := range ways {
		sets = append(sets, []string{path})
	}
	for _, missing := range sets {
		c := &faultdisk.Client{Missing: map[string]bool{}}
		forget := func() {
			for _, path := range missing {
				c.Missing[path] = true
			}
		}
		for _, d := range list {
			forget()
			m, err := disk{c.Disk()}.lookup(root, d.Manifest.Kind, d.Manifest.Key, true)
			require.NoError(t, err)
			require.NotNil(t, m, "%s", missing)
			forget()
			_, err = c.Disk().Find(d.Path)
			require.NoError(t, err, "%s", missing)
		}
		forget()
		open := newCache(root, disk{c.Disk()})
		require.NoError(t, open.open(key))
		require.NoError(t, open.Close())
	}

	c := &faultdisk.Client{}
	for _, path := range []string{root, filepath.Join(root, "nothing"), filepath.Join(root, "nothing", "at", "all")} {
		c.Lists = 0
		m, err := disk{c.Disk()}.lookup(path, ArenasKind, "0123456789", true)
		require.NoError(t, err)
		assert.Nil(t, m, "what is missing is missing")
		assert.LessOrEqual(t, c.Lists, 32)
	}
}

// Each call in turn fails with ESTALE once: the caller does not notice.
func TestStaleOnce(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	missing := "0123456789"
	whole, err := Verify(t.Context(), root, key)
	require.NoError(t, err)
	for name, use := range map[string]func(d, mapped disk){
		"lookup": func(d, _ disk) {
			m, err := d.lookup(root, DatasetKind, key, true)
			require.NoError(t, err)
			require.Equal(t, key, m.Key)
			p, err := d.readProvenance(DatasetPath(root, key))
			require.NoError(t, err)
			require.Equal(t, "host", p.Host)
		},
		"lookup of files": func(d, _ disk) {
			list, err := os.ReadDir(filepath.Join(root, StructureKind))
			require.NoError(t, err)
			m, err := d.lookup(root, StructureKind, list[0].Name(), true)
			require.NoError(t, err)
			require.NotNil(t, m)
		},
		"lookup of nothing": func(d, _ disk) {
			m, err := d.lookup(root, DatasetKind, missing, true)
			require.NoError(t, err)
			require.Nil(t, m)
		},
		"open": func(_, d disk) {
			c := newCache(root, d)
			require.NoError(t, c.open(key))
			require.NoError(t, c.Close())
		},
		"verify": func(_, d disk) {
			v, err := d.verifyDirectory(t.Context(), root, DatasetKind, key)
			require.NoError(t, err)
			require.Equal(t, whole, v)
		},
		"verify what is read": func(d, _ disk) {
			v := newVerifier(d, root)
			dataset, err := v.part(t.Context(), DatasetKind, manifest.Part{Key: key})
			require.NoError(t, err)
			for _, kind := range PartKinds() {
				_, err = v.part(t.Context(), kind, dataset.Parts[kind])
				require.NoError(t, err)
			}
			require.Equal(t, whole, v.Verification)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for fail := 1; ; fail++ {
				s := &faultdisk.Stale{Fails: func(call int) error {
					if call == fail {
						return syscall.ESTALE
					}
					return nil
				}}
				use(disk{s.Disk(false)}, disk{s.Disk(true)})
				if s.Calls < fail {
					require.Greater(t, fail, 2)
					break
				}
			}
		})
	}
}

// A file for which the server always answers ESTALE is gone.
func TestStaleForGood(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	d := realDisk()
	stale := func(err error) error {
		if os.IsNotExist(err) {
			return &fs.PathError{Op: "reach", Path: "what is gone", Err: syscall.ESTALE}
		}
		return err
	}
	server := disk{cachedir.Disk{
		Open:    func(path string) (fs.File, int64, error) { f, n, err := d.Open(path); return f, n, stale(err) },
		Stat:    func(path string) (fs.FileInfo, error) { info, err := d.Stat(path); return info, stale(err) },
		ReadDir: func(dir string) ([]fs.DirEntry, error) { list, err := d.ReadDir(dir); return list, stale(err) },
	}}
	list := directoriesOf(t, root, key)
	dir := list[1].Path
	lookup := func(d disk) (*manifest.Manifest, error) {
		return d.lookup(root, StructureKind, filepath.Base(dir), true)
	}

	path := filepath.Join(dir, "turns.arrow")
	require.NoError(t, os.Rename(path, filepath.Join(root, "aside")))
	_, err := lookup(server)
	assert.ErrorIs(t, err, manifest.ErrDamaged)
	assert.ErrorContains(t, err, path)
	c := newCache(root, server)
	err = c.open(key)
	assert.ErrorIs(t, err, manifest.ErrDamaged)
	assert.ErrorContains(t, err, path)
	require.NoError(t, c.Close())
	v, err := server.verifyDirectory(t.Context(), root, DatasetKind, key)
	require.NoError(t, err)
	require.Len(t, v.Damages, 1)
	assert.Equal(t, path, v.Damages[0].File)
	require.NoError(t, os.Rename(filepath.Join(root, "aside"), path))

	racing := server // the directory goes after its manifest has been read
	racing.Stat = func(path string) (fs.FileInfo, error) {
		require.NoError(t, os.RemoveAll(dir))
		return server.Stat(path)
	}
	m, err := lookup(racing)
	require.NoError(t, err)
	assert.Nil(t, m)
	m, err = lookup(server)
	require.NoError(t, err)
	assert.Nil(t, m)
	_, err = server.readManifest(root, StructureKind, filepath.Base(dir), "")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// kindOf is the answer to a stat with another kind of file.
type kindOf struct {
	fs.FileInfo
	mode fs.FileMode
}

func (k kindOf) Mode() fs.FileMode { return k.mode }

func TestLookupTellsDamageFromUnreadable(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.buildStructure(t, root, "").Key
	d := realDisk()
	lookup := func(stat func(path string) (fs.FileInfo, error)) error {
		m, err := disk{cachedir.Disk{Open: d.Open, Stat: stat, ReadDir: d.ReadDir}}.lookup(root, StructureKind, key, true)
		require.Nil(t, m)
		return err
	}
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EACCES} {
		err := lookup(func(path string) (fs.FileInfo, error) {
			return nil, &fs.PathError{Op: "stat", Path: path, Err: errno}
		})
		assert.ErrorIs(t, err, errno)
		assert.NotErrorIs(t, err, manifest.ErrDamaged)
	}
	err := lookup(func(path string) (fs.FileInfo, error) {
		info, err := d.Stat(path)
		return kindOf{info, fs.ModeNamedPipe}, err
	})
	assert.ErrorIs(t, err, manifest.ErrDamaged)
	require.NoError(t, os.Remove(filepath.Join(root, StructureKind, key, "turns.arrow")))
	require.NoError(t, os.Symlink("turns.arrow", filepath.Join(root, StructureKind, key, "turns.arrow")))
	assert.ErrorIs(t, lookup(d.Stat), manifest.ErrDamaged)
}

func TestLookup(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	m, err := Lookup(root, StructureKind, "0123456789")
	require.NoError(t, err)
	assert.Nil(t, m)
	built := y.buildStructure(t, root, "")
	m, err = Lookup(root, StructureKind, built.Key)
	require.NoError(t, err)
	assert.Equal(t, built.Digest, m.Digest)
	dir := filepath.Join(root, StructureKind, built.Key)
	for _, spoil := range []func(string) error{
		func(path string) error { return os.Truncate(path, 10) }, os.Remove,
		func(string) error { return os.Remove(filepath.Join(dir, manifest.FileName)) },
	} {
		require.NoError(t, spoil(filepath.Join(dir, "turns.arrow")))
		m, err = Lookup(root, StructureKind, built.Key)
		assert.ErrorIs(t, err, manifest.ErrDamaged)
		assert.ErrorContains(t, err, dir)
		assert.Nil(t, m)
	}
}
